package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// brokenImages breaks one sound image by hand in one way each; the error must name the invariant. I3, I4 and I12 and
// above say something about entries and processes and cannot be seen in an image; I5 is a property of snapshots.
func brokenImages() []struct {
	invariant int
	what      string
	breakIt   func(img *Image)
} {
	return []struct {
		invariant int
		what      string
		breakIt   func(img *Image)
	}{
		{1, "the digest is not the sum of the objects", func(img *Image) { img.objects.lo++ }},
		{1, "the digest was not brought up to date", func(img *Image) { img.nextOffset++ }},
		{1, "an object changed without the digest", func(img *Image) { img.nextProducerID++ }},
		{2, "a claim that is still to come", func(img *Image) { img.claimOffset = img.nextOffset }},
		{2, "a controller epoch before any claim", func(img *Image) { img.claimOffset, img.claim = -1, Claim{} }},
		{2, "a cluster id that is none", func(img *Image) { img.clusterID = "x" }},
		{6, "no lineage", func(img *Image) { img.lineage = Lineage{} }},
		{6, "a metadata offset of 0", func(img *Image) { img.nextOffset = 0 }},
		{6, "a controller epoch that is not above the epoch base", func(img *Image) { img.epochBase = img.controllerEpoch }},
		{6, "producer ids that went below 0", func(img *Image) { img.nextProducerID = -1 }},
		{7, "a fenced leader", breakBroker(1, func(b *Broker) { b.Fenced = true })},
		{7, "a leader that is not registered", func(img *Image) { img.brokers = img.brokers.Delete(1) }},
		{7, "a fenced member of an ISR of two", breakBroker(2, func(b *Broker) { b.Fenced = true })},
		{8, "a member that is no replica", breakPartition(func(p *Partition) { p.ISR = []int32{1, 9} })},
		{8, "a member twice", breakPartition(func(p *Partition) { p.ISR = []int32{1, 1} })},
		{8, "a leader out of the ISR", breakPartition(func(p *Partition) { p.Leader = 3 })},
		{8, "an empty ISR with a leader", breakPartition(func(p *Partition) { p.ISR = nil })},
		{8, "an empty ISR without ELR", breakPartition(func(p *Partition) { p.ISR, p.Leader = nil, NoLeader })},
		{8, "ISR and ELR overlap", breakPartition(func(p *Partition) { p.ELR = []int32{2} })},
		{8, "ELR outside of the replicas", breakPartition(func(p *Partition) { p.ELR = []int32{9} })},
		{8, "no replica", breakPartition(func(p *Partition) { p.Replicas, p.ISR, p.Leader = nil, nil, NoLeader })},
		{8, "a replica twice", breakPartition(func(p *Partition) { p.Replicas = []int32{1, 2, 3, 3} })},
		{8, "a wait for inventory with a leader", breakPartition(func(p *Partition) { p.AwaitingInventory = true })},
		{8, "recovering with two members", breakPartition(func(p *Partition) { p.Recovering = true })},
		{9, "a negative leader epoch", breakPartition(func(p *Partition) { p.LeaderEpoch = -1 })},
		{9, "a negative partition epoch", breakPartition(func(p *Partition) { p.PartitionEpoch = -1 })},
		{10, "two names for one id", func(img *Image) { img.names = img.names.Set("other", uuid(10)) }},
		{10, "a name that leads to another topic", func(img *Image) { img.names = img.names.Set("a", uuid(11)) }},
		{10, "a name that leads nowhere", func(img *Image) { img.names = img.names.Set("a", uuid(99)) }},
		{10, "configs of a topic that is gone", func(img *Image) {
			img.configs = img.configs.Set(TopicResource("gone"), []ConfigEntry{{Key: "k", Value: "v"}})
		}},
		{11, "a broker's count of replicas", func(img *Image) { img.index.changeHost(1, uuid(10), hosted{replicas: 1}) }},
		{11, "a broker's count of leaders", func(img *Image) { img.index.changeHost(1, uuid(10), hosted{led: -1}) }},
		{11, "a broker that hosts nothing", func(img *Image) { img.index.changeHost(9, uuid(10), hosted{replicas: 1}) }},
		{11, "a broker's total", func(img *Image) {
			h, _ := img.index.hosts.Get(1)
			wrong := *h
			wrong.led++
			img.index.hosts = img.index.hosts.Set(1, &wrong)
		}},
		{11, "leaderless partitions", func(img *Image) { img.index.leaderless = img.index.leaderless.Set(uuid(10), 1) }},
		{11, "the number of leaderless partitions", func(img *Image) { img.index.numLeaderless++ }},
		{11, "imbalanced partitions", func(img *Image) { img.index.imbalanced = img.index.imbalanced.Set(uuid(10), 7) }},
		{11, "awaiting partitions", func(img *Image) { img.index.awaiting = img.index.awaiting.Set(uuid(10), 1) }},
		{11, "the number of awaiting partitions", func(img *Image) { img.index.numAwaiting++ }},
		{11, "the number of partitions", func(img *Image) { img.index.partitions-- }},
		{11, "names that collide", func(img *Image) { img.index.removeName("b.b") }},
		{19, "a broker epoch from the future", breakBroker(3, func(b *Broker) { b.Epoch = 1 << 40 })},
		{19, "a broker under another id", breakBroker(3, func(b *Broker) { b.ID = 9 })},
		{19, "a void broker epoch without an earlier lineage", breakBroker(3, func(b *Broker) { b.Epoch, b.Fenced = VoidEpoch, true })},
		{22, "an unconfirmed lineage without ancestors", func(img *Image) { img.unconfirmed = true }},
		{9, "a recovery election that is still to come", breakRecovery(0, RecoveryElection{Leader: 1, LeaderEpoch: 5, Missing: []int32{2}})},
		{0, "a recovery election of nothing", breakRecovery(9, RecoveryElection{Leader: 1, Missing: []int32{2}})},
		{0, "a recovery election that nobody missed", breakRecovery(0, RecoveryElection{Leader: 1})},
		{20, "a resource without keys", func(img *Image) { img.configs = img.configs.Set(BrokerResource(""), nil) }},
		{0, "keys out of order", func(img *Image) {
			img.configs = img.configs.Set(BrokerResource(""), []ConfigEntry{{Key: "b"}, {Key: "a"}})
		}},
		{0, "a resource that cannot be", func(img *Image) {
			img.configs = img.configs.Set(BrokerResource("x"), []ConfigEntry{{Key: "b"}})
		}},
		{0, "a topic without partitions", breakTopic(func(t *Topic) { t.count = 0 })},
		{0, "a chunk too many", breakTopic(func(t *Topic) { t.chunks = append(t.chunks, &chunk{}) })},
		{0, "a chunk that is too short", breakTopic(func(t *Topic) { t.count++ })},
		{0, "a side table that has what the slot has", breakTopic(func(t *Topic) {
			c := t.chunks[0].clone()
			c.rare = map[int]*Partition{0: {}}
			t.chunks[0] = c
		})},
		{0, "a quorum node under another id", func(img *Image) {
			n, _ := img.Controller(101)
			img.controllers = img.controllers.Set(102, n)
		}},
		{0, "a registration that no record could state", breakBroker(3, func(b *Broker) { b.IncarnationID = UUID{} })},
	}
}

