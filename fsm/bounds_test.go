package fsm

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

func registration(edit func(*metadatav1.RegisterBroker)) record {
	r := registerRecord(1, 2, 1)
	edit(r.GetRegisterBroker())
	return r
}

func listenersOf(n int) []*metadatav1.Listener {
	var list []*metadatav1.Listener
	for i := range n {
		list = append(list, &metadatav1.Listener{Name: fmt.Sprintf("L%d", i), Host: "h", Port: 65535, SecurityProtocol: 3})
	}
	return list
}

func featuresOf(n int) []*metadatav1.Feature {
	var list []*metadatav1.Feature
	for i := range n {
		list = append(list, &metadatav1.Feature{Name: fmt.Sprintf("f%d", i), MinLevel: 1, MaxLevel: 2})
	}
	return list
}

func directoriesOf(n int) [][]byte {
	var list [][]byte
	for i := range n {
		list = append(list, uuid(i+1).Bytes())
	}
	return list
}

// TestRegistrationsAtTheirBounds folds the greatest registration that is allowed, takes it through a snapshot, and
// refuses each one that is greater by one (I20).
func TestRegistrationsAtTheirBounds(t *testing.T) {
	long := strings.Repeat("x", maxStringBytes)
	for _, c := range []struct {
		what string
		n    int
		edit func(*metadatav1.RegisterBroker, int)
	}{
		{"listeners", maxListeners, func(r *metadatav1.RegisterBroker, n int) { r.Listeners = listenersOf(n) }},
		{"features", maxFeatures, func(r *metadatav1.RegisterBroker, n int) { r.Features = featuresOf(n) }},
		{"directories", maxDirectories, func(r *metadatav1.RegisterBroker, n int) { r.Directories = directoriesOf(n) }},
		{"rack", 0, func(r *metadatav1.RegisterBroker, n int) { r.Rack = proto.String(long + long[:n]) }},
		{"host", 0, func(r *metadatav1.RegisterBroker, n int) { r.Listeners[0].Host = long + long[:n] }},
		{"listener name", 0, func(r *metadatav1.RegisterBroker, n int) { r.Listeners[0].Name = long + long[:n] }},
		{"feature name", 0, func(r *metadatav1.RegisterBroker, n int) {
			r.Features = []*metadatav1.Feature{{Name: long + long[:n], MaxLevel: 1}}
		}},
	} {
		w := newWorld(t)
		w.claim(101, 1)
		if r := w.apply(w.entry(registration(func(r *metadatav1.RegisterBroker) { c.edit(r, c.n+1) }))); r.Outcome != Broken {
			t.Errorf("%s above the bound: %v", c.what, r.Outcome)
		}
		w.fold(registration(func(r *metadatav1.RegisterBroker) { c.edit(r, c.n) }))
		mustBeSound(t, w.img)
	}
}

