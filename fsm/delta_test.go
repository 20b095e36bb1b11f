package fsm

import (
	"fmt"
	"slices"
	"testing"
)

// TestDeltaShows folds one record of each kind and finds it in the delta. LineageStarted is never in an entry.
func TestDeltaShows(t *testing.T) {
	topics := func(d *Delta) bool { return len(d.Topics) > 0 }
	brokers := func(d *Delta) bool { return len(d.Brokers) > 0 }
	shown := map[string]func(*Delta) bool{
		"PartitionChange": topics, "Partition": topics, "Topic": topics, "RemoveTopic": topics,
		"RegisterBroker": brokers, "UnregisterBroker": brokers, "BrokerRegistrationChange": brokers,
		"Config":               func(d *Delta) bool { return len(d.Configs) > 0 },
		"ProducerIDs":          func(d *Delta) bool { return d.ProducerIDs },
		"ControllerClaimed":    func(d *Delta) bool { return d.Claimed },
		"ControllerRegistered": func(d *Delta) bool { return len(d.Controllers) > 0 },
		"LineageStarted":       nil,
		"LineageConfirmed":     func(d *Delta) bool { return d.Confirmed },
		"RecoveryElected":      func(d *Delta) bool { return len(d.Recoveries) > 0 },
		"FeatureLevel":         func(d *Delta) bool { return len(d.Features) > 0 },
		"ClientQuota":          func(d *Delta) bool { return len(d.Quotas) > 0 },
		"ClearElr":             topics,
		"RequestAnswered":      func(d *Delta) bool { return d.Answered },
	}
	for number := range recordKinds.Fields().Len() {
		kind := string(recordKinds.Fields().Get(number).Message().Name())
		show, known := shown[kind]
		if !known {
			t.Errorf("%s: no test that the delta shows it", kind)
		}
		if show == nil {
			continue
		}
		w := newWorld(t)
		w.claim(101, 1)
		w.addBroker(1)
		w.addBroker(2)
		w.addTopic("t", uuid(10), []int32{1, 2})
		if kind == "LineageConfirmed" {
			w.rebirth(2)
			w.claim(101, w.img.EpochBase()+1)
		}
		if kind != "ControllerClaimed" {
			w.fold(oneRecord(t, w, kind)...)
		} else {
			w.claim(102, 2)
		}
		if !show(w.last.Delta) {
			t.Errorf("%s: the delta does not show it: %+v", kind, w.last.Delta)
		}
		if w.last.Delta.Empty() {
			t.Errorf("%s: the delta is empty", kind)
		}
	}
}

// oneRecord is a legal record of a kind, with what must be in the same batch.
func oneRecord(tb reporter, w *world, kind string) []record {
	next := w.img.NextOffset()
	lines := map[string][]string{
		"PartitionChange":          {"change topic=10 leader=-1"},
		"Partition":                {"partition topic=10 n=1 replicas=1"},
		"Topic":                    {"topic name=u id=11", "partition topic=11 replicas=1"},
		"RemoveTopic":              {"remove-topic id=10"},
		"RegisterBroker":           {fmt.Sprintf("register id=3 incarnation=9 epoch=%d", next)},
		"UnregisterBroker":         {"change topic=10 isr=1", "unregister id=2 epoch=4"},
		"BrokerRegistrationChange": {"change topic=10 isr=1", "broker id=2 epoch=4 fenced=true"},
		"Config":                   {"config key=k value=v"},
		"ProducerIDs":              {"producer-ids broker=1 epoch=2 next=1000"},
		"ControllerRegistered":     {"controller node=101 incarnation=5"},
		"LineageConfirmed":         {"lineage-confirmed"},
		"RecoveryElected":          {"recovery-elected topic=10 leader=1 missing=2"},
		"FeatureLevel":             {"feature name=f level=1"},
		"ClientQuota":              {"quota user=alice key=producer_byte_rate value=1024"},
		"RequestAnswered":          {"answered id=7 kind=k answer=yes"},
		"ClearElr":                 {"change topic=10 isr=1 elr=2", "clear-elr topic=t"},
	}
	var records []record
	for _, line := range lines[kind] {
		records = append(records, parseRecord(tb, line))
	}
	return records
}