func breakRecovery(partition int32, e RecoveryElection) func(*Image) {
	return func(img *Image) { img.recoveries = img.recoveries.Set(PartitionID{uuid(10), partition}, &e) }
}

func breakBroker(id int32, f func(*Broker)) func(*Image) {
	return func(img *Image) {
		b, _ := img.brokers.Get(id)
		c := *b
		f(&c)
		img.brokers = img.brokers.Set(id, &c)
	}
}

func breakTopic(f func(*Topic)) func(*Image) {
	return func(img *Image) {
		t, _ := img.topics.Get(uuid(10))
		c := t.clone()
		f(c)
		img.topics = img.topics.Set(uuid(10), c)
	}
}

// breakPartition writes a state that no fold would accept, and keeps the indexes right.
func breakPartition(f func(*Partition)) func(*Image) {
	return func(img *Image) {
		breakTopic(func(t *Topic) {
			c := t.chunks[0].clone()
			p := c.get(0)
			f(&p)
			c.set(0, &p)
			t.chunks[0] = c
		})(img)
		b := newIndexBuilder()
		for t := range img.Topics() {
			b.addTopic(t)
		}
		img.index = b.finish()
	}
}

// soundImage has something of everything.
func soundImage(tb reporter) *Image {
	w := newWorld(tb)
	w.claim(101, 1)
	for id := int32(1); id <= 6; id++ {
		w.addBroker(id)
	}
	w.addTopic("a", uuid(10), []int32{1, 2, 3}, []int32{2, 1}, []int32{3})
	w.fold(changeISR(uuid(10), 0, []int32{2, 1}))
	w.addTopic("b.b", uuid(11), []int32{2, 1, 3, 4, 5, 6})
	w.fold(
		parseRecord(tb, "controller node=101 incarnation=7 listeners=CONTROLLER:c:9093"),
		parseRecord(tb, "config topic=a key=retention.ms value=1"),
		parseRecord(tb, "config key=min.insync.replicas value=2"),
		parseRecord(tb, "producer-ids broker=1 epoch=2 next=1000"),
	)
	mustBeSound(tb, w.img)
	return w.img
}

// TestCheckNamesTheInvariant breaks a sound image in every way and expects the number of what does not hold.
func TestCheckNamesTheInvariant(t *testing.T) {
	sound := soundImage(t)
	for _, c := range brokenImages() {
		t.Run(fmt.Sprintf("I%d/%s", c.invariant, c.what), func(t *testing.T) {
			img := *sound
			c.breakIt(&img)
			err := Check(&img)
			var v *Violation
			if !errors.As(err, &v) || v.Invariant != c.invariant {
				t.Fatalf("got %v, want I%d", err, c.invariant)
			}
			if c.invariant > 0 && !strings.HasPrefix(err.Error(), fmt.Sprintf("I%d: ", c.invariant)) {
				t.Fatalf("the error %q does not name the invariant", err)
			}
		})
	}
	if err := Check(sound); err != nil {
		t.Fatalf("the sound image was changed: %v", err)
	}
}

// TestReadSnapshotRefusesABrokenImage writes what must not be and reads it back: the stream is sound, the image is
// not.
func TestReadSnapshotRefusesABrokenImage(t *testing.T) {
	for _, invariant := range []int{7, 8} {
		for _, c := range brokenImages() {
			if c.invariant != invariant {
				continue
			}
			img := *soundImage(t)
			c.breakIt(&img)
			var stream bytes.Buffer
			if err := WriteSnapshot(reseal(&img), &stream); err != nil {
				t.Fatal(err)
			}
			_, err := ReadSnapshot(&stream)
			var v *Violation
			if !errors.As(err, &v) || v.Invariant != invariant {
				t.Fatalf("%s: got %v, want I%d", c.what, err, invariant)
			}
		}
	}
}

// reseal gives an image the digest that its objects have.
func reseal(img *Image) *Image {
	c := *img
	c.objects = c.sumObjects()
	c.seal()
	return &c
}