// TestMalformedRegistrations has what neither a broker nor a quorum node can be.
func TestMalformedRegistrations(t *testing.T) {
	node := func(edit func(*metadatav1.ControllerRegistered)) record {
		r := parseRecord(t, "controller node=101 incarnation=5")
		edit(r.GetControllerRegistered())
		return r
	}
	w := newWorld(t)
	w.claim(101, 1)
	for what, r := range map[string]record{
		"feature without a name": registration(func(r *metadatav1.RegisterBroker) { r.Features = []*metadatav1.Feature{{}} }),
		"feature twice": registration(func(r *metadatav1.RegisterBroker) {
			r.Features = append(featuresOf(1), featuresOf(1)...)
		}),
		"empty range":          registration(func(r *metadatav1.RegisterBroker) { r.Features = featuresOf(1); r.Features[0].MaxLevel = 0 }),
		"negative level":       registration(func(r *metadatav1.RegisterBroker) { r.Features = featuresOf(1); r.Features[0].MinLevel = -1 }),
		"zero directory":       registration(func(r *metadatav1.RegisterBroker) { r.Directories = [][]byte{make([]byte, 16)} }),
		"short directory":      registration(func(r *metadatav1.RegisterBroker) { r.Directories = [][]byte{{1}} }),
		"short incarnation":    registration(func(r *metadatav1.RegisterBroker) { r.IncarnationId = []byte{1} }),
		"listener, no name":    registration(func(r *metadatav1.RegisterBroker) { r.Listeners[0].Name = "" }),
		"node's incarnation":   node(func(r *metadatav1.ControllerRegistered) { r.IncarnationId = nil }),
		"node's directory":     node(func(r *metadatav1.ControllerRegistered) { r.DirectoryId = nil }),
		"node's listeners":     node(func(r *metadatav1.ControllerRegistered) { r.Listeners = listenersOf(maxListeners + 1) }),
		"node's features":      node(func(r *metadatav1.ControllerRegistered) { r.Features = featuresOf(maxFeatures + 1) }),
		"partition, directory": partitionWith(func(p *metadatav1.Partition) { p.Directories = [][]byte{{1}} }),
	} {
		if got := w.apply(w.entry(topicRecord("t", uuid(10)), r)); got.Outcome != Broken {
			t.Errorf("%s: %v", what, got.Outcome)
		}
	}
	for what, spoil := range map[string]func(*metadatav1.ControllerClaimed){
		"node":        func(c *metadatav1.ControllerClaimed) { c.NodeId = -1 },
		"directory":   func(c *metadatav1.ControllerClaimed) { c.DirectoryId = nil },
		"incarnation": func(c *metadatav1.ControllerClaimed) { c.IncarnationId = []byte{1} },
		"nonce":       func(c *metadatav1.ControllerClaimed) { c.Nonce = make([]byte, 16) },
	} {
		e := w.claimEntry(102, 2)
		spoil(e.Envelope.GetBatches()[0].GetRecords()[0].GetControllerClaimed())
		if got := w.apply(e); got.Outcome != Broken {
			t.Errorf("a claim without a %s: %v", what, got.Outcome)
		}
	}
}

func partitionWith(edit func(*metadatav1.Partition)) record {
	r := partitionRecord(uuid(10), 0, []int32{1})
	r.GetPartition().Leader = NoLeader
	edit(r.GetPartition())
	return r
}

// TestPartitionsAtTheirBounds: the greatest replica list, and epochs that cannot grow any more.
func TestPartitionsAtTheirBounds(t *testing.T) {
	replicas := make([]int32, maxReplicas+1)
	for i := range replicas {
		replicas[i] = int32(i)
	}
	w := newWorld(t)
	w.claim(101, 1)
	w.addBroker(0)
	if r := w.apply(w.entry(topicRecord("t", uuid(10)), partitionWith(func(p *metadatav1.Partition) { p.Replicas, p.Isr = replicas, replicas[:1] }))); r.Outcome != Broken {
		t.Errorf("%d replicas: %v", len(replicas), r.Outcome)
	}
	w.fold(topicRecord("t", uuid(10)),
		partitionWith(func(p *metadatav1.Partition) { p.Replicas, p.Isr = replicas[:maxReplicas], replicas[:1] }),
		partitionWith(func(p *metadatav1.Partition) {
			p.PartitionId, p.Replicas, p.Isr, p.LeaderEpoch = 1, replicas[:1], replicas[:1], math.MaxInt32
		}),
		partitionWith(func(p *metadatav1.Partition) {
			p.PartitionId, p.Replicas, p.Isr, p.PartitionEpoch = 2, replicas[:1], replicas[:1], math.MaxInt32
		}),
	)
	mustBeSound(t, w.img)
	for _, line := range []string{
		"change topic=10 n=1 leader=0",
		"change topic=10 n=2 isr=0",
		"change topic=10 n=0 directories=1",
		"change topic=10 n=1 leader-epoch=5 isr=0",
	} {
		if r := w.apply(w.entry(parseRecord(t, line))); r.Outcome != Broken {
			t.Errorf("%s: %v", line, r.Outcome)
		}
	}
	bad := parseRecord(t, "change topic=10 n=1 isr=0")
	bad.GetPartitionChange().Directories = &metadatav1.DirectoryIDs{Uuids: [][]byte{{1}}}
	if r := w.apply(w.entry(bad)); r.Outcome != Broken {
		t.Errorf("a directory of one byte: %v", r.Outcome)
	}
}

