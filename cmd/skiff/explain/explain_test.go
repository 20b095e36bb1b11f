package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

const topicName = "orders"

// cluster has the brokers 1 to 4, unfenced, and the topic orders with one partition on 1, 2 and 3.
type cluster struct {
	t   *testing.T
	img *fsm.Image
	f   Facts
	now int64
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{1}.String(), Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{2}}.Proto(), NextMetadataOffset: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, img: img, now: 1_000_000}
	for id := int32(1); id <= 4; id++ {
		epoch := c.img.NextOffset()
		c.fold("", &metadatav1.Record{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: &metadatav1.RegisterBroker{
			BrokerId: id, IncarnationId: slices.Repeat([]byte{byte(id)}, 16), BrokerEpoch: epoch, Fenced: true,
			Listeners: []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "localhost", Port: 9092}},
		}}})
		c.fence(id, false, "it caught up")
	}
	c.fold("", &metadatav1.Record{Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{Name: topicName, TopicId: topicID()}}},
		&metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{
			TopicId: topicID(), Replicas: []int32{1, 2, 3}, Isr: []int32{1, 2, 3}, Leader: 1,
		}}})
	return c
}

func topicID() []byte { return slices.Repeat([]byte{9}, 16) }

// fold applies a batch and keeps what the history would have of it.
func (c *cluster) fold(why string, records ...*metadatav1.Record) {
	c.t.Helper()
	c.now += 1000
	before := c.img
	after, _, err := fsm.FoldBatches(before, []*metadatav1.Batch{{TimeMs: c.now, Records: records}}, 1)
	if err != nil {
		c.t.Fatal(err)
	}
	c.img, c.f.Image = after, after
	event := &quorumv1.HistoryEvent{
		MetadataOffset: before.NextOffset(), NextMetadataOffset: after.NextOffset(), TimeMs: c.now, ControllerEpoch: 14,
		Reason: &metadatav1.Reason{Text: why},
	}
	d := fsm.Diff(before, after)
	for _, b := range d.Brokers {
		text := "broker " + fmt.Sprint(b.ID) + " registered"
		if b.Old != nil && b.Old.Fenced != b.New.Fenced {
			text = "broker " + fmt.Sprint(b.ID) + map[bool]string{true: " was fenced", false: " was unfenced"}[b.New.Fenced]
		}
		event.Changes = append(event.Changes, &quorumv1.HistoryChange{Kind: "broker", Subject: fmt.Sprint(b.ID), Text: text})
	}
	for _, t := range d.Topics {
		for _, p := range t.Partitions {
			event.Changes = append(event.Changes, &quorumv1.HistoryChange{Kind: "partition", Subject: topicName + "/0", Text: p.New.String()})
		}
	}
	c.f.Events, c.f.Fencings = append(c.f.Events, event), append(c.f.Fencings, event)
}

func (c *cluster) fence(id int32, fenced bool, why string, more ...*metadatav1.Record) {
	c.t.Helper()
	b, _ := c.img.Broker(id)
	c.fold(why, append(more, &metadatav1.Record{Kind: &metadatav1.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatav1.BrokerRegistrationChange{
		BrokerId: id, BrokerEpoch: b.Epoch, Fenced: proto.Bool(fenced),
	}}})...)
}

func change(edit func(*metadatav1.PartitionChange)) *metadatav1.Record {
	p := &metadatav1.PartitionChange{TopicId: topicID()}
	edit(p)
	return &metadatav1.Record{Kind: &metadatav1.Record_PartitionChange{PartitionChange: p}}
}

func idList(list ...int32) *metadatav1.BrokerIDs { return &metadatav1.BrokerIDs{Ids: list} }

func (c *cluster) partition() Explanation {
	c.t.Helper()
	t, _ := c.img.TopicByName(topicName)
	p, _ := t.Partition(0)
	return Partition(c.f, t, 0, p)
}

