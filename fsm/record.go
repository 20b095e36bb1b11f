package fsm

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// recordKinds is the oneof that every fact is a member of.
var recordKinds protoreflect.OneofDescriptor = (*metadatav1.Record)(nil).ProtoReflect().Descriptor().Oneofs().ByName("kind")

// recordKind returns the field number of the record's kind, 0 if it states nothing that this build knows.
func recordKind(r *metadatav1.Record) uint32 {
	m := r.ProtoReflect()
	f := m.WhichOneof(recordKinds)
	if f == nil || !m.Get(f).Message().IsValid() {
		return 0
	}
	return uint32(f.Number())
}
