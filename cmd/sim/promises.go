package main

import (
	"slices"
	"time"

	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
)

// stepped checks a Core after it was driven (I3, I20, I21).
func (c *checker) stepped(n *node) {
	st := n.core.Status()
	switch {
	case st.Counts.Misfits > 0:
		c.s.fail(3, "%s made a decision that does not fold", n.name)
	case st.InFlight > c.s.opt.Depth:
		c.s.fail(20, "%s has %d entries in flight, %d are allowed", n.name, st.InFlight, c.s.opt.Depth)
	case st.Phase == active.Open && n.img.ClaimOffset() > st.ClaimOffset:
		c.s.fail(21, "%s decides in its claim at %d, and has applied the one at %d", n.name, st.ClaimOffset, n.img.ClaimOffset())
	}
}

// proposed checks what a Core wants in the log: it is bounded (I20), and nobody is fenced for a silence that is shorter
// than a session.
func (c *checker) proposed(n *node, e active.Propose, env *metadatav1.Envelope) {
	if len(e.Entry) > fsm.MaxEntryBytes {
		c.s.fail(20, "%s proposes an entry of %d bytes", n.name, len(e.Entry))
	}
	for _, b := range env.GetBatches() {
		if b.GetReason().GetCode() != "session_expired" {
			continue
		}
		for _, id := range fencedBy(b) {
			silent := time.Duration(c.s.agenda.now - max(n.heard[id], n.openedAt))
			if silent < c.s.opt.Session {
				c.s.fail(7, "%s fences broker %d, which it has not heard of for %s; a session lasts %s", n.name, id, silent, c.s.opt.Session)
			}
		}
	}
}

// fencedBy lists the brokers that a batch takes out of service.
func fencedBy(b *metadatav1.Batch) (ids []int32) {
	for _, r := range b.GetRecords() {
		if ch := r.GetBrokerRegistrationChange(); ch != nil && ch.Fenced != nil && ch.GetFenced() {
			ids = append(ids, ch.GetBrokerId())
		}
	}
	return ids
}

// moved checks why brokers came into service or went out of it, and counts.
func (c *checker) moved(b *metadatav1.Batch) {
	for _, r := range b.GetRecords() {
		ch := r.GetBrokerRegistrationChange()
		if ch == nil || ch.Fenced == nil {
			continue
		}
		broker, epoch := c.s.brokerByID(ch.GetBrokerId()), ch.GetBrokerEpoch()
		if ch.GetFenced() {
			c.s.stats.fencings[b.GetReason().GetCode()]++
		}
		// One that registered again in the same entry is another process by now.
		reg, ok := c.head.Broker(broker.id)
		if !ok || reg.Epoch != epoch || !broker.up || broker.incarnation != reg.IncarnationID {
			continue
		}
		switch {
		case ch.GetFenced() && b.GetReason().GetCode() == "probe_refused":
			c.s.fail(7, "%s is fenced because its port refuses, and it lives", broker.name)
		case !ch.GetFenced() && (broker.img == nil || broker.img.AppliedOffset() < epoch):
			c.s.fail(7, "%s is unfenced before it has applied its registration at metadata offset %d", broker.name, epoch)
		}
	}
}

// saidGoodbye checks that a broker whose goodbye came to the active controller is out of service soon, if the claim goes
// on that long: nobody waits for the session of one that has said that it goes.
func (c *checker) saidGoodbye(n *node, id int32, epoch int64) {
	claims, life := n.core.Status().Counts.Claims, n.life
	c.s.agenda.after(fencingSlack, &n.proc, func() {
		reg, ok := n.img.Broker(id)
		st := n.core.Status()
		lasted := n.life == life && st.Counts.Claims == claims && st.Phase == active.Open && st.InFlight == 0 && st.Queued == 0
		if lasted && ok && reg.Epoch == epoch && !reg.Fenced && n == c.s.raft.leader {
			c.s.fail(7, "broker %d said goodbye to %s and is in service %s later", id, n.name, fencingSlack)
		}
	})
}

// believes checks that a leader counts no earlier process of a follower after a later one (I19).
func (c *checker) believes(h *hosted, st replica.SoloState) {
	if h.known == nil || h.knownIn != st.LeaderEpoch {
		h.known, h.knownIn = map[int32]int64{}, st.LeaderEpoch
	}
	for _, id := range sortedInts(st.Followers) {
		epoch := st.Followers[id].BrokerEpoch
		if was, ok := h.known[id]; ok && epoch < was {
			c.s.fail(19, "%s counts broker %d by a fetch of broker epoch %d, after one of %d", h, id, epoch, was)
		}
		h.known[id] = epoch
	}
}

// putAway checks that a broker drops no replica that the metadata gives it (I22).
func (c *checker) putAway(b *broker, id fsm.PartitionID) {
	if t := c.parts[id]; t != nil && slices.Contains(t.replicas, b.id) {
		c.s.fail(22, "%s drops its replica of %s, and is one of %v", b.name, c.name(id), t.replicas)
	}
}

// shade is an image put together from deltas alone.
type shade struct {
	partitions map[fsm.PartitionID]fsm.Partition
	brokers    map[int32]fsm.Broker
	topics     map[fsm.UUID]string
	count      int
}

func newShade() *shade {
	return &shade{partitions: map[fsm.PartitionID]fsm.Partition{}, brokers: map[int32]fsm.Broker{}, topics: map[fsm.UUID]string{}}
}

// fold adds a delta.
func (s *shade) fold(d *fsm.Delta) {
	for _, b := range d.Brokers {
		if delete(s.brokers, b.ID); b.New != nil {
			s.brokers[b.ID] = *b.New
		}
	}
	for _, t := range d.Topics {
		if delete(s.topics, t.ID); t.New != nil {
			s.topics[t.ID] = t.Name
		}
		for _, p := range t.Partitions {
			id := fsm.PartitionID{Topic: t.ID, Partition: p.Partition}
			if delete(s.partitions, id); p.New != nil {
				s.partitions[id] = *p.New
			}
		}
	}
}

// differs says where the shade is not the image; "" if it is nowhere.
func (s *shade) differs(img *fsm.Image) string {
	if len(s.topics) != img.NumTopics() || len(s.partitions) != img.NumPartitions() || len(s.brokers) != img.NumBrokers() {
		return "number of topics, partitions or brokers"
	}
	for id, was := range s.partitions {
		p, ok := img.Partition(id)
		if !ok || p.Leader != was.Leader || p.LeaderEpoch != was.LeaderEpoch || p.PartitionEpoch != was.PartitionEpoch || !slices.Equal(p.ISR, was.ISR) {
			return "partition " + id.Topic.String()
		}
	}
	for id, was := range s.brokers {
		b, ok := img.Broker(id)
		if !ok || b.Epoch != was.Epoch || b.Fenced != was.Fenced || b.InControlledShutdown != was.InControlledShutdown {
			return "a broker"
		}
	}
	return ""
}

// shadeInterval is how many deltas may come between two comparisons.
const shadeInterval = 64

// heardOf folds what a broker's subscribers were told, and holds it against the image now and then, and always after a
// snapshot: the difference of two images leads from one to the other (I5).
func (c *checker) heardOf(b *broker, d *fsm.Delta) {
	b.shade.fold(d)
	if b.shade.count++; !d.Snapshot && b.shade.count%shadeInterval != 0 {
		return
	}
	if where := b.shade.differs(b.img); where != "" {
		c.s.fail(5, "%s at metadata offset %d: what the deltas say is not the image: %s", b.name, b.img.AppliedOffset(), where)
	}
}
