package fsm

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

type rapidChooser struct{ t *rapid.T }

func (c rapidChooser) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(c.t, "choice") }

// TestRandomHistories grows images by random entries, legal and broken ones, and after every step compares the
// image with the model, with a follower's and with its own recomputation.
func TestRandomHistories(t *testing.T) {
	outcomes := make(map[Outcome]int)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		h := newHistory(w, rapidChooser{t})
		m, follower := newModel(), w.img
		for range rapid.IntRange(1, 40).Draw(t, "entries") {
			e := h.entry()
			if h.IntN(6) == 0 {
				spoil(h, e)
			}
			before, beforeText := w.img, Describe(w.img)
			r := w.apply(e)
			outcomes[r.Outcome]++
			if Describe(before) != beforeText {
				t.Fatalf("%v changed the image it was given", r.Outcome)
			}
			if r.Outcome != Applied {
				if r.Image != before || r.Delta != nil {
					t.Fatalf("%v changed the image", r.Outcome)
				}
				continue
			}
			old := m.clone()
			for _, b := range e.Envelope.GetBatches() {
				for _, rec := range b.GetRecords() {
					m.fold(rec)
				}
			}
			follower = mustStep(t, old, m, before, follower, e, r)
		}
	})
	t.Logf("outcomes: %v", outcomes)
	if outcomes[Applied] == 0 || outcomes[Dropped] == 0 || outcomes[Broken] == 0 {
		t.Fatalf("the histories do not meet every outcome: %v", outcomes)
	}
}

// mustStep verifies everything that must hold after an entry took effect, and returns the follower's next image.
func mustStep(t *rapid.T, old, now *model, before, follower *Image, e Entry, r Result) *Image {
	if err := Check(r.Image); err != nil {
		t.Fatalf("check: %v", err)
	}
	now.mustMatch(t, r.Image)
	f := Follow(follower, Entry{Envelope: e.Envelope, ControllerEpoch: r.ControllerEpoch, FirstOffset: r.FirstOffset})
	if f.Outcome != Applied || f.Image.Digest() != r.Image.Digest() {
		t.Fatalf("I1: the follower %v %v %v", f.Outcome, f.Mismatch, f.Err)
	}
	if r.Image.NextOffset() <= before.NextOffset() || r.Image.ControllerEpoch() < before.ControllerEpoch() {
		t.Fatalf("I6: offset %d after %d, controller epoch %d after %d", r.Image.NextOffset(), before.NextOffset(), r.Image.ControllerEpoch(), before.ControllerEpoch())
	}
	diff := Diff(before, r.Image)
	for b := int32(0); b < 8; b++ {
		want := now.local(old, b)
		if got := localText(r.Delta.Local(b)); got != want {
			t.Fatalf("local changes of broker %d:\n%s\nwant\n%s", b, got, want)
		}
		if got := localText(diff.Local(b)); got != want {
			t.Fatalf("local changes of broker %d by diff:\n%s\nwant\n%s", b, got, want)
		}
	}
	if got, want := stateOf(before).with(r.Delta, r.Image).String(), stateOf(r.Image).String(); got != want {
		t.Fatalf("the delta folded into the image before gives\n%s\nwant\n%s", got, want)
	}
	return f.Image
}

// spoil changes an entry so that it is likely to fail the guard or the fold.
func spoil(h *history, e Entry) {
	env := e.Envelope
	records := env.GetBatches()[0].GetRecords()
	r := records[h.IntN(len(records))]
	switch h.IntN(6) {
	case 0:
		env.ClaimOffset = proto.Int64(int64(h.IntN(5)))
	case 1:
		env.FirstMetadataOffset = proto.Int64(int64(h.IntN(50)))
	case 2:
		env.Batches[0].Records = append(records, records[h.IntN(len(records))])
	case 3:
		if c := r.GetPartitionChange(); c != nil {
			c.Isr = &metadatav1.BrokerIDs{Ids: []int32{int32(h.IntN(8)), int32(h.IntN(8))}}
		}
	case 4:
		if p := r.GetPartition(); p != nil {
			p.PartitionId += int32(h.IntN(3)) - 1
		}
	default:
		if c := r.GetPartitionChange(); c != nil {
			c.Leader = proto.Int32(int32(h.IntN(9)) - 1)
		}
	}
}

