package fsm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// story is the state of one script: an image and a follower that must always agree with it.
type story struct {
	*world
	follower *Image
	kept     map[string]*Image
	delta    *Delta
}

// TestScripts runs the stories of testdata. After every entry the image is checked, the follower must have the same
// digest, and the image must survive a snapshot. Rewrite the expectations with -rewrite and read the diff.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		w := newWorld(t)
		s := &story{world: w, follower: w.img, kept: make(map[string]*Image)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.tb = t
			return s.run(d)
		})
	})
}

func (s *story) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "claim":
		return s.claimCommand(argsOf(d))
	case "entry":
		return s.entryCommand(d)
	case "tip":
		return s.tipCommand(d)
	case "rebirth":
		return s.rebirthCommand(argsOf(d))
	case "show":
		return Describe(s.img)
	case "list":
		return s.listCommand(argsOf(d))
	case "local":
		return s.localCommand(argsOf(d))
	case "collides":
		return s.collidesCommand(argsOf(d))
	case "keep":
		s.kept[argsOf(d).text("name", "")] = s.img
		return "ok\n"
	case "diff":
		s.delta = Diff(s.kept[argsOf(d).text("from", "")], s.img)
		return describeDelta(s.delta)
	default:
		s.tb.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
		return ""
	}
}

func (s *story) claimCommand(a fields) string {
	e := s.claimEntry(a.int32("node", 101), a.int64("epoch", 1))
	if a.has("digest") {
		e.Envelope.DigestBefore = proto.Uint64(1)
	}
	s.override(&e, a)
	return s.take(e)
}

// entryCommand applies the records of the input in one entry; a line "--" begins the next batch. Arguments replace
// fields of the guard: cluster, lineage, epoch (envelope), raft-epoch (computed), claim, first, digest; "absent"
// leaves a field out.
func (s *story) entryCommand(d *datadriven.TestData) string {
	records := s.parse(d.Input)
	e := s.entry()
	e.Envelope.Batches = records
	s.override(&e, argsOf(d))
	return s.take(e)
}

// rebirthCommand begins a new lineage from the image, as a restore does, and lets the follower take it in as a snapshot.
func (s *story) rebirthCommand(a fields) string {
	born, err := Rebirth(s.img, Birth{
		ClusterID: a.text("cluster", s.img.ClusterID()), UUID: uuid(a.int("uuid", 0)), Number: uint64(a.int64("number", 0)),
		KnownNextOffset: a.int64("known-next", 0), KnownEpoch: a.int64("known-epoch", 0),
	})
	if err != nil {
		return "refused: " + err.Error() + "\n"
	}
	mustBeSound(s.tb, born)
	mustOnlyGrow(s.tb, s.img, born)
	s.delta = Diff(s.follower, born)
	s.img, s.follower = born, throughSnapshot(s.tb, born)
	return describeDelta(s.delta)
}

func (s *story) override(e *Entry, a fields) {
	env := e.Envelope
	env.ClusterId = a.text("cluster", env.GetClusterId())
	if a.has("lineage") {
		env.Lineage = LineageID{Number: uint64(a.int64("lineage", 1)), UUID: uuid(a.int("lineage-uuid", 1))}.Proto()
	}
	e.ControllerEpoch = a.int64("raft-epoch", e.ControllerEpoch)
	for name, field := range map[string]**int64{"epoch": &env.ControllerEpoch, "claim": &env.ClaimOffset, "first": &env.FirstMetadataOffset} {
		if e.Envelope.ControllerEpoch == nil && name == "epoch" {
			continue // of a claim it is what Raft says
		}
		switch {
		case a.text(name, "") == "absent":
			*field = nil
		case a.has(name):
			*field = proto.Int64(a.int64(name, 0))
		}
	}
	if env.DigestBefore != nil && a.has("digest") {
		env.DigestBefore = proto.Uint64(uint64(a.int64("digest", 0)))
	}
}

// take applies an entry here and at the follower, with everything that must hold after it.
func (s *story) take(e Entry) string {
	before := s.img
	r := s.apply(e)
	switch r.Outcome {
	case Applied:
		s.delta = r.Delta
		s.mustAgree(e, r)
	default:
		if r.Image != before || r.Delta != nil {
			s.tb.Fatalf("%v changed the image", r.Outcome)
		}
	}
	return s.describeResult(r)
}

func (s *story) mustAgree(e Entry, r Result) {
	f := Follow(s.follower, Entry{Envelope: e.Envelope, ControllerEpoch: r.ControllerEpoch, FirstOffset: r.FirstOffset})
	if f.Outcome != Applied || f.Image.Digest() != r.Image.Digest() {
		s.tb.Fatalf("the follower %v (%v, %v), digest %s, want %s", f.Outcome, f.Mismatch, f.Err, f.Image.Digest(), r.Image.Digest())
	}
	s.follower = f.Image
	mustBeSound(s.tb, r.Image)
}

// mustBeSound checks an image and takes it through a snapshot.
func mustBeSound(tb reporter, img *Image) {
	tb.Helper()
	if err := Check(img); err != nil {
		tb.Fatalf("check: %v\n%s", err, Describe(img))
	}
	again := throughSnapshot(tb, img)
	if again.Digest() != img.Digest() || Describe(again) != Describe(img) {
		tb.Fatalf("I5: read back\n%s\nwant\n%s", Describe(again), Describe(img))
	}
}

