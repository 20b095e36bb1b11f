package active

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
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

// registerBroker makes broker id known and unfenced, by the controller's own decisions.
func (n *node) registerBroker(id int32) *fsm.Broker {
	n.t.Helper()
	return n.unfenceBroker(n.registerOnly(id))
}

// registerOnly leaves it fenced.
func (n *node) registerOnly(id int32) *fsm.Broker {
	n.t.Helper()
	reg := NewOp(controller.RegisterBroker, &controllerv1.RegisterRequest{
		BrokerId: id, IncarnationId: fsm.UUID{byte(id), 1}.Bytes(), PreviousBrokerEpoch: -1,
		Directories: [][]byte{fsm.UUID{byte(id), 2}.Bytes()},
		Listeners:   []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "localhost", Port: 9092}},
	}, nil, fsm.UUID{})
	n.step(Submitted{reg})
	n.commit(n.takeProposal())
	n.want(reg, done)
	b, _ := n.img.Broker(id)
	return b
}

// unfenceBroker takes a registered broker into service.
func (n *node) unfenceBroker(b *fsm.Broker) *fsm.Broker {
	n.t.Helper()
	id := b.ID
	n.step(Contacts{[]Contact{{BrokerID: id, BrokerEpoch: b.Epoch, MetadataOffset: n.img.AppliedOffset(), At: n.now}}})
	beat := NewOp(controller.Heartbeat, &controllerv1.SessionRequest{BrokerId: id, BrokerEpoch: b.Epoch, MetadataOffset: n.img.AppliedOffset()}, nil, fsm.UUID{})
	n.step(Submitted{beat})
	n.commit(n.takeProposal())
	n.want(beat, done)
	b, _ = n.img.Broker(id)
	if b.Fenced {
		n.t.Fatalf("broker %d is fenced", id)
	}
	return b
}

// run lets time pass in ticks; brokers that live heartbeat at each.
func (n *node) run(d time.Duration, alive ...*fsm.Broker) {
	n.t.Helper()
	for end := n.now.Add(d); n.now.Before(end); {
		n.now = n.core.NextTick()
		var contacts []Contact
		for _, b := range alive {
			contacts = append(contacts, Contact{BrokerID: b.ID, BrokerEpoch: b.Epoch, MetadataOffset: n.img.AppliedOffset(), At: n.now})
		}
		n.step(Contacts{contacts}, Tick{})
		for len(n.proposals) > 0 {
			n.commit(n.takeProposal())
		}
	}
}

func TestSilentBrokersAreFencedTogether(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	alive, silent1, silent2 := n.registerBroker(1), n.registerBroker(2), n.registerBroker(3)
	n.run(8*time.Second, alive)
	for _, b := range []*fsm.Broker{silent1, silent2} {
		if now, _ := n.img.Broker(b.ID); now.Fenced {
			t.Fatalf("broker %d was fenced before its session was over", b.ID)
		}
	}
	entries := n.core.counts.Entries
	n.run(3*time.Second, alive)
	for _, b := range []*fsm.Broker{silent1, silent2} {
		if now, _ := n.img.Broker(b.ID); !now.Fenced {
			t.Fatalf("broker %d is not fenced", b.ID)
		}
	}
	if b, _ := n.img.Broker(alive.ID); b.Fenced {
		t.Fatal("a broker that heartbeats was fenced")
	}
	if got := n.core.counts.Entries - entries; got != 1 {
		t.Fatalf("%d entries to fence those who expired at one tick", got)
	}
}

func TestNewClaimGrantsAFullSession(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	b := n.registerBroker(1)
	n.run(8 * time.Second)
	n.claimed(2)
	n.run(8 * time.Second)
	if now, _ := n.img.Broker(b.ID); now.Fenced {
		t.Fatal("the session was counted from before the claim")
	}
	n.run(3 * time.Second)
	if now, _ := n.img.Broker(b.ID); !now.Fenced {
		t.Fatal("the silent broker is not fenced")
	}
}

func TestStallOfTheProcessGrantsAFullSession(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	b := n.registerBroker(1)
	n.now = n.now.Add(time.Minute) // nothing ran, so no heartbeat was read either
	n.step(Tick{})
	for len(n.proposals) > 0 {
		n.commit(n.takeProposal())
	}
	if now, _ := n.img.Broker(b.ID); now.Fenced {
		t.Fatal("a broker was fenced for our own stall")
	}
}

func TestClaimRegistersItsNode(t *testing.T) {
	reg := &metadatav1.ControllerRegistered{
		NodeId: 101, DirectoryId: fsm.UUID{3}.Bytes(), IncarnationId: fsm.UUID{4}.Bytes(),
		Listeners: []*metadatav1.Listener{{Name: "CONTROLLER", Host: "localhost", Port: 9093}},
	}
	n := newNode(t, func(c *Config) { c.Registration = proto.CloneOf(reg) })
	n.claimed(1)
	n.commit(n.takeProposal())
	if _, ok := n.img.Controller(101); !ok {
		t.Fatal("the node is not registered")
	}
	n.claimed(2)
	if len(n.proposals) != 0 {
		t.Fatal("it was registered twice")
	}
}
