package fsm

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// drawPartition makes up a partition, legal or not.
func drawPartition(t *rapid.T) (PartitionID, Partition) {
	ids := func(name string) []int32 {
		return rapid.SliceOfN(rapid.OneOf(rapid.Int32Range(-2, 300), rapid.Int32()), 0, 5).Draw(t, name)
	}
	number := func(name string) int32 { return rapid.OneOf(rapid.Int32Range(-1, 200), rapid.Int32()).Draw(t, name) }
	p := Partition{
		Replicas: ids("replicas"), ISR: ids("isr"), Adding: ids("adding"), Removing: ids("removing"), ELR: ids("elr"), LastKnownELR: ids("last known"),
		Leader: number("leader"), LeaderEpoch: number("leader epoch"), PartitionEpoch: number("partition epoch"),
		Recovering: rapid.Bool().Draw(t, "recovering"), AwaitingInventory: rapid.Bool().Draw(t, "awaiting"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "directories") {
		p.Directories = append(p.Directories, uuid(rapid.IntRange(0, 9).Draw(t, "directory")))
	}
	return PartitionID{Topic: uuid(rapid.IntRange(1, 9).Draw(t, "topic")), Partition: number("partition")}, p
}

// TestPartitionsAreSpelledAsProtobufDoes compares the spelling by hand with protobuf's, and reads both back.
func TestPartitionsAreSpelledAsProtobufDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, p := drawPartition(t)
		want := encodedPartition(t, id, p)
		got := appendPartition(nil, id, &p)
		message := marshal(t, p.Record(id))
		if !bytes.Equal(got, message) {
			t.Fatalf("%v %s is spelled\n%x, protobuf spells\n%x", id, p, got, message)
		}
		var r partitionReader
		if !r.read(want) || r.id != id || !r.p.equal(&p) {
			t.Fatalf("read %v %s, want %v %s", r.id, r.p, id, p)
		}
		sameAsProtobuf(t, &r, want)
	})
}

func encodedPartition(tb reporter, id PartitionID, p Partition) []byte {
	return marshal(tb, &metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: p.Record(id)}})
}

// TestDamagedPartitionsAreReadAsProtobufDoes damages records in every byte: whatever is still read must be what protobuf
// reads, with nothing unknown left over.
func TestDamagedPartitionsAreReadAsProtobufDoes(t *testing.T) {
	read := 0
	rapid.Check(t, func(t *rapid.T) {
		id, p := drawPartition(t)
		record := encodedPartition(t, id, p)
		var r partitionReader
		for i := range record {
			for _, mask := range []byte{0x01, 0x80} {
				damaged := bytes.Clone(record)
				damaged[i] ^= mask
				if r.read(damaged) {
					read++
					sameAsProtobuf(t, &r, damaged)
				}
			}
			if r.read(record[:i]) {
				sameAsProtobuf(t, &r, record[:i])
			}
		}
		if twice := slices.Concat(record, record); r.read(twice) {
			sameAsProtobuf(t, &r, twice)
		}
	})
	if read == 0 {
		t.Fatal("no damaged record was ever read: the test proves nothing")
	}
}

// sameAsProtobuf compares what was read by hand with what the general way makes of the same bytes.
func sameAsProtobuf(t *rapid.T, r *partitionReader, record []byte) {
	m := &metadatav1.Record{}
	if err := unmarshalKnown(record, m); err != nil {
		t.Fatalf("%x was read by hand, and protobuf says %v", record, err)
	}
	o, err := objectFromRecord(m)
	if err != nil || o.partition == nil || o.id != r.id || !o.partition.equal(&r.p) || o.sum != r.p.sum(r.id) {
		t.Fatalf("%x was read by hand as %v %s, in general as %v %v (%v)", record, r.id, r.p, o.id, o.partition, err)
	}
	if again := encodedPartition(t, r.id, r.p); !proto.Equal(m, mustRecord(t, again)) {
		t.Fatalf("%x is not what it was read as: %x", record, again)
	}
}

func mustRecord(t *rapid.T, b []byte) *metadatav1.Record {
	m := &metadatav1.Record{}
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	return m
}
