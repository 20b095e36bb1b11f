package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
)

// checkFullBelow is the number of partitions up to which every new image is checked as a whole; larger ones are at
// every checkInterval-th entry.
const (
	checkFullBelow = 40
	checkInterval  = 32
)

// Violation is a promise that was broken.
type Violation struct {
	// Invariant is the number in ARCHITECTURE.md, 0 for none of them.
	Invariant int
	Text      string
	// Step and At tell when.
	Step int
	At   int64
}

func (v *Violation) String() string { return fmt.Sprintf("I%d: %s", v.Invariant, v.Text) }

// checker holds the run against the invariants. It knows everything: what each node and broker holds, on disk and in
// memory, and what was ever answered.
type checker struct {
	s *Sim
	// head is the latest image that any node has; digests are those of every image so far, by next metadata offset.
	head    *fsm.Image
	digests map[int64]fsm.Digest
	// effective are the entries that took effect.
	effective int
	// topicNames names every topic that ever was.
	topicNames map[fsm.UUID]string
	parts      map[fsm.PartitionID]*truth
	// requests are the clients', by id.
	requests map[fsm.UUID]*requestFate
}

// requestFate is what is known of a client's request.
type requestFate struct{ applied, notDone bool }

func newChecker(s *Sim, genesis *fsm.Image) *checker {
	c := &checker{
		s: s, head: genesis, digests: map[int64]fsm.Digest{genesis.NextOffset(): genesis.Digest()},
		topicNames: map[fsm.UUID]string{}, parts: map[fsm.PartitionID]*truth{}, requests: map[fsm.UUID]*requestFate{},
	}
	return c
}

// folded checks what a node made of an entry (I1, I2, I3, I6, I21).
func (c *checker) folded(n *node, before *fsm.Image, e *logEntry, res fsm.Result) {
	switch {
	case res.Outcome == fsm.Broken:
		c.s.fail(3, "%s: an entry passed the guard and does not fold: %v", n.name, res.Err)
		return
	case res.Outcome == fsm.Dropped:
		c.s.stats.dropped[res.Mismatch.Check]++
		if res.Image != before {
			c.s.fail(2, "%s: a dropped entry changed the image", n.name)
		}
		c.s.tracef("%s drops an entry at %d: %v", n.name, before.AppliedOffset(), res.Mismatch)
		return
	case res.Alarm != nil:
		c.s.fail(1, "%s: the image is not the one that the entry was decided on: %v", n.name, res.Alarm)
		return
	case e.forge:
		c.s.fail(19, "%s: an entry of another lineage took effect", n.name)
		return
	case before.EpochBase()+int64(e.term) != res.Image.ControllerEpoch():
		c.s.fail(21, "%s: an entry of term %d took effect under the claim of controller epoch %d", n.name, e.term, res.Image.ControllerEpoch())
		return
	}
	c.grew(n.name, before, res.Image)
	c.same(n.name, res.Image)
	if res.Image.NextOffset() > c.head.NextOffset() && c.s.violation == nil {
		c.advance(n, e.env, res)
	}
}

// grew checks that an image only grows (I6).
func (c *checker) grew(who string, before, after *fsm.Image) {
	if before.Lineage().ID != after.Lineage().ID || after.NextOffset() < before.NextOffset() || after.ControllerEpoch() < before.ControllerEpoch() {
		c.s.fail(6, "%s: from %s %d in controller epoch %d to %s %d in %d", who, before.Lineage().ID, before.NextOffset(),
			before.ControllerEpoch(), after.Lineage().ID, after.NextOffset(), after.ControllerEpoch())
	}
}

// same checks that an image is what every other image at this offset was (I1).
func (c *checker) same(who string, img *fsm.Image) {
	was, known := c.digests[img.NextOffset()]
	if !known {
		c.digests[img.NextOffset()] = img.Digest()
	} else if was != img.Digest() {
		c.s.fail(1, "%s: digest %s at metadata offset %d, others had %s", who, img.Digest(), img.AppliedOffset(), was)
	}
}

// followed checks what a broker made of an entry of the feed.
func (c *checker) followed(b *broker, before *fsm.Image, e *fed, res fsm.Result) {
	switch {
	case res.Outcome != fsm.Applied:
		c.s.fail(1, "%s cannot follow the entry at metadata offset %d: %s, %v, %v", b.name, e.first, res.Outcome, res.Mismatch, res.Err)
	case res.Alarm != nil:
		c.s.fail(1, "%s: the image is not the one that the entry was decided on: %v", b.name, res.Alarm)
	default:
		c.grew(b.name, before, res.Image)
		c.same(b.name, res.Image)
	}
}