// TestConfigsAtTheirBounds: the longest value and the most keys.
func TestConfigsAtTheirBounds(t *testing.T) {
	w := newWorld(t)
	w.claim(101, 1)
	long := strings.Repeat("x", maxStringBytes)
	for _, r := range []record{
		configRecord(BrokerResource(""), long+"x", ptr("v")),
		configRecord(BrokerResource(""), "k", ptr(long+"x")),
	} {
		if got := w.apply(w.entry(r)); got.Outcome != Broken {
			t.Errorf("too long a config: %v", got.Outcome)
		}
	}
	w.fold(configRecord(BrokerResource(""), long, &long))
	w.fold(configRecord(BrokerResource(""), long, nil))
	var keys []record
	for i := range maxConfigKeys {
		keys = append(keys, configRecord(BrokerResource(""), fmt.Sprint(i), ptr("v")))
	}
	w.fold(keys...)
	if got := w.apply(w.entry(configRecord(BrokerResource(""), "more", ptr("v")))); got.Outcome != Broken {
		t.Errorf("too many keys: %v", got.Outcome)
	}
	mustBeSound(t, w.img)
}

// TestAncestorsTravel takes a lineage with a past through a snapshot.
func TestAncestorsTravel(t *testing.T) {
	img, err := Genesis(&metadatav1.LineageStarted{
		ClusterId: testCluster, Lineage: LineageID{Number: 2, UUID: uuid(2)}.Proto(), NextMetadataOffset: 2 << 44, EpochBase: 3 << 20,
		Ancestors: []*metadatav1.LineageAncestor{{Uuid: uuid(1).Bytes(), ForkOffset: 77}},
	})
	if err != nil {
		t.Fatal(err)
	}
	mustBeSound(t, img)
	again := throughSnapshot(t, img)
	if !again.Lineage().Descends(LineageID{Number: 1, UUID: uuid(1)}) || again.Lineage().Ancestors[0].ForkOffset != 77 {
		t.Fatal(Describe(again))
	}
	w := &world{tb: t, img: again}
	if r := w.apply(w.claimEntry(101, 3<<20)); r.Outcome != Broken {
		t.Fatalf("a claim at the epoch base: %v", r.Outcome)
	}
	w.claim(101, 3<<20+1)
	mustBeSound(t, w.img)
}

// TestReaders asks an image for what the other tests do not.
func TestReaders(t *testing.T) {
	img := soundImage(t)
	b, _ := img.Broker(1)
	l, ok := b.Listener("PLAINTEXT")
	if !b.Active() || !ok || l.Address() != "localhost:9192" {
		t.Error(b)
	}
	if _, ok := b.Listener("SSL"); ok {
		t.Error("a listener out of nothing")
	}
	n, _ := img.Controller(101)
	if l, ok := n.Listener("CONTROLLER"); !ok || l.Address() != "c:9093" {
		t.Error(n)
	}
	if (Listener{Host: "::1", Port: 9092}).Address() != "[::1]:9092" {
		t.Error("an IPv6 address needs brackets")
	}
	if img.NumBrokers() != 6 || img.LastBatchTimeMs() == 0 {
		t.Error(img.NumBrokers(), img.LastBatchTimeMs())
	}
	if _, ok := img.TopicByName("none"); ok {
		t.Error("a topic out of nothing")
	}
	if _, ok := img.Partition(PartitionID{Topic: uuid(99)}); ok {
		t.Error("a partition out of nothing")
	}
	if _, ok := img.Partition(PartitionID{Topic: uuid(10), Partition: -1}); ok {
		t.Error("a partition before the first")
	}
	if _, ok := img.ConfigValue(TopicResource("a"), "none"); ok || img.NumReplicasOf(77)+img.NumLedBy(77) != 0 {
		t.Error("values out of nothing")
	}
	for range img.PartitionsOf(1) {
		break // an iteration may end early
	}
	for range img.Leaderless() {
		break
	}
	for range img.Topics() {
		break
	}
}