// want compares the parts of an explanation with sentences that must be in them.
func want(t *testing.T, e Explanation, healthy bool, because, needs []string) {
	t.Helper()
	if e.Healthy != healthy {
		t.Errorf("healthy %v, want %v", e.Healthy, healthy)
	}
	for _, part := range []struct {
		name      string
		got, want []string
	}{{"because", e.Because, because}, {"needs", e.Needs, needs}} {
		if len(part.got) != len(part.want) {
			t.Errorf("%s: %q, want %q", part.name, part.got, part.want)
			continue
		}
		for i, sentence := range part.want {
			if !strings.Contains(part.got[i], sentence) {
				t.Errorf("%s: %q, want %q in it", part.name, part.got[i], sentence)
			}
		}
	}
}

func TestHealthy(t *testing.T) {
	c := newCluster(t)
	want(t, c.partition(), true, []string{"every replica is in the ISR, and the preferred leader leads"}, nil)
	want(t, Broker(c.f, 1), true, nil, nil)
}

func TestAFencedBrokerAndItsPartition(t *testing.T) {
	c := newCluster(t)
	c.fence(1, true, "broker 1 missed its session by 3.1 s",
		change(func(p *metadatav1.PartitionChange) { p.Isr, p.Leader = idList(2, 3), proto.Int32(2) }))
	want(t, Broker(c.f, 1), false, []string{"missed its session by 3.1 s"},
		[]string{"send heartbeats with broker epoch 1", "applied the metadata up to offset 1"})
	e := c.partition()
	want(t, e, false, []string{"replica 1 is not in the ISR: broker 1 is fenced since 11: broker 1 missed its session by 3.1 s", "leader 2 is not the preferred leader 1"},
		[]string{"replica 1 must be in the ISR before it can lead"})
	last := e.Story[len(e.Story)-1]
	if !strings.Contains(last, "at 11, controller epoch 14: leader 2") || !strings.HasSuffix(last, "because broker 1 missed its session by 3.1 s") {
		t.Errorf("story %q", last)
	}
}

func TestAReplicaThatIsBehind(t *testing.T) {
	c := newCluster(t)
	c.fold("the leader asked for it", change(func(p *metadatav1.PartitionChange) { p.Isr = idList(1, 2) }))
	want(t, c.partition(), false, []string{"replica 3 is not in the ISR: its broker is alive"}, []string{"replica 3 must catch up with leader 1"})
}

func TestALeaderlessPartition(t *testing.T) {
	c := newCluster(t)
	c.fold("", change(func(p *metadatav1.PartitionChange) { p.Isr = idList(1) }))
	c.fence(1, true, "its session ended", change(func(p *metadatav1.PartitionChange) { p.Leader = proto.Int32(-1) }))
	want(t, c.partition(), false,
		[]string{"only [1] may lead without losing records", "replica 2 is not in the ISR", "replica 3 is not in the ISR"},
		[]string{"broker 1 must come back: broker 1 is fenced since 12: its session ended", "an unclean election of one of [2 3]", "replica 2 must catch up", "replica 3 must catch up"})
}

func TestAStuckReassignment(t *testing.T) {
	c := newCluster(t)
	c.fold("an operator asked", change(func(p *metadatav1.PartitionChange) {
		p.Replicas, p.AddingReplicas, p.RemovingReplicas = idList(1, 2, 3, 4), idList(4), idList(3)
	}))
	want(t, c.partition(), false, []string{"adding [4], removing [3]"}, []string{"broker 4 must join the ISR: it is alive", "reassign cancel orders/0"})
	c.fence(4, true, "it was killed")
	want(t, c.partition(), false, []string{"adding [4], removing [3]"}, []string{"broker 4 must join the ISR and cannot: broker 4 is fenced since 12: it was killed", "reassign cancel"})
}

func TestAnImbalancedLeader(t *testing.T) {
	c := newCluster(t)
	c.fold("", change(func(p *metadatav1.PartitionChange) { p.Leader = proto.Int32(3) }))
	want(t, c.partition(), false, []string{"leader 3 is not the preferred leader 1"}, []string{"replica 1 is in the ISR and can lead"})
}

func TestABrokerThatIsNone(t *testing.T) {
	c := newCluster(t)
	want(t, Broker(c.f, 9), false, []string{"no broker has registered with this id"}, []string{"node.id=9"})
}
