package active

import (
	"testing"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// reportOp is the report of a broker that holds these logs of the topic, by partition.
func (n *node) reportOp(b *fsm.Broker, topic fsm.UUID, ends ...int64) *Op {
	n.t.Helper()
	r := controller.NewInventoryReport(b.ID, b.Epoch, b.Epoch+1)
	for i, end := range ends {
		part := &controllerv1.ReplicaInventory{TopicId: topic.Bytes(), PartitionId: int32(i), LastLeaderEpoch: 1, LogEndOffset: end}
		if err := r.Add([]*controllerv1.ReplicaInventory{part}); err != nil {
			n.t.Fatal(err)
		}
	}
	r.Seal()
	return NewOp(controller.ReportInventory, r, nil, fsm.UUID{}).Prompt()
}

// restoredNode is a node whose image was just born again, with a topic of two partitions on the brokers 1 and 2.
func restoredNode(t *testing.T) (*node, fsm.UUID) {
	t.Helper()
	n := newNode(t)
	n.claimed(1)
	n.registerBroker(1)
	n.registerBroker(2)
	create := NewOp(controller.CreateTopics, &controllerv1.CreateTopicsRequest{
		Topics: []*controllerv1.CreatableTopic{{Name: "t", NumPartitions: 2, ReplicationFactor: 2}},
	}, nil, fsm.UUID{})
	n.step(Submitted{create})
	n.commit(n.takeProposal())
	topic, _ := n.img.TopicByName("t")
	born, err := fsm.Rebirth(n.img, fsm.Birth{ClusterID: n.img.ClusterID(), UUID: fsm.UUID{0x77}})
	if err != nil {
		t.Fatal(err)
	}
	again := newNode(t)
	again.img = born
	again.claimed(1)
	return again, topic.ID()
}

// TestReportsElectAtOnce has a leader as soon as the last replica has reported: no tick passes.
func TestReportsElectAtOnce(t *testing.T) {
	n, topic := restoredNode(t)
	b1, b2 := n.registerBroker(1), n.registerBroker(2)
	first := n.reportOp(b1, topic, 10, 10)
	n.step(Submitted{first})
	n.want(first, done)
	for len(n.proposals) > 0 { // a run that finds nothing proposes nothing
		t.Fatal("something was elected without the report of broker 2")
	}
	n.step(Submitted{n.reportOp(b2, topic, 11, 9)})
	n.commit(n.takeProposal())
	for i, want := range []int32{2, 1} {
		if p, _ := n.img.Partition(fsm.PartitionID{Topic: topic, Partition: int32(i)}); p.Leader != want {
			t.Errorf("partition %d: %s", i, p)
		}
	}
}

// TestUnfencingElects has a leader when the broker that has reported the greatest log is up.
func TestUnfencingElects(t *testing.T) {
	n, topic := restoredNode(t)
	b1 := n.registerBroker(1)
	n.step(Submitted{n.reportOp(b1, topic, 1, 1)})
	b2 := n.registerOnly(2)
	n.step(Submitted{n.reportOp(b2, topic, 5, 5)})
	if len(n.proposals) != 0 || n.img.NumAwaiting() != 2 {
		t.Fatal("a fenced broker, or one with less, was elected")
	}
	n.unfenceBroker(b2)
	n.step(BrokersChanged{}) // as the loop says when it sees the entry
	n.commit(n.takeProposal())
	if n.img.NumLedBy(2) != 2 {
		t.Fatal(fsm.Describe(n.img))
	}
}

// TestNewClaimForgetsInventories: what another controller was told is not known here.
func TestNewClaimForgetsInventories(t *testing.T) {
	n, topic := restoredNode(t)
	b1, b2 := n.registerBroker(1), n.registerBroker(2)
	n.step(Submitted{n.reportOp(b1, topic, 1, 1)})
	n.step(LeadershipHint{Leading: false})
	n.claimed(2)
	n.step(Submitted{n.reportOp(b2, topic, 1, 1)})
	if len(n.proposals) != 0 || n.img.NumAwaiting() != 2 {
		t.Fatal("a leader was elected with a report to an earlier claim")
	}
	n.step(Submitted{n.reportOp(b1, topic, 1, 1)})
	n.commit(n.takeProposal())
	if n.img.NumAwaiting() != 0 {
		t.Fatal(fsm.Describe(n.img))
	}
}
