package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
)

// fault is something that goes wrong for a while and is put right again. It has dice of its own, so that a run without
// it differs in nothing else that was planned.
type fault struct {
	at   time.Duration
	seed uint64
}

// planFaults draws when things go wrong.
func planFaults(seed uint64, until, mean time.Duration) []fault {
	rnd := rand.New(rand.NewPCG(seed, 0xfa))
	var list []fault
	for at := 2 * time.Second; at < until; {
		at += time.Duration(rnd.Int64N(2*int64(mean)) + 1)
		list = append(list, fault{at: at, seed: rnd.Uint64()})
	}
	return list
}

// strike makes the i-th fault happen.
func (s *Sim) strike(f fault) {
	if s.healed {
		return
	}
	rnd := rand.New(rand.NewPCG(f.seed, 1))
	lasts := time.Duration(rnd.Int64N(int64(3*time.Second))) + 20*time.Millisecond
	if rnd.IntN(3) == 0 {
		lasts = time.Duration(rnd.Int64N(int64(3 * s.opt.Session)))
	}
	n, b, other := s.nodes[rnd.IntN(len(s.nodes))], s.brokers[rnd.IntN(len(s.brokers))], s.brokers[rnd.IntN(len(s.brokers))]
	if l := s.raft.leader; l != nil && rnd.IntN(2) == 0 {
		n = l
	}
	s.stats.faults++
	switch rnd.IntN(7) {
	case 0, 1, 2:
		s.strikeQuorum(rnd, n, lasts)
	case 3, 4, 5:
		s.strikeBrokers(rnd, b, other, lasts)
	default:
		s.ambush(rnd, lasts)
	}
}

func (s *Sim) strikeQuorum(rnd *rand.Rand, n *node, lasts time.Duration) {
	switch rnd.IntN(10) {
	case 0, 1:
		if n.up {
			n.kill()
			s.later(lasts, n.revive)
		}
	case 2, 3:
		s.freezeNode(n, lasts)
	case 4, 5:
		s.isolate(&n.proc, lasts)
	case 6:
		s.tracef("fault: leadership moves")
		s.raft.elect(nil)
	case 7:
		s.tracef("fault: leadership is lost and won at once")
		s.raft.elect(s.raft.leader)
	case 8:
		s.tracef("fault: leadership moves from node to node")
		for i := range 2 + rnd.IntN(3) {
			s.later(time.Duration(i)*time.Duration(rnd.IntN(40))*time.Millisecond, func() { s.raft.elect(nil) })
		}
	default:
		s.tracef("fault: the network is slow for %s", lasts)
		s.net.slow += 20
		s.later(lasts, func() { s.net.slow -= 20 })
	}
}

func (s *Sim) strikeBrokers(rnd *rand.Rand, b, other *broker, lasts time.Duration) {
	switch rnd.IntN(13) {
	case 0, 1, 2:
		s.fell(b, false, lasts)
	case 3, 4:
		s.fell(b, true, lasts)
	case 5:
		s.freeze(&b.proc, lasts)
	case 6:
		s.isolate(&b.proc, lasts)
	case 7:
		s.tracef("fault: %s is cut from the quorum for %s", b.name, lasts)
		for _, n := range s.nodes {
			s.net.cutWay(&b.proc, &n.proc, 1)
		}
		s.later(lasts, func() {
			for _, n := range s.nodes {
				s.net.cutWay(&b.proc, &n.proc, -1)
			}
		})
	case 8, 9:
		if b == other {
			return
		}
		s.tracef("fault: %s and %s are cut from each other for %s", b.name, other.name, lasts)
		s.net.cutWay(&b.proc, &other.proc, 1)
		s.later(lasts, func() { s.net.cutWay(&b.proc, &other.proc, -1) })
	case 10:
		if b.up && !b.frozen {
			b.shutDown()
			s.later(lasts, b.revive)
			s.later(lasts+25*time.Second, b.revive) // if it had not stopped by then
		}
	case 11:
		if rnd.IntN(4) == 0 {
			s.deleteTopic(fmt.Sprintf("data%d", 1+rnd.IntN(s.opt.DataTopics)))
		}
	default:
		s.strikeTwo(rnd, b, other, lasts)
	}
}

// strikeTwo lets two brokers die, or their sessions end, at one time.
func (s *Sim) strikeTwo(rnd *rand.Rand, b, other *broker, lasts time.Duration) {
	if rnd.IntN(2) == 0 {
		s.tracef("fault: two brokers are killed")
		s.fell(b, false, lasts)
		s.fell(other, false, lasts/2)
		return
	}
	for _, each := range []*broker{b, other} {
		s.freeze(&each.proc, lasts+s.opt.Session)
	}
}

// deleteTopic asks the leader to delete a topic under the hands of its producers.
func (s *Sim) deleteTopic(name string) {
	n := s.raft.leader
	if n == nil || !n.up || n.frozen {
		return
	}
	s.tracef("fault: %s is deleted", name)
	req := &controllerv1.DeleteTopicsRequest{Topics: []*controllerv1.DeletableTopic{{Name: name}}}
	n.submit(active.NewOp(controller.DeleteTopics, req, nil, s.uuid()), time.Second, func(active.Outcome) {})
}

// fell kills a broker, with or without its power, and starts it again.
func (s *Sim) fell(b *broker, power bool, lasts time.Duration) {
	if b.up {
		b.previousEpoch = -1
		b.die(power)
		s.later(lasts, b.revive)
	}
}

func (n *node) revive() {
	if !n.up {
		n.boot()
	}
}

func (b *broker) revive() {
	if !b.up {
		b.boot()
	}
}

func (s *Sim) freeze(p *proc, lasts time.Duration) {
	if !p.up || p.frozen {
		return
	}
	s.tracef("fault: %s is frozen for %s", p.name, lasts)
	p.frozen = true
	life := p.life
	s.later(lasts, func() {
		if p.life == life {
			s.agenda.thaw(p)
		}
	})
}

func (s *Sim) freezeNode(n *node, lasts time.Duration) {
	s.later(lasts, func() { n.thawedAt = s.agenda.now })
	s.freeze(&n.proc, lasts)
}

func (s *Sim) isolate(p *proc, lasts time.Duration) {
	s.tracef("fault: %s is cut off for %s", p.name, lasts)
	s.net.isolate(p, 1)
	s.later(lasts, func() { s.net.isolate(p, -1) })
}

// later happens whoever lives.
func (s *Sim) later(d time.Duration, fn func()) { s.agenda.after(d, nil, fn) }

// heal puts right what is wrong now: everybody runs and reaches everybody.
func (s *Sim) heal() {
	s.tracef("everything is put right")
	s.raft.unruly = false
	s.healed = true
	s.net.lossy, s.net.slow = 0, 1
	clear(s.net.cut)
	clear(s.net.alone)
	for _, n := range s.nodes {
		s.agenda.thaw(&n.proc)
		n.revive()
	}
	for _, b := range s.brokers {
		s.agenda.thaw(&b.proc)
		b.revive()
	}
}
