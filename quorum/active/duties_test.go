package active

import (
	"testing"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

func TestPreferredLeadersComeBack(t *testing.T) {
	n := newNode(t, func(c *Config) { c.ElectInterval = time.Minute })
	n.claimed(1)
	brokers := []*fsm.Broker{n.registerBroker(1), n.registerBroker(2)}
	create := NewOp(controller.CreateTopics, &controllerv1.CreateTopicsRequest{
		Topics: []*controllerv1.CreatableTopic{{Name: "t", NumPartitions: 4, ReplicationFactor: 2}},
	}, nil, fsm.UUID{})
	n.step(Submitted{create})
	n.commit(n.takeProposal())
	n.want(create, done)
	n.run(12*time.Second, brokers[0]) // broker 2 is fenced, broker 1 leads everything
	if got := n.img.NumLedBy(1); got != 4 {
		t.Fatalf("broker 1 leads %d partitions", got)
	}
	beat := NewOp(controller.Heartbeat, &controllerv1.SessionRequest{BrokerId: 2, BrokerEpoch: brokers[1].Epoch, MetadataOffset: n.img.AppliedOffset()}, nil, fsm.UUID{})
	n.step(Contacts{[]Contact{{BrokerID: 2, BrokerEpoch: brokers[1].Epoch, MetadataOffset: n.img.AppliedOffset(), At: n.now}}}, Submitted{beat})
	n.commit(n.takeProposal())
	for p := range n.img.PartitionsOf(2) { // its leaders take it back into their ISRs
		part, _ := n.img.Partition(p)
		alter := NewOp(controller.AlterPartitions, &controllerv1.AlterPartitionsRequest{
			BrokerId: 1, BrokerEpoch: brokers[0].Epoch, Partitions: []*controllerv1.AlterPartition{{
				TopicId: p.Topic.Bytes(), PartitionId: p.Partition, LeaderEpoch: part.LeaderEpoch, PartitionEpoch: part.PartitionEpoch,
				NewIsr: []*controllerv1.ISRMember{{BrokerId: 1, BrokerEpoch: brokers[0].Epoch}, {BrokerId: 2, BrokerEpoch: brokers[1].Epoch}},
			}},
		}, nil, fsm.UUID{})
		n.step(Submitted{alter})
		n.commit(n.takeProposal())
		n.want(alter, done)
	}
	if n.img.NumImbalanced() == 0 {
		t.Fatal("nothing is imbalanced: the test proves nothing")
	}
	n.run(2*time.Minute, brokers...)
	if got := n.img.NumImbalanced(); got != 0 {
		t.Fatalf("%d partitions are not led by their preferred replica", got)
	}
}

func TestBarrierKeepsTheNodeActive(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	n.step(Submitted{NewBarrier()})
	if s := n.core.Status(); s.Phase != Claiming || !s.Active {
		t.Fatalf("status %+v", s)
	}
	n.answer(n.takeProposal(), Answer{Err: ErrNotAppended})
	if s := n.core.Status(); s.Active {
		t.Fatalf("status %+v", s)
	}
}