// TestDiffLeadsToTheOtherImage folds Diff(a, b) into a for unrelated a and b, and gets b (I5).
func TestDiffLeadsToTheOtherImage(t *testing.T) {
	for seed := range uint64(30) {
		a, b := newWorld(t), newWorld(t)
		randomHistory(a, seed, 60)
		randomHistory(b, seed+1000, 60)
		for _, pair := range [][2]*Image{{a.img, b.img}, {b.img, a.img}, {a.img, a.img}, {newWorld(t).img, b.img}} {
			d := Diff(pair[0], pair[1])
			if got, want := stateOf(pair[0]).with(d, pair[1]).String(), stateOf(pair[1]).String(); got != want {
				t.Fatalf("seed %d: got\n%s\nwant\n%s", seed, got, want)
			}
			if pair[0] == pair[1] && !d.Empty() {
				t.Fatalf("seed %d: an image differs from itself: %+v", seed, d)
			}
		}
	}
}

// TestEverySplit folds a history whole, and folds every prefix, takes it through a snapshot and folds the suffix:
// two routes, one image (I1). The suffix is folded as a quorum node does and as a follower does.
func TestEverySplit(t *testing.T) {
	splits := 0
	for seed := range uint64(6) {
		w := newWorld(t)
		start := w.img
		entries := randomHistory(w, seed, 50)
		for k := range len(entries) + 1 {
			node := throughSnapshot(t, foldAll(t, start, entries[:k], Apply))
			for name, step := range map[string]func(*Image, Entry) Result{"apply": Apply, "follow": Follow} {
				got := foldAll(t, node, entries[k:], step)
				if got.Digest() != w.img.Digest() || Describe(got) != Describe(w.img) {
					t.Fatalf("seed %d, split at %d, %s: %s, want %s", seed, k, name, got.Digest(), w.img.Digest())
				}
			}
			splits++
		}
	}
	t.Logf("%d splits", splits)
}

func foldAll(tb reporter, img *Image, entries []Entry, step func(*Image, Entry) Result) *Image {
	tb.Helper()
	for i, e := range entries {
		r := step(img, e)
		if r.Outcome != Applied || r.Alarm != nil {
			tb.Fatalf("entry %d: %v %v %v alarm %v", i, r.Outcome, r.Mismatch, r.Err, r.Alarm)
		}
		img = r.Image
	}
	return img
}

// TestTipEqualsLog folds a history without the guard, as the tip does: the images agree, and a claim is refused.
func TestTipEqualsLog(t *testing.T) {
	w := newWorld(t)
	before := w.img
	for i, e := range randomHistory(w, 3, 80) {
		r := Apply(before, e)
		tip, delta, err := FoldBatches(before, e.Envelope.GetBatches(), e.ControllerEpoch)
		if isClaim(e.Envelope) {
			if err == nil {
				t.Fatal("a claim was folded into a tip")
			}
		} else if err != nil || tip.Digest() != r.Image.Digest() || delta.To != r.Delta.To {
			t.Fatalf("entry %d: tip %v, %v, log %v", i, tip, err, r.Outcome)
		}
		before = r.Image
	}
}

// state is an image as text by object, so that a delta can be folded into it.
type state map[string]string