// TestFollowRefuses has what a follower must not fold, whoever sends it.
func TestFollowRefuses(t *testing.T) {
	w := newWorld(t)
	w.claim(101, 5)
	good := w.entry(configRecord(BrokerResource(""), "k", ptr("v")))
	if r := Follow(w.img, good); r.Outcome != Applied || r.FirstOffset != 2 || r.ControllerEpoch != 5 {
		t.Fatal(r)
	}
	for want, spoil := range map[string]func(*Entry){
		"first_metadata_offset": func(e *Entry) { e.FirstOffset++ },
		"controller_epoch":      func(e *Entry) { e.ControllerEpoch-- },
		"lineage":               func(e *Entry) { e.Envelope.Lineage.Number++ },
		"cluster_id":            func(e *Entry) { e.Envelope.ClusterId = uuid(9).String() },
	} {
		e := w.entry(configRecord(BrokerResource(""), "k", ptr("v")))
		spoil(&e)
		if r := Follow(w.img, e); r.Outcome != Dropped || r.Mismatch.Check != want || r.Image != w.img {
			t.Errorf("%s: %v %v", want, r.Outcome, r.Mismatch)
		}
	}
	if r := Follow(w.img, w.claimEntry(102, 4)); r.Outcome != Dropped || r.Mismatch.Check != "controller_epoch" {
		t.Errorf("a claim of an older epoch: %v %v", r.Outcome, r.Mismatch)
	}
	late := w.entry(configRecord(BrokerResource(""), "k", ptr("v")))
	late.Envelope.DigestBefore = nil
	if r := Follow(w.img, late); r.Outcome != Applied || r.Alarm != nil {
		t.Errorf("an entry without a digest: %v %v", r.Outcome, r.Alarm)
	}
	other := w.entry(configRecord(BrokerResource(""), "k", ptr("v")))
	*other.Envelope.DigestBefore++
	if r := Follow(w.img, other); r.Outcome != Applied || r.Alarm == nil || r.Alarm.Check != "digest_before" {
		t.Errorf("an entry decided on another image: %v %v", r.Outcome, r.Alarm)
	}
}

// TestImagesAreConstants keeps what an image gave away from reaching back into it.
func TestImagesAreConstants(t *testing.T) {
	img := soundImage(t)
	before := Describe(img)
	for topic := range img.Topics() {
		for _, p := range topic.Partitions() {
			for _, list := range [][]int32{p.Replicas, p.ISR} {
				for i := range list {
					list[i] = 99
				}
			}
		}
	}
	for _, e := range [][]ConfigEntry{img.Configs(TopicResource("a")), img.Configs(BrokerResource(""))} {
		e[0].Value = "changed"
	}
	digest := img.Digest()
	digest[0]++
	if Describe(img) != before {
		t.Fatal("a reader changed the image")
	}
	if err := Check(img); err != nil {
		t.Fatal(err)
	}
}

// TestSlotRoundTrip packs every partition of up to four replicas with every ordered ISR.
func TestSlotRoundTrip(t *testing.T) {
	n := 0
	for size := 1; size <= inlineReplicas; size++ {
		replicas := []int32{7, 3, 1<<31 - 1, 0}[:size]
		for _, isr := range arrangements(replicas) {
			for _, leader := range append(slices.Clone(isr), NoLeader) {
				p := Partition{Replicas: replicas, ISR: isr, Leader: leader, LeaderEpoch: 1<<31 - 1, PartitionEpoch: 5, Recovering: n%2 == 0, AwaitingInventory: n%3 == 0}
				s, fits := packSlot(&p)
				if !fits {
					t.Fatalf("%s does not fit", p)
				}
				if got := s.unpack(); !got.equal(&p) {
					t.Fatalf("got %s, want %s", got, p)
				}
				n++
			}
		}
	}
	if n < 200 {
		t.Fatalf("only %d partitions were packed", n)
	}
	for _, p := range []Partition{
		{Replicas: []int32{1, 2, 3, 4, 5}},
		{Replicas: []int32{1}, Adding: []int32{1}},
		{Replicas: []int32{1}, Removing: []int32{1}},
		{Replicas: []int32{1}, ELR: []int32{1}},
		{Replicas: []int32{1}, LastKnownELR: []int32{1}},
		{Replicas: []int32{1}, Directories: []UUID{uuid(1)}},
		{Replicas: []int32{1}, ISR: []int32{2}},
		{Replicas: []int32{1}, Leader: 2},
	} {
		if _, fits := packSlot(&p); fits {
			t.Errorf("%s fits a slot that cannot say so", p)
		}
		c := &chunk{}
		c.set(0, &p)
		if got := c.get(0); !got.equal(&p) {
			t.Errorf("the side table gives %s, want %s", got, p)
		}
	}
}

// arrangements are all ordered selections of ids, the empty one too.
func arrangements(ids []int32) [][]int32 {
	all := [][]int32{nil}
	for _, id := range ids {
		for _, rest := range arrangements(without(ids, id)) {
			all = append(all, append([]int32{id}, rest...))
		}
	}
	return all
}

// TestChunksAreCopiedOnce changes two partitions of one chunk: that chunk is copied, the others stay shared.
func TestChunksAreCopiedOnce(t *testing.T) {
	w := newWorld(t)
	w.claim(101, 1)
	w.addBroker(1)
	var replicas [][]int32
	for range 3 * chunkPartitions {
		replicas = append(replicas, []int32{1})
	}
	w.addTopic("t", uuid(10), replicas...)
	before, _ := w.img.Topic(uuid(10))
	w.fold(
		parseRecord(t, fmt.Sprintf("change topic=10 n=%d leader=1", chunkPartitions)),
		parseRecord(t, fmt.Sprintf("change topic=10 n=%d leader=1", chunkPartitions+1)),
	)
	after, _ := w.img.Topic(uuid(10))
	for k := range before.chunks {
		if shared := before.chunks[k] == after.chunks[k]; shared != (k != 1) {
			t.Errorf("chunk %d is shared: %t", k, shared)
		}
	}
	for _, c := range after.chunks {
		if cap(c.slots) > chunkPartitions {
			t.Errorf("a chunk keeps room for %d", cap(c.slots))
		}
	}
}
