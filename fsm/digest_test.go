package fsm

import (
	"testing"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// TestDigestIsFixed pins the canonical encoding: two builds of one cluster compare digests, so it may never change.
func TestDigestIsFixed(t *testing.T) {
	const want = "dc427e04ff785abf7249d1abbbdc209c"
	if got := soundImage(t).Digest().String(); got != want {
		t.Fatalf("the digest of a fixed image is %s, want %s: a node of this build would raise an alarm at every other", got, want)
	}
}

// TestDigestDoesNotDependOnOrder reaches the same objects by two routes.
func TestDigestDoesNotDependOnOrder(t *testing.T) {
	a, b := newWorld(t), newWorld(t)
	a.claim(101, 1)
	b.claim(101, 1)
	register := []record{registerRecord(1, 2, 1), registerRecord(2, 3, 1)}
	a.fold(register...)
	b.fold(register...)
	x, y := configRecord(BrokerResource(""), "x", ptr("1")), configRecord(BrokerResource("1"), "y", ptr("2"))
	a.fold(x, y)
	b.fold(y, x)
	if a.img.objects != b.img.objects {
		t.Fatal("the sum depends on the order")
	}
	a.fold(configRecord(BrokerResource(""), "x", ptr("3")))
	a.fold(configRecord(BrokerResource(""), "x", ptr("1")))
	if a.img.objects != b.img.objects {
		t.Fatal("a change that was taken back has left a trace")
	}
	if a.img.Digest() == b.img.Digest() {
		t.Fatal("images at two metadata offsets have one digest")
	}
}

func ptr(s string) *string { return &s }

// TestDigestTellsObjectsApart changes one field at a time; no two states may hash alike, nor may a string that moves
// from one field to its neighbour.
func TestDigestTellsObjectsApart(t *testing.T) {
	base := Partition{Replicas: []int32{1, 2}, ISR: []int32{1}, Leader: 1}
	sums := map[sum]string{}
	add := func(what string, s sum) {
		if other, twice := sums[s]; twice {
			t.Errorf("%s hashes like %s", what, other)
		}
		sums[s] = what
	}
	partition := func(what string, change func(*Partition)) {
		p := base.clone()
		change(&p)
		add("partition: "+what, p.sum(PartitionID{Topic: uuid(1)}))
	}
	partition("as it is", func(*Partition) {})
	partition("replicas", func(p *Partition) { p.Replicas = []int32{2, 1} })
	partition("ISR", func(p *Partition) { p.ISR = []int32{2} })
	partition("a replica moved to the ISR", func(p *Partition) { p.Replicas, p.ISR = []int32{1}, []int32{2, 1} })
	partition("adding", func(p *Partition) { p.Adding = []int32{1} })
	partition("removing", func(p *Partition) { p.Removing = []int32{1} })
	partition("leader", func(p *Partition) { p.Leader = NoLeader })
	partition("leader epoch", func(p *Partition) { p.LeaderEpoch = 1 })
	partition("partition epoch", func(p *Partition) { p.PartitionEpoch = 1 })
	partition("recovering", func(p *Partition) { p.Recovering = true })
	partition("awaiting inventory", func(p *Partition) { p.AwaitingInventory = true })
	partition("ELR", func(p *Partition) { p.ELR = []int32{1} })
	partition("last known ELR", func(p *Partition) { p.LastKnownELR = []int32{1} })
	partition("directories", func(p *Partition) { p.Directories = []UUID{{}} })
	add("partition 1", base.sum(PartitionID{Topic: uuid(1), Partition: 1}))
	add("partition of another topic", base.sum(PartitionID{Topic: uuid(2)}))
	add("config k=v", configSum(BrokerResource(""), ConfigEntry{Key: "k", Value: "v"}))
	add("config kv=", configSum(BrokerResource(""), ConfigEntry{Key: "kv"}))
	add("config of broker k", configSum(BrokerResource("k"), ConfigEntry{Value: "v"}))
	add("config of topic k", configSum(TopicResource("k"), ConfigEntry{Value: "v"}))
	add("topic", topicSum(uuid(1), "k"))
	brokers(add)
	guards(add)
	recoveries(add)
}

func recoveries(add func(string, sum)) {
	for what, change := range map[string]func(*RecoveryElection){
		"as it is": func(*RecoveryElection) {}, "leader": func(e *RecoveryElection) { e.Leader++ },
		"leader epoch": func(e *RecoveryElection) { e.LeaderEpoch++ }, "last epoch": func(e *RecoveryElection) { e.LastLeaderEpoch++ },
		"log end": func(e *RecoveryElection) { e.LogEndOffset++ }, "missing": func(e *RecoveryElection) { e.Missing = []int32{3} },
		"late":       func(e *RecoveryElection) { e.Late = []LateInventory{{Broker: 2}} },
		"late start": func(e *RecoveryElection) { e.Late = []LateInventory{{Broker: 2, LogStartOffset: 1}} },
		"late end":   func(e *RecoveryElection) { e.Late = []LateInventory{{Broker: 2, LogEndOffset: 1}} },
		"late epoch": func(e *RecoveryElection) { e.Late = []LateInventory{{Broker: 2, LastLeaderEpoch: 1}} },
	} {
		e := RecoveryElection{Leader: 1, Missing: []int32{2}}
		change(&e)
		add("recovery: "+what, e.sum(PartitionID{Topic: uuid(1)}))
	}
	e := RecoveryElection{Leader: 1, Missing: []int32{2}}
	add("recovery of another partition", e.sum(PartitionID{Topic: uuid(1), Partition: 1}))
}

func brokers(add func(string, sum)) {
	base := Broker{ID: 1, Epoch: 2, IncarnationID: uuid(3), Listeners: []Listener{{Name: "A", Host: "b", Port: 1}}}
	for what, change := range map[string]func(*Broker){
		"as it is": func(*Broker) {}, "id": func(b *Broker) { b.ID = 2 }, "epoch": func(b *Broker) { b.Epoch = 3 },
		"incarnation": func(b *Broker) { b.IncarnationID = uuid(4) }, "fenced": func(b *Broker) { b.Fenced = true },
		"shutdown":    func(b *Broker) { b.InControlledShutdown = true },
		"empty rack":  func(b *Broker) { b.HasRack = true },
		"rack":        func(b *Broker) { b.HasRack, b.Rack = true, "r" },
		"directories": func(b *Broker) { b.Directories = []UUID{uuid(1)} },
		"features":    func(b *Broker) { b.Features = []Feature{{Name: "f", Min: 1, Max: 2}} },
		"name":        func(b *Broker) { b.Listeners = []Listener{{Name: "Ab", Port: 1}} },
		"port":        func(b *Broker) { b.Listeners = []Listener{{Name: "A", Host: "b", Port: 2}} },
		"protocol":    func(b *Broker) { b.Listeners = []Listener{{Name: "A", Host: "b", Port: 1, SecurityProtocol: 1}} },
	} {
		b := base
		change(&b)
		add("broker: "+what, b.sum())
	}
	n := Controller{ID: 1, DirectoryID: uuid(2), IncarnationID: uuid(3)}
	add("controller", n.sum())
	n.DirectoryID = uuid(4)
	add("controller in another directory", n.sum())
}

func guards(add func(string, sum)) {
	for what, change := range map[string]func(*guard){
		"as it is": func(*guard) {}, "cluster": func(g *guard) { g.clusterID = "x" },
		"lineage":        func(g *guard) { g.lineage.ID.Number = 2 },
		"ancestors":      func(g *guard) { g.lineage.Ancestors = []Ancestor{{}} },
		"offset":         func(g *guard) { g.nextOffset++ },
		"epoch base":     func(g *guard) { g.epochBase++ },
		"epoch":          func(g *guard) { g.controllerEpoch++ },
		"claim":          func(g *guard) { g.claimOffset++ },
		"claimant":       func(g *guard) { g.claim.NodeID++ },
		"claim's nonce":  func(g *guard) { g.claim.Nonce[0]++ },
		"time":           func(g *guard) { g.lastBatchTimeMs++ },
		"producer ids":   func(g *guard) { g.nextProducerID++ },
		"unconfirmed":    func(g *guard) { g.unconfirmed = true },
		"claimant's dir": func(g *guard) { g.claim.DirectoryID[0]++ },
	} {
		g := guard{clusterID: "c", nextOffset: 10}
		change(&g)
		add("guard: "+what, g.sum())
	}
}

// TestGenesisRefuses has the births that are none.
func TestGenesisRefuses(t *testing.T) {
	good := func() *metadatav1.LineageStarted {
		return &metadatav1.LineageStarted{
			ClusterId: testCluster, Lineage: LineageID{Number: 3, UUID: uuid(1)}.Proto(), NextMetadataOffset: 3 << 44, EpochBase: 4 << 20,
			Ancestors: []*metadatav1.LineageAncestor{{Uuid: uuid(7).Bytes(), ForkOffset: 9}},
		}
	}
	img, err := Genesis(good())
	if err != nil || Check(img) != nil {
		t.Fatal(err, Check(img))
	}
	old := LineageID{Number: 1, UUID: uuid(7)}
	if !img.Lineage().Descends(old) || img.Lineage().Descends(img.Lineage().ID) || img.Lineage().Descends(LineageID{Number: 1, UUID: uuid(8)}) {
		t.Fatal("descent is wrong")
	}
	if img.AppliedOffset() != 3<<44-1 || img.EpochBase() != 4<<20 || img.ControllerEpoch() != 0 || img.ClaimOffset() != -1 {
		t.Fatal(Describe(img))
	}
	for what, spoil := range map[string]func(*metadatav1.LineageStarted){
		"cluster id":  func(r *metadatav1.LineageStarted) { r.ClusterId = "x" },
		"lineage":     func(r *metadatav1.LineageStarted) { r.Lineage = nil },
		"number":      func(r *metadatav1.LineageStarted) { r.Lineage.Number = 0 },
		"uuid":        func(r *metadatav1.LineageStarted) { r.Lineage.Uuid = nil },
		"zero uuid":   func(r *metadatav1.LineageStarted) { r.Lineage.Uuid = make([]byte, 16) },
		"offset":      func(r *metadatav1.LineageStarted) { r.NextMetadataOffset = 0 },
		"epoch base":  func(r *metadatav1.LineageStarted) { r.EpochBase = -1 },
		"ancestor":    func(r *metadatav1.LineageStarted) { r.Ancestors[0].Uuid = nil },
		"fork offset": func(r *metadatav1.LineageStarted) { r.Ancestors[0].ForkOffset = -1 },
		"ancestors": func(r *metadatav1.LineageStarted) {
			for range maxAncestors {
				r.Ancestors = append(r.Ancestors, r.GetAncestors()[0])
			}
		},
	} {
		r := good()
		spoil(r)
		if _, err := Genesis(r); err == nil {
			t.Errorf("a birth with a wrong %s was accepted", what)
		}
	}
	if _, err := Genesis(nil); err == nil {
		t.Error("a birth of nothing was accepted")
	}
}

func TestUUIDText(t *testing.T) {
	u := uuid(0x1234)
	back, err := ParseUUID(u.String())
	if err != nil || back != u || len(u.String()) != 22 {
		t.Fatal(back, err, u.String())
	}
	for _, bad := range []string{"", "x", u.String() + "A", u.String()[:21], u.String()[:21] + "B", u.String()[:21] + "="} {
		if _, err := ParseUUID(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
