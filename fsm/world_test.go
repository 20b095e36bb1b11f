package fsm

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/proto"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// record is short for the protobuf type that the tests are full of.
type record = *metadatav1.Record

// uuid makes a uuid that reads well: its last bytes are n.
func uuid(n int) UUID {
	var u UUID
	binary.BigEndian.PutUint64(u[8:], uint64(n))
	return u
}

var testCluster = uuid(0xc1).String()

// reporter is what helpers need of testing.TB and what rapid's T has too, which shrinks what fails.
type reporter interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is an image under test with the means to grow it.
type world struct {
	tb  reporter
	img *Image
	// last is the result of the last entry.
	last Result
}

func newWorld(tb reporter) *world {
	tb.Helper()
	img, err := Genesis(&metadatav1.LineageStarted{
		ClusterId:          testCluster,
		Lineage:            LineageID{Number: 1, UUID: uuid(1)}.Proto(),
		NextMetadataOffset: 1,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return &world{tb: tb, img: img}
}

// batch wraps records the way a decision does.
func (w *world) batch(records ...record) []*metadatav1.Batch {
	return []*metadatav1.Batch{{TimeMs: w.img.NextOffset() * 1000, RequestId: uuid(5).Bytes(), Records: records}}
}

// envelope states every field of the guard as the image has it.
func (w *world) envelope(batches ...*metadatav1.Batch) *metadatav1.Envelope {
	return &metadatav1.Envelope{
		Format:              EnvelopeFormat,
		ClusterId:           w.img.ClusterID(),
		Lineage:             w.img.Lineage().ID.Proto(),
		ControllerEpoch:     proto.Int64(w.img.ControllerEpoch()),
		ClaimOffset:         proto.Int64(w.img.ClaimOffset()),
		FirstMetadataOffset: proto.Int64(w.img.NextOffset()),
		DigestBefore:        proto.Uint64(w.img.Digest().Prefix()),
		Batches:             batches,
	}
}

// entry is one that passes the guard.
func (w *world) entry(records ...record) Entry {
	return Entry{
		Envelope:        w.envelope(w.batch(records...)...),
		ControllerEpoch: w.img.ControllerEpoch(),
		FirstOffset:     w.img.NextOffset(),
	}
}

func (w *world) claimEntry(node int32, epoch int64) Entry {
	r := &metadatav1.Record{Kind: &metadatav1.Record_ControllerClaimed{ControllerClaimed: &metadatav1.ControllerClaimed{
		NodeId: node, DirectoryId: uuid(int(node)).Bytes(), IncarnationId: uuid(int(node) + 1).Bytes(), Nonce: uuid(int(epoch)).Bytes(),
	}}}
	return Entry{
		Envelope: &metadatav1.Envelope{
			Format: EnvelopeFormat, ClusterId: w.img.ClusterID(), Lineage: w.img.Lineage().ID.Proto(), Batches: w.batch(r),
		},
		ControllerEpoch: epoch,
		FirstOffset:     w.img.NextOffset(),
	}
}

// apply applies an entry and takes over its image, whatever the outcome.
func (w *world) apply(e Entry) Result {
	w.last = Apply(w.img, e)
	w.img = w.last.Image
	return w.last
}

func (w *world) claim(node int32, epoch int64) {
	w.tb.Helper()
	if r := w.apply(w.claimEntry(node, epoch)); r.Outcome != Applied {
		w.tb.Fatalf("claim: %v %v %v", r.Outcome, r.Mismatch, r.Err)
	}
}

// fold applies records in an entry of their own and must succeed.
func (w *world) fold(records ...record) {
	w.tb.Helper()
	if r := w.apply(w.entry(records...)); r.Outcome != Applied || r.Alarm != nil {
		w.tb.Fatalf("fold: %v %v %v alarm %v", r.Outcome, r.Mismatch, r.Err, r.Alarm)
	}
}

// rebirth begins a new lineage from the image.
func (w *world) rebirth(number int) {
	w.tb.Helper()
	born, err := Rebirth(w.img, Birth{ClusterID: w.img.ClusterID(), UUID: uuid(number), Number: uint64(number)})
	if err != nil {
		w.tb.Fatal(err)
	}
	w.img = born
}

// addBroker registers and unfences a broker.
func (w *world) addBroker(id int32) {
	w.tb.Helper()
	epoch := w.img.NextOffset()
	w.fold(registerRecord(id, epoch, 1), unfenceRecord(id, epoch))
}

// addTopic creates a topic with one partition for each list of replicas, led by the first of them.
func (w *world) addTopic(name string, id UUID, replicas ...[]int32) {
	w.tb.Helper()
	records := []record{topicRecord(name, id)}
	for i, list := range replicas {
		records = append(records, partitionRecord(id, int32(i), list))
	}
	w.fold(records...)
}

func registerRecord(id int32, epoch int64, incarnation int) record {
	return &metadatav1.Record{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: &metadatav1.RegisterBroker{
		BrokerId: id, BrokerEpoch: epoch, IncarnationId: uuid(int(id)<<16 + incarnation).Bytes(), Fenced: true,
		Listeners: []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "localhost", Port: uint32(9092 + 100*(id%500))}},
	}}}
}

func unfenceRecord(id int32, epoch int64) record {
	return &metadatav1.Record{Kind: &metadatav1.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatav1.BrokerRegistrationChange{
		BrokerId: id, BrokerEpoch: epoch, Fenced: proto.Bool(false),
	}}}
}

func fenceRecord(w *world, id int32, fenced bool) record {
	b, _ := w.img.Broker(id)
	return &metadatav1.Record{Kind: &metadatav1.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatav1.BrokerRegistrationChange{
		BrokerId: id, BrokerEpoch: b.Epoch, Fenced: proto.Bool(fenced),
	}}}
}

func topicRecord(name string, id UUID) record {
	return &metadatav1.Record{Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{Name: name, TopicId: id.Bytes()}}}
}

func removeTopicRecord(id UUID) record {
	return &metadatav1.Record{Kind: &metadatav1.Record_RemoveTopic{RemoveTopic: &metadatav1.RemoveTopic{TopicId: id.Bytes()}}}
}

func partitionRecord(topic UUID, i int32, replicas []int32) record {
	return &metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{
		TopicId: topic.Bytes(), PartitionId: i, Replicas: replicas, Isr: replicas, Leader: replicas[0],
	}}}
}

func changeRecord(c *metadatav1.PartitionChange) record {
	return &metadatav1.Record{Kind: &metadatav1.Record_PartitionChange{PartitionChange: c}}
}

func changeISR(topic UUID, i int32, isr []int32) record {
	return changeRecord(&metadatav1.PartitionChange{TopicId: topic.Bytes(), PartitionId: i, Isr: &metadatav1.BrokerIDs{Ids: isr}})
}

func changeLeader(topic UUID, i int32, isr []int32, leader int32) record {
	r := changeISR(topic, i, isr)
	r.GetPartitionChange().Leader = proto.Int32(leader)
	return r
}

func configRecord(r ConfigResource, key string, value *string) record {
	return &metadatav1.Record{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
		ResourceType: r.Type, ResourceName: r.Name, Key: key, Value: value,
	}}}
}

func without(list []int32, id int32) []int32 {
	return slices.DeleteFunc(slices.Clone(list), func(x int32) bool { return x == id })
}
