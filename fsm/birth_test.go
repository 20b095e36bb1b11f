package fsm

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// mustOnlyGrow verifies that no number that the older image may have given out can be given out again after a birth.
func mustOnlyGrow(tb reporter, old, born *Image) {
	tb.Helper()
	if born.Lineage().ID.Number <= old.Lineage().ID.Number || born.NextOffset() < old.NextOffset() {
		tb.Fatalf("I6: lineage %s at %d after %s at %d", born.Lineage().ID, born.NextOffset(), old.Lineage().ID, old.NextOffset())
	}
	if born.EpochBase() < old.ControllerEpoch() || born.EpochBase() < old.EpochBase() || born.ControllerEpoch() != 0 || born.ClaimOffset() != -1 {
		tb.Fatalf("I6: epoch base %d after controller epoch %d", born.EpochBase(), old.ControllerEpoch())
	}
	if born.NextProducerID() <= old.NextProducerID() || !born.Lineage().Descends(old.Lineage().ID) || born.Confirmed() {
		tb.Fatalf("next producer id %d after %d, lineage %v, confirmed %t", born.NextProducerID(), old.NextProducerID(), born.Lineage(), born.Confirmed())
	}
	for b := range born.Brokers() {
		if b.Epoch != VoidEpoch || !b.Fenced {
			tb.Fatalf("I19: broker %d has epoch %d, fenced %t", b.ID, b.Epoch, b.Fenced)
		}
	}
	if born.NumAwaiting() != born.NumPartitions() {
		tb.Fatalf("%d of %d partitions await inventories", born.NumAwaiting(), born.NumPartitions())
	}
	mustKeep(tb, old, born)
	if born.NumBrokers() != old.NumBrokers() || born.NumTopics() != old.NumTopics() || born.NumPartitions() != old.NumPartitions() {
		tb.Fatalf("the birth lost or made up an object")
	}
	for t := range old.Topics() {
		again, ok := born.Topic(t.ID())
		if !ok || again.Name() != t.Name() {
			tb.Fatalf("I10: topic %s is gone", t.Name())
		}
		for i, p := range t.Partitions() {
			q, _ := again.Partition(i)
			if q.LeaderEpoch <= p.LeaderEpoch || q.PartitionEpoch <= p.PartitionEpoch {
				tb.Fatalf("I9: %s-%d has epochs %d/%d after %d/%d", t.Name(), i, q.LeaderEpoch, q.PartitionEpoch, p.LeaderEpoch, p.PartitionEpoch)
			}
			if q.Leader != NoLeader || len(q.ISR)+len(q.ELR)+len(q.LastKnownELR) != 0 || !q.AwaitingInventory {
				tb.Fatalf("%s-%d trusts what was before: %s", t.Name(), i, q)
			}
		}
	}
}

// mustKeep verifies that what no lineage can be wrong about is the same after a birth.
func mustKeep(tb reporter, old, born *Image) {
	tb.Helper()
	kept := func(s state) state {
		for key := range s {
			switch kind, _, _ := strings.Cut(key, " "); kind {
			case "broker", "controller", "partition", "recovery", "confirmed", "claim", "producer":
				delete(s, key)
			}
		}
		return s
	}
	if got, want := kept(stateOf(born)).String(), kept(stateOf(old)).String(); got != want {
		tb.Fatalf("the birth kept\n%s\nof\n%s", got, want)
	}
}

// TestRebirthOfAnyImage is born from what random histories lead to, folds on, and is born again.
func TestRebirthOfAnyImage(t *testing.T) {
	var confirmed, recoveries int
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		h := newHistory(w, rapidChooser{t})
		for number := range rapid.IntRange(1, 3).Draw(t, "births") {
			for range rapid.IntRange(0, 25).Draw(t, "entries") {
				w.apply(h.entry())
			}
			old := w.img
			recoveries += old.NumRecoveryElections()
			if number > 0 && old.Confirmed() {
				confirmed++
			}
			w.rebirth(number + 2)
			mustBeSound(t, w.img)
			mustOnlyGrow(t, old, w.img)
			d := Diff(old, w.img)
			if got, want := stateOf(old).with(d, w.img).String(), stateOf(w.img).String(); got != want {
				t.Fatalf("I5: the diff folded into the image before gives\n%s\nwant\n%s", got, want)
			}
			for _, id := range []int32{1, 2, 3} {
				if n := len(d.Local(id).Led); n != 0 {
					t.Fatalf("broker %d leads %d partitions after a birth", id, n)
				}
			}
		}
	})
	t.Logf("%d elections without all inventories, %d confirmed lineages were reborn", recoveries, confirmed)
	if recoveries == 0 || confirmed == 0 {
		t.Fatal("the histories do not meet what they are for")
	}
}

