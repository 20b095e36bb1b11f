package main

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/skiffmq/skiff/brokerd/replica"
)

const (
	// ambushTime is how long a fault waits for its moment, ambushLook how often it looks.
	ambushTime = 4 * time.Second
	ambushLook = 5 * time.Millisecond
)

// moment is a state of the cluster in which a fault hurts most; it strikes and returns true when it has come.
type moment func(rnd *rand.Rand, lasts time.Duration) bool

// ambush waits for a moment.
func (s *Sim) ambush(rnd *rand.Rand, lasts time.Duration) {
	moments := []moment{s.whileCatchingUp, s.whileJoining, s.whileReplicating, s.whileDeciding, s.whileAsking}
	strike := moments[rnd.IntN(len(moments))]
	until := s.agenda.now + int64(ambushTime)
	var look func()
	look = func() {
		if !s.healed && s.agenda.now < until && !strike(rnd, lasts) {
			s.later(ambushLook, look)
		}
	}
	look()
}

// anyLeader finds a partition whose living leader suits.
func (s *Sim) anyLeader(suits func(*hosted, *truth, replica.SoloState) bool) (*hosted, *truth) {
	for _, b := range s.brokers {
		if !b.up || b.frozen {
			continue
		}
		for _, id := range sortedKeys(b.replicas) {
			h, t := b.replicas[id], s.check.parts[id]
			if t == nil || t.leader != b.id || len(t.replicas) < 2 {
				continue
			}
			if st := h.solo.State(); st.Leader && suits(h, t, st) {
				return h, t
			}
		}
	}
	return nil, nil
}

// whileCatchingUp kills a leader while a follower that is not in the ISR is almost there: what the next leader knows of
// the high watermark is older than what clients were told.
func (s *Sim) whileCatchingUp(rnd *rand.Rand, lasts time.Duration) bool {
	h, _ := s.anyLeader(func(h *hosted, t *truth, st replica.SoloState) bool {
		return len(t.isr) > 1 && slices.ContainsFunc(t.replicas, func(id int32) bool {
			behind := st.End - int64(len(s.check.shadow(id, h.id)))
			return !slices.Contains(t.isr, id) && s.brokerByID(id).up && behind > 0 && behind < 8
		})
	})
	if h == nil {
		return false
	}
	s.tracef("fault: %s dies while a follower catches up", h)
	s.fell(h.b, rnd.IntN(3) == 0, lasts)
	return true
}

// whileJoining takes the power of a follower that its leader wishes to join, and gives it back at once: the wish is about
// a process that is no more.
func (s *Sim) whileJoining(rnd *rand.Rand, _ time.Duration) bool {
	var joiner *broker
	h, _ := s.anyLeader(func(_ *hosted, t *truth, st replica.SoloState) bool {
		for _, id := range st.MaximalISR {
			if !slices.Contains(t.isr, id) && s.brokerByID(id).up {
				joiner = s.brokerByID(id)
				return true
			}
		}
		return false
	})
	if h == nil {
		return false
	}
	s.tracef("fault: %s dies while it joins the ISR of %s", joiner.name, h)
	s.fell(joiner, rnd.IntN(4) > 0, time.Duration(20+rnd.IntN(200))*time.Millisecond)
	return true
}

// whileReplicating kills a leader, or its followers, while records are not on all of them.
func (s *Sim) whileReplicating(rnd *rand.Rand, lasts time.Duration) bool {
	h, t := s.anyLeader(func(_ *hosted, t *truth, st replica.SoloState) bool { return len(t.isr) > 1 && st.End > st.High })
	if h == nil {
		return false
	}
	s.tracef("fault: some of %s die while it replicates", h)
	leader := rnd.IntN(2) == 0
	for _, id := range t.isr {
		if (id == h.b.id) == leader {
			s.fell(s.brokerByID(id), rnd.IntN(3) == 0, lasts)
		}
	}
	return true
}

// whileDeciding freezes the active controller, or moves its leadership, while an entry is in flight.
func (s *Sim) whileDeciding(rnd *rand.Rand, lasts time.Duration) bool {
	n := s.raft.leader
	if n == nil || !n.up || n.frozen || n.core.Status().InFlight == 0 {
		return false
	}
	switch rnd.IntN(3) {
	case 0:
		s.freezeNode(n, lasts+time.Second)
	case 1:
		s.isolate(&n.proc, lasts)
	default:
		s.tracef("fault: leadership moves while an entry is in flight")
		s.raft.elect(nil)
	}
	return true
}

// whileAsking has a leader's next wish stand at the controller for so long that the leader gives it up, has it granted in
// another request, and loses the follower again before the first one is looked at.
func (s *Sim) whileAsking(rnd *rand.Rand, _ time.Duration) bool {
	h, t := s.anyLeader(func(_ *hosted, t *truth, _ replica.SoloState) bool {
		return slices.ContainsFunc(t.replicas, func(id int32) bool { return !slices.Contains(t.isr, id) && s.brokerByID(id).up })
	})
	if h == nil {
		return false
	}
	b := h.b
	b.slowAsk = func() time.Duration {
		b.slowAsk = nil
		s.tracef("fault: a wish of %s stands at the controller", b.name)
		for _, id := range t.replicas {
			if other := s.brokerByID(id); other != b && !slices.Contains(t.isr, id) {
				s.later(askTimeout+time.Second, func() { s.net.cutWay(&b.proc, &other.proc, 1) })
				s.later(askTimeout+12*time.Second, func() { s.net.cutWay(&b.proc, &other.proc, -1) })
			}
		}
		return askTimeout + time.Duration(7000+rnd.IntN(3000))*time.Millisecond
	}
	return true
}
