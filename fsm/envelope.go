package fsm

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

const (
	// EnvelopeFormat is the format of Envelope that this build reads and writes.
	EnvelopeFormat = 1
	// MaxEntryBytes bounds an encoded envelope (I20): an entry must not stall replication.
	MaxEntryBytes = 1 << 20
	// MaxBatchRecords bounds the records of one batch (I20), as Kafka does.
	MaxBatchRecords = 10_000
)

// DecodeEnvelope reads what one Raft entry carries. It refuses what this build does not know (a format, a kind, a
// field at any depth), because folding half of an entry would make this node differ from the others.
func DecodeEnvelope(entry []byte) (*metadatav1.Envelope, error) {
	if len(entry) > MaxEntryBytes {
		return nil, fmt.Errorf("decode envelope: %d bytes, at most %d", len(entry), MaxEntryBytes)
	}
	env := &metadatav1.Envelope{}
	if err := proto.Unmarshal(entry, env); err != nil {
		return nil, fmt.Errorf("decode envelope: %w", err)
	}
	if err := errors.Join(checkEnvelope(env), refuseUnknown(env.ProtoReflect())); err != nil {
		return nil, fmt.Errorf("decode envelope: %w", err)
	}
	return env, nil
}

// EncodeEnvelope is the reverse of DecodeEnvelope and refuses what DecodeEnvelope would.
func EncodeEnvelope(env *metadatav1.Envelope) ([]byte, error) {
	if err := errors.Join(checkEnvelope(env), refuseUnknown(env.ProtoReflect())); err != nil {
		return nil, fmt.Errorf("encode envelope: %w", err)
	}
	entry, err := proto.MarshalOptions{Deterministic: true}.Marshal(env)
	if err != nil {
		return nil, fmt.Errorf("encode envelope: %w", err)
	}
	if len(entry) > MaxEntryBytes {
		return nil, fmt.Errorf("encode envelope: %d bytes, at most %d", len(entry), MaxEntryBytes)
	}
	return entry, nil
}

// checkEnvelope verifies the shape of an envelope, not what it states. Apply does so too: it may be handed an
// envelope that was never decoded.
func checkEnvelope(env *metadatav1.Envelope) error {
	if env == nil {
		return errors.New("no envelope")
	}
	if env.GetFormat() != EnvelopeFormat {
		return fmt.Errorf("format %d is not known, this build knows %d", env.GetFormat(), EnvelopeFormat)
	}
	if len(env.GetBatches()) == 0 {
		return errors.New("no batch")
	}
	for i, b := range env.GetBatches() {
		if err := checkBatch(b); err != nil {
			return fmt.Errorf("batch %d: %w", i, err)
		}
	}
	return nil
}

func checkBatch(b *metadatav1.Batch) error {
	if n := len(b.GetRecords()); n == 0 || n > MaxBatchRecords {
		return fmt.Errorf("%d records, want 1 to %d", n, MaxBatchRecords)
	}
	if n := len(b.GetRequestId()); n != 0 && n != len(UUID{}) {
		return fmt.Errorf("request id has %d bytes, want none or %d", n, len(UUID{}))
	}
	for i, r := range b.GetRecords() {
		if recordKind(r) == 0 {
			return fmt.Errorf("record %d has no kind that this build knows", i)
		}
	}
	return nil
}

// refuseUnknown returns an error for a field or an enum value that this build does not know, at any depth.
func refuseUnknown(m protoreflect.Message) error {
	if n := len(m.GetUnknown()); n != 0 {
		return fmt.Errorf("%s has %d bytes of unknown fields", m.Descriptor().FullName(), n)
	}
	var err error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() == protoreflect.EnumKind && !f.IsList():
			if f.Enum().Values().ByNumber(v.Enum()) == nil {
				err = fmt.Errorf("%s has the unknown value %d", f.FullName(), v.Enum())
			}
		case f.Kind() != protoreflect.MessageKind:
		case f.IsList():
			err = refuseUnknownIn(v.List())
		default:
			err = refuseUnknown(v.Message())
		}
		return err == nil
	})
	return err
}

func refuseUnknownIn(list protoreflect.List) error {
	for i := range list.Len() {
		if err := refuseUnknown(list.Get(i).Message()); err != nil {
			return err
		}
	}
	return nil
}

// isClaim reports whether the entry is a claim: one batch with one record and none of the fields that a claimant
// cannot know.
func isClaim(env *metadatav1.Envelope) bool {
	if env.ControllerEpoch != nil || env.ClaimOffset != nil || env.FirstMetadataOffset != nil || env.DigestBefore != nil {
		return false
	}
	return len(env.GetBatches()) == 1 && len(env.GetBatches()[0].GetRecords()) == 1 &&
		env.GetBatches()[0].GetRecords()[0].GetControllerClaimed() != nil
}