// TestRebirthCountsOnWitnesses is born above all that anybody has seen.
func TestRebirthCountsOnWitnesses(t *testing.T) {
	img := soundImage(t)
	born, err := Rebirth(img, Birth{ClusterID: uuid(9).String(), UUID: uuid(8), Number: 7, KnownNextOffset: 7<<44 + 5, KnownEpoch: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if born.Lineage().ID.Number != 7 || born.NextOffset() != 7<<44+5 || born.EpochBase() != 9<<20 || born.ClusterID() != uuid(9).String() {
		t.Fatal(Describe(born))
	}
	born, err = Rebirth(img, Birth{ClusterID: img.ClusterID(), UUID: uuid(8), KnownNextOffset: 5, KnownEpoch: 8})
	if err != nil {
		t.Fatal(err)
	}
	if born.Lineage().ID.Number != 2 || born.NextOffset() != 2<<44 || born.EpochBase() != 3<<20 || born.NextProducerID() != 1000+1<<32 {
		t.Fatal(Describe(born))
	}
	// A file that is restored again does not give out what the lineage between has given out.
	again, err := Rebirth(img, Birth{ClusterID: img.ClusterID(), UUID: uuid(9), Number: 3})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := born.Partition(PartitionID{Topic: uuid(10)})
	q, _ := again.Partition(PartitionID{Topic: uuid(10)})
	if again.NextProducerID() != born.NextProducerID()+1<<32 || q.LeaderEpoch != p.LeaderEpoch+1<<16 || q.PartitionEpoch != p.PartitionEpoch+1<<16 {
		t.Fatalf("%s\n%s", Describe(born), Describe(again))
	}
	if a := born.Lineage().Ancestors; len(a) != 1 || a[0].UUID != img.Lineage().ID.UUID || a[0].ForkOffset != img.NextOffset() {
		t.Fatal(born.Lineage())
	}
}

// TestRebirthRefuses has the births that would give something out twice.
func TestRebirthRefuses(t *testing.T) {
	sound := soundImage(t)
	for what, c := range map[string]struct {
		spoil func(*Image)
		birth func(*Birth)
	}{
		"no cluster":              {birth: func(b *Birth) { b.ClusterID = "" }},
		"no uuid":                 {birth: func(b *Birth) { b.UUID = UUID{} }},
		"the uuid of now":         {birth: func(b *Birth) { b.UUID = sound.Lineage().ID.UUID }},
		"an ancestor's uuid":      {spoil: func(i *Image) { i.lineage.Ancestors = []Ancestor{{UUID: uuid(8)}} }},
		"the number of now":       {birth: func(b *Birth) { b.Number = 1 }},
		"a number too far off":    {birth: func(b *Birth) { b.Number = 1 << 15 }},
		"a number without end":    {birth: func(b *Birth) { b.Number = maxLineageNumber + 1 }},
		"offsets without end":     {birth: func(b *Birth) { b.KnownNextOffset = math.MaxInt64 }},
		"epochs without end":      {birth: func(b *Birth) { b.KnownEpoch = math.MaxInt64 }},
		"producers without end":   {spoil: func(i *Image) { i.nextProducerID = math.MaxInt64 }},
		"ancestors without end":   {spoil: func(i *Image) { i.lineage.Ancestors = make([]Ancestor, maxAncestors) }},
		"a leader epoch's end":    {spoil: breakPartition(func(p *Partition) { p.LeaderEpoch = math.MaxInt32 - 2*partitionEpochs + 1 })},
		"a partition epoch's end": {spoil: breakPartition(func(p *Partition) { p.PartitionEpoch = math.MaxInt32 })},
	} {
		img, b := *sound, Birth{ClusterID: sound.ClusterID(), UUID: uuid(8)}
		if c.spoil != nil {
			c.spoil(&img)
		}
		if c.birth != nil {
			c.birth(&b)
		}
		if _, err := Rebirth(&img, b); err == nil {
			t.Errorf("%s: a lineage was born", what)
		}
	}
}