// advance makes the entry part of the truth.
func (c *checker) advance(n *node, env *metadatav1.Envelope, res fsm.Result) {
	c.head = res.Image
	c.effective++
	c.s.stats.entries++
	c.s.tracef("%s applies metadata offsets %d to %d: %s", n.name, res.FirstOffset, res.Image.AppliedOffset(), describeEntry(env))
	if c.head.NumPartitions() <= checkFullBelow || c.effective%checkInterval == 0 {
		if err := fsm.Check(c.head); err != nil {
			c.s.fail(0, "after metadata offset %d: %v", c.head.AppliedOffset(), err)
			return
		}
	}
	for _, batch := range env.GetBatches() {
		c.took(batch.GetRequestId())
		c.moved(batch)
		for _, r := range batch.GetRecords() {
			c.record(r)
		}
	}
	c.compare(res.Delta)
}

// took notes that a request took effect. One that was answered with "not done" never may (I21).
func (c *checker) took(raw []byte) {
	id, err := fsm.UUIDFromBytes(raw)
	if err != nil {
		return
	}
	fate := c.requests[id]
	if fate == nil {
		return
	}
	fate.applied = true
	if fate.notDone {
		c.s.fail(21, "request %s was answered as not done and took effect", id)
	}
}

// sent notes a client's request.
func (c *checker) sent(id fsm.UUID) { c.requests[id] = &requestFate{} }

// answeredOp holds the answer to a client's request against its fate.
func (c *checker) answeredOp(n *node, id fsm.UUID, out active.Outcome) {
	fate := c.requests[id]
	if fate == nil || out.Err == nil || errors.Is(out.Err, errPatience) || active.IsRefused(out.Err, controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN) {
		return
	}
	fate.notDone = true
	if fate.applied {
		c.s.fail(21, "%s answers that request %s was not done, and it took effect: %v", n.name, id, out.Err)
	}
}

// record folds one record into the truth about partitions: a second, dumb fold.
func (c *checker) record(r *metadatav1.Record) {
	switch {
	case r.GetTopic() != nil:
		id, _ := fsm.UUIDFromBytes(r.GetTopic().GetTopicId())
		if was, twice := c.topicNames[id]; twice {
			c.s.fail(10, "topic id %s named %s and names %s", id, was, r.GetTopic().GetName())
		}
		c.topicNames[id] = r.GetTopic().GetName()
	case r.GetPartition() != nil:
		p := r.GetPartition()
		topic, _ := fsm.UUIDFromBytes(p.GetTopicId())
		id := fsm.PartitionID{Topic: topic, Partition: p.GetPartitionId()}
		t := newTruth(p.GetReplicas(), p.GetIsr(), p.GetLeader())
		c.parts[id] = t
	case r.GetPartitionChange() != nil:
		p := r.GetPartitionChange()
		topic, _ := fsm.UUIDFromBytes(p.GetTopicId())
		id := fsm.PartitionID{Topic: topic, Partition: p.GetPartitionId()}
		if t := c.parts[id]; t != nil {
			c.changedISR(id, t, t.change(p))
		}
	case r.GetRemoveTopic() != nil:
		topic, _ := fsm.UUIDFromBytes(r.GetRemoveTopic().GetTopicId())
		for id, t := range c.parts {
			if id.Topic == topic {
				t.gone = true
				delete(c.parts, id)
			}
		}
	}
}

// compare holds the fold against the dumb one (I8, I9).
func (c *checker) compare(d *fsm.Delta) {
	for _, topic := range d.Topics {
		for _, pd := range topic.Partitions {
			id := fsm.PartitionID{Topic: topic.ID, Partition: pd.Partition}
			t := c.parts[id]
			switch p := pd.New; {
			case (p == nil) != (t == nil):
				c.s.fail(11, "%s: in the image %v, in the records %v", c.name(id), p, t)
			case p == nil:
			case p.Leader != t.leader || p.LeaderEpoch != t.leaderEpoch || p.PartitionEpoch != t.partitionEpoch || !slices.Equal(p.ISR, t.isr):
				c.s.fail(9, "%s: image has leader %d in leader epoch %d, partition epoch %d, ISR %v; the records say %d, %d, %d, %v", c.name(id),
					p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.ISR, t.leader, t.leaderEpoch, t.partitionEpoch, t.isr)
			}
		}
	}
}

func (c *checker) name(id fsm.PartitionID) string {
	if name, ok := c.topicNames[id.Topic]; ok {
		return fmt.Sprintf("%s-%d", name, id.Partition)
	}
	return fmt.Sprintf("%s-%d", id.Topic, id.Partition)
}

func describeEntry(env *metadatav1.Envelope) string {
	text := ""
	for i, b := range env.GetBatches() {
		if i > 0 {
			text += "; "
		}
		text += b.GetReason().GetText()
	}
	return text
}