func throughSnapshot(tb reporter, img *Image) *Image {
	tb.Helper()
	var stream bytes.Buffer
	if err := WriteSnapshot(img, &stream); err != nil {
		tb.Fatal(err)
	}
	again, err := ReadSnapshot(&stream)
	if err != nil {
		tb.Fatal(err)
	}
	return again
}

// tipCommand folds without the guard, as the active controller does before it proposes.
func (s *story) tipCommand(d *datadriven.TestData) string {
	img, delta, err := FoldBatches(s.img, s.parse(d.Input), s.img.ControllerEpoch())
	if err != nil {
		return "refused: " + err.Error() + "\n"
	}
	return fmt.Sprintf("tip at %d\n%s", img.AppliedOffset(), describeDelta(delta))
}

func (s *story) describeResult(r Result) string {
	switch r.Outcome {
	case Applied:
		text := fmt.Sprintf("applied %d..%d\n", r.Delta.From, r.Delta.To-1) + describeDelta(r.Delta)
		if r.Alarm != nil {
			text += "ALARM " + r.Alarm.Check + "\n"
		}
		return text
	case Dropped:
		return "dropped: " + r.Mismatch.Error() + "\n"
	default:
		return "broken: " + r.Err.Error() + "\n"
	}
}

func describeDelta(d *Delta) string {
	var b strings.Builder
	for _, c := range d.Brokers {
		fmt.Fprintf(&b, "broker %d: %s -> %s\n", c.ID, brokerText(c.Old), brokerText(c.New))
	}
	for _, c := range d.Controllers {
		fmt.Fprintf(&b, "controller %d registered\n", c)
	}
	for _, t := range d.Topics {
		describeTopicDelta(&b, t)
	}
	for _, r := range d.Configs {
		fmt.Fprintf(&b, "config of %s\n", r)
	}
	for _, id := range d.Recoveries {
		fmt.Fprintf(&b, "recovery of %s-%d\n", id.Topic, id.Partition)
	}
	if d.ProducerIDs {
		b.WriteString("producer ids\n")
	}
	if d.Claimed {
		b.WriteString("claimed\n")
	}
	if d.Confirmed {
		b.WriteString("confirmation\n")
	}
	return b.String()
}

func describeTopicDelta(b *strings.Builder, t TopicDelta) {
	switch {
	case t.Old == nil:
		fmt.Fprintf(b, "topic %s created, %d partitions\n", t.Name, len(t.Partitions))
	case t.New == nil:
		fmt.Fprintf(b, "topic %s removed, %d partitions\n", t.Name, len(t.Partitions))
	default:
		for _, p := range t.Partitions {
			if p.Old == nil {
				fmt.Fprintf(b, "%s-%d: created, %s\n", t.Name, p.Partition, p.New)
				continue
			}
			fmt.Fprintf(b, "%s-%d: %s\n%s   -> %s\n", t.Name, p.Partition, p.Old, strings.Repeat(" ", len(t.Name)), p.New)
		}
	}
}

func brokerText(b *Broker) string {
	if b == nil {
		return "none"
	}
	return fmt.Sprintf("epoch %d %s", b.Epoch, b.state())
}

func (s *story) listCommand(a fields) string {
	var b strings.Builder
	line := func(name string, n int, seq func(func(PartitionID) bool)) {
		fmt.Fprintf(&b, "%s %d:", name, n)
		for id := range seq {
			t, _ := s.img.Topic(id.Topic)
			fmt.Fprintf(&b, " %s-%d", t.Name(), id.Partition)
		}
		b.WriteByte('\n')
	}
	if a.has("broker") {
		id := a.int32("broker", 0)
		line("replicas", s.img.NumReplicasOf(id), s.img.PartitionsOf(id))
		line("led", s.img.NumLedBy(id), s.img.LedBy(id))
		return b.String()
	}
	line("leaderless", s.img.NumLeaderless(), s.img.Leaderless())
	line("imbalanced", s.img.NumImbalanced(), s.img.Imbalanced())
	return b.String()
}

func (s *story) localCommand(a fields) string {
	var b strings.Builder
	c := s.delta.Local(a.int32("broker", 0))
	for _, part := range []struct {
		name string
		list []LocalPartition
	}{{"deleted", c.Deleted}, {"led", c.Led}, {"followed", c.Followed}} {
		for _, l := range part.list {
			fmt.Fprintf(&b, "%s %s-%d", part.name, l.Name, l.Partition)
			if l.NewLeaderEpoch {
				b.WriteString(" new leader epoch")
			}
			b.WriteByte('\n')
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func (s *story) collidesCommand(a fields) string {
	other, collides := s.img.TopicNameCollides(a.text("name", ""))
	if !collides {
		return "no\n"
	}
	return "with " + other + "\n"
}

// parse reads batches of records, one record a line.
func (s *story) parse(input string) []*metadatav1.Batch {
	batch := &metadatav1.Batch{TimeMs: s.img.NextOffset() * 1000}
	batches := []*metadatav1.Batch{batch}
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		if line == "--" {
			batch = &metadatav1.Batch{TimeMs: batch.TimeMs + 1}
			batches = append(batches, batch)
			continue
		}
		batch.Records = append(batch.Records, parseRecord(s.tb, line))
	}
	return batches
}