func stateOf(img *Image) state {
	s := make(state)
	for b := range img.Brokers() {
		s.set("broker", b.ID, fmt.Sprintf("%+v", *b))
	}
	for n := range img.Controllers() {
		s.set("controller", n.ID, fmt.Sprintf("%+v", *n))
	}
	for t := range img.Topics() {
		s.set("topic", t.ID(), t.Name())
		for i, p := range t.Partitions() {
			s.set("partition", PartitionID{t.ID(), i}, p.String())
		}
	}
	for it := img.configs.Iterator(); !it.Done(); {
		r, entries, _ := it.Next()
		s.set("config", r, fmt.Sprint(entries))
	}
	for id, e := range img.RecoveryElections() {
		s.set("recovery", id, e.String())
	}
	for name, level := range img.FeatureLevels() {
		s.set("feature", name, fmt.Sprint(level))
	}
	for q := range img.Quotas() {
		s.add("quotas", q.Entity, fmt.Sprint(q.Key, "=", q.Value))
	}
	s.set("answers", "", answersText(img))
	s.set("confirmed", "", fmt.Sprint(img.Confirmed()))
	s.set("producer", "ids", fmt.Sprint(img.NextProducerID()))
	s.set("claim", "", fmt.Sprint(img.ClaimOffset(), img.claim))
	return s
}

func (s state) set(kind string, id any, text string) {
	key := fmt.Sprintf("%s %v", kind, id)
	if delete(s, key); text != "" {
		s[key] = text
	}
}

func answersText(img *Image) string {
	var b bytes.Buffer
	for a := range img.Answers() {
		fmt.Fprintf(&b, "%+v;", *a)
	}
	return b.String()
}

// add appends to an object's text.
func (s state) add(kind string, id any, text string) {
	key := fmt.Sprintf("%s %v", kind, id)
	s.set(kind, id, s[key]+" "+text)
}

// with folds a delta; configs and other values that a delta only names are taken from the image that it leads to.
func (s state) with(d *Delta, now *Image) state {
	next := maps.Clone(s)
	for _, c := range d.Brokers {
		text := ""
		if c.New != nil {
			text = fmt.Sprintf("%+v", *c.New)
		}
		next.set("broker", c.ID, text)
	}
	for _, id := range d.Controllers {
		text := ""
		if n, ok := now.Controller(id); ok {
			text = fmt.Sprintf("%+v", *n)
		}
		next.set("controller", id, text)
	}
	for _, t := range d.Topics {
		next.set("topic", t.ID, "")
		if t.New != nil {
			next.set("topic", t.ID, t.Name)
		}
		for _, p := range t.Partitions {
			text := ""
			if p.New != nil {
				text = p.New.String()
			}
			next.set("partition", PartitionID{t.ID, p.Partition}, text)
		}
	}
	for _, r := range d.Configs {
		text := ""
		if entries := now.Configs(r); len(entries) > 0 {
			text = fmt.Sprint(entries)
		}
		next.set("config", r, text)
	}
	for _, id := range d.Recoveries {
		text := ""
		if e, ok := now.RecoveryElection(id); ok {
			text = e.String()
		}
		next.set("recovery", id, text)
	}
	for _, name := range d.Features {
		next.set("feature", name, "")
		if level := now.FeatureLevel(name); level > 0 {
			next.set("feature", name, fmt.Sprint(level))
		}
	}
	for _, entity := range d.Quotas {
		next.set("quotas", entity, "")
		for q := range now.Quotas() {
			if q.Entity == entity {
				next.add("quotas", entity, fmt.Sprint(q.Key, "=", q.Value))
			}
		}
	}
	if d.Answered {
		next.set("answers", "", answersText(now))
	}
	if d.Confirmed {
		next.set("confirmed", "", fmt.Sprint(now.Confirmed()))
	}
	if d.ProducerIDs {
		next.set("producer", "ids", fmt.Sprint(now.NextProducerID()))
	}
	if d.Claimed {
		next.set("claim", "", fmt.Sprint(now.ClaimOffset(), now.claim))
	}
	return next
}

func (s state) String() string {
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%s: %s\n", key, s[key])
	}
	return b.String()
}
