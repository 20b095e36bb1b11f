package fsm

import (
	"google.golang.org/protobuf/encoding/protowire"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// Nearly every record of a large snapshot is a Partition. These are spelled and read here by hand, field by field as
// protobuf would, because the general way costs several times as much; it stays the judge of everything else, and of
// every spelling that this one does not expect.

// Field numbers of metadata.v1.Partition, in the order in which they are spelled.
const (
	fieldTopicID = iota + 1
	fieldPartitionID
	fieldReplicas
	fieldISR
	fieldRemoving
	fieldAdding
	fieldLeader
	fieldLeaderEpoch
	fieldPartitionEpoch
	fieldRecovering
	fieldAwaiting
	fieldELR
	fieldLastKnownELR
	fieldDirectories
)

// partitionKind is the number of a Partition in Record.
const partitionKind = 2

// fieldRecords is the number of the records in SnapshotChunk.
const fieldRecords protowire.Number = 1

// appendPartition appends the fields of a partition's message.
func appendPartition(b []byte, id PartitionID, p *Partition) []byte {
	b = protowire.AppendTag(b, fieldTopicID, protowire.BytesType)
	b = protowire.AppendBytes(b, id.Topic[:])
	b = appendInt32(b, fieldPartitionID, id.Partition)
	b = appendInt32s(b, fieldReplicas, p.Replicas)
	b = appendInt32s(b, fieldISR, p.ISR)
	b = appendInt32s(b, fieldRemoving, p.Removing)
	b = appendInt32s(b, fieldAdding, p.Adding)
	b = appendInt32(b, fieldLeader, p.Leader)
	b = appendInt32(b, fieldLeaderEpoch, p.LeaderEpoch)
	b = appendInt32(b, fieldPartitionEpoch, p.PartitionEpoch)
	b = appendFlag(b, fieldRecovering, p.Recovering)
	b = appendFlag(b, fieldAwaiting, p.AwaitingInventory)
	b = appendInt32s(b, fieldELR, p.ELR)
	b = appendInt32s(b, fieldLastKnownELR, p.LastKnownELR)
	for i := range p.Directories {
		b = protowire.AppendTag(b, fieldDirectories, protowire.BytesType)
		b = protowire.AppendBytes(b, p.Directories[i][:])
	}
	return b
}

// appendInt32 appends a number, which protobuf leaves out when it is 0.
func appendInt32(b []byte, field protowire.Number, v int32) []byte {
	if v == 0 {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(int64(v))) //nolint:gosec // as protobuf does, a negative number in ten bytes
}

func appendFlag(b []byte, field protowire.Number, set bool) []byte {
	if !set {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, 1)
}

// appendInt32s appends a packed list, which protobuf leaves out when it is empty.
func appendInt32s(b []byte, field protowire.Number, list []int32) []byte {
	if len(list) == 0 {
		return b
	}
	size := 0
	for _, v := range list {
		size += protowire.SizeVarint(uint64(int64(v))) //nolint:gosec // see appendInt32
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size)) //nolint:gosec // a size is not negative
	for _, v := range list {
		b = protowire.AppendVarint(b, uint64(int64(v))) //nolint:gosec // see appendInt32
	}
	return b
}

// partitionReader reads Partition records. Its lists are used again for the next one, so what it read is copied by who
// keeps it.
type partitionReader struct {
	id PartitionID
	p  Partition
}

// read reads a Record that is a Partition, spelled as appendPartition spells it. It returns false for anything else,
// which the general way must judge.
func (r *partitionReader) read(record []byte) bool {
	field, kind, n := protowire.ConsumeTag(record)
	if n < 0 || field != partitionKind || kind != protowire.BytesType {
		return false
	}
	message, m := protowire.ConsumeBytes(record[n:])
	if m < 0 || n+m != len(record) {
		return false
	}
	p := &r.p
	*p = Partition{
		Replicas: p.Replicas[:0], ISR: p.ISR[:0], Adding: p.Adding[:0], Removing: p.Removing[:0],
		ELR: p.ELR[:0], LastKnownELR: p.LastKnownELR[:0], Directories: p.Directories[:0],
	}
	r.id = PartitionID{}
	var last protowire.Number
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 || field < last || (field == last && field != fieldDirectories) {
			return false
		}
		message, last = message[n:], field
		if n = r.field(field, kind, message); n < 0 {
			return false
		}
		message = message[n:]
	}
	return !r.id.Topic.IsZero()
}

// field reads the value of a field and returns its length, -1 for one that is not expected.
func (r *partitionReader) field(field protowire.Number, kind protowire.Type, b []byte) int {
	if kind == protowire.VarintType {
		if v, n := protowire.ConsumeVarint(b); n >= 0 && r.number(field, v) {
			return n
		}
	}
	if kind == protowire.BytesType {
		if v, n := protowire.ConsumeBytes(b); n >= 0 && r.bytes(field, v) {
			return n
		}
	}
	return -1
}

func (r *partitionReader) number(field protowire.Number, v uint64) bool {
	i := int32(v)                                                                //nolint:gosec // as protobuf does, verified next
	if uint64(int64(i)) != v || v == 0 || (field >= fieldRecovering && v != 1) { //nolint:gosec // see appendInt32
		return false
	}
	switch int(field) {
	case fieldPartitionID:
		r.id.Partition = i
	case fieldLeader:
		r.p.Leader = i
	case fieldLeaderEpoch:
		r.p.LeaderEpoch = i
	case fieldPartitionEpoch:
		r.p.PartitionEpoch = i
	case fieldRecovering:
		r.p.Recovering = true
	case fieldAwaiting:
		r.p.AwaitingInventory = true
	default:
		return false
	}
	return true
}

func (r *partitionReader) bytes(field protowire.Number, v []byte) bool {
	p := &r.p
	switch int(field) {
	case fieldTopicID:
		return readUUID(&r.id.Topic, v)
	case fieldReplicas:
		return readInt32s(&p.Replicas, v)
	case fieldISR:
		return readInt32s(&p.ISR, v)
	case fieldRemoving:
		return readInt32s(&p.Removing, v)
	case fieldAdding:
		return readInt32s(&p.Adding, v)
	case fieldELR:
		return readInt32s(&p.ELR, v)
	case fieldLastKnownELR:
		return readInt32s(&p.LastKnownELR, v)
	case fieldDirectories:
		p.Directories = append(p.Directories, UUID{})
		return readUUID(&p.Directories[len(p.Directories)-1], v)
	default:
		return false
	}
}

func readUUID(to *UUID, v []byte) bool {
	if len(v) != len(to) {
		return false
	}
	*to = UUID(v)
	return true
}

func readInt32s(to *[]int32, v []byte) bool {
	for len(v) > 0 {
		u, n := protowire.ConsumeVarint(v)
		i := int32(u)                       //nolint:gosec // as protobuf does, verified next
		if n < 0 || uint64(int64(i)) != u { //nolint:gosec // see appendInt32
			return false
		}
		*to = append(*to, i)
		v = v[n:]
	}
	return len(*to) > 0
}

// partitionRecord takes in the partition that was read.
func (s *snapshotStream) partitionRecord(r *partitionReader) error {
	if err := s.order.nextPartition(r.id.Partition); err != nil {
		return err
	}
	o := &s.object
	*o = snapshotObject{id: r.id, partition: &r.p, sum: r.p.sum(r.id)}
	s.objects = s.objects.add(o.sum)
	s.counts[partitionKind]++
	if s.measure != nil {
		s.measure(&metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: r.p.Record(r.id)}}, o)
	}
	if s.load == nil {
		return nil
	}
	return s.load(o)
}
