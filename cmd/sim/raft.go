package main

import (
	"slices"
	"time"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
)

// raft is a model of the log that a quorum of nodes agrees on. It keeps what Raft promises, one order of committed
// entries and no more than one leader that can commit, and does everything that Raft may do to a proposal besides: it
// refuses, holds back, loses, commits after an error was answered, commits in a later term than the entry was proposed
// in, deposes with and without telling, and gives leadership back to the one who lost it.
type raft struct {
	s    *Sim
	term uint64
	// leader can commit; nil while nobody does.
	leader *node
	// log is committed. suffix is only in the leader's log.
	log, suffix []*logEntry
	// committing tells that a round of replication is on its way.
	committing bool
	// electing tells that an election is planned.
	electing bool
	// unruly makes the model do to proposals what it may do; it is off while the run heals.
	unruly bool
	// trouble counts the proposals behind a lost one that are likely to come late.
	trouble int
	// handmade are entries that no controller proposed; see maybeForge.
	handmade int
}

// logEntry is one entry of the log.
type logEntry struct {
	term  uint64
	env   *metadatav1.Envelope
	from  *proposal // nil if nobody proposed it
	forge bool
}

// proposal is an entry on its way from a Core to the log.
type proposal struct {
	active.Propose
	node     *node
	life     uint64
	env      *metadatav1.Envelope
	answered bool
	taken    bool
}

// answer tells the Core, once.
func (p *proposal) answer(a active.Answer) {
	if p.answered || !p.node.up || p.node.life != p.life {
		return
	}
	p.answered = true
	if p.Claim {
		p.node.step(active.ClaimAnswered{ID: p.ID, Answer: a})
	} else {
		p.node.step(active.ProposalAnswered{ID: p.ID, Answer: a})
	}
}

// propose takes an entry from a Core.
func (r *raft) propose(n *node, e active.Propose) {
	env, err := fsm.DecodeEnvelope(e.Entry)
	if err != nil {
		r.s.fail(3, "%s proposes what cannot be decoded: %v", n.name, err)
		return
	}
	r.s.check.proposed(n, e, env)
	p := &proposal{Propose: e, node: n, life: n.life, env: env}
	n.queue = append(n.queue, p)
	r.s.agenda.after(e.Timeout, &n.proc, func() { r.expire(p) })
	r.pump(n, r.s.between(50*time.Microsecond, 500*time.Microsecond))
}

// expire answers a proposal whose time is over. What Raft was not given is certainly not in the log.
func (r *raft) expire(p *proposal) {
	if p.answered {
		return
	}
	if i := slices.Index(p.node.queue, p); i >= 0 && r.s.rnd.IntN(2) == 0 {
		p.node.queue = slices.Delete(p.node.queue, i, i+1)
		p.answer(active.Answer{Err: active.ErrNotAppended})
		return
	}
	p.answer(active.Answer{Err: active.ErrUnknown}) // it may still be in Raft's queue, or in the log
}

// pump lets Raft look at a node's queue.
func (r *raft) pump(n *node, in time.Duration) {
	if n.pumping {
		return
	}
	n.pumping = true
	r.s.agenda.after(in, &n.proc, func() {
		n.pumping = false
		for len(n.queue) > 0 {
			p := n.queue[0]
			if !r.take(n, p) {
				r.pump(n, r.s.between(5*time.Millisecond, 200*time.Millisecond))
				return
			}
			n.queue = slices.DeleteFunc(n.queue, func(q *proposal) bool { return q == p })
		}
	})
}

// take deals with one proposal; false leaves it in the queue.
func (r *raft) take(n *node, p *proposal) bool {
	dice := r.s.rnd.IntN(100)
	if r.leader != n {
		return r.takeElsewhere(n, p, dice)
	}
	if r.unruly {
		late := r.trouble > 0 && !p.Claim && dice >= 40
		r.trouble = max(r.trouble-1, 0)
		switch {
		case dice < 2:
			r.trouble = 3
			p.answer(active.Answer{Err: active.ErrNotAppended})
			return true
		case dice < 3:
			r.trouble = 3
			p.answer(active.Answer{Err: active.ErrUnknown})
			return true // lost, but who can tell
		case dice < 6, late:
			r.holdBack(n, p)
			return true
		case dice < 8:
			p.answer(active.Answer{Err: active.ErrUnknown}) // and it will be committed all the same
		}
	}
	p.taken = true
	r.suffix = append(r.suffix, &logEntry{term: r.term, env: p.env, from: p})
	r.maybeForge(p)
	r.replicate()
	return true
}

// takeElsewhere deals with a proposal to a node that cannot commit.
func (r *raft) takeElsewhere(n *node, p *proposal, dice int) bool {
	switch {
	case n.believes: // it does not know yet: the entry goes into a log that nobody will follow
		p.taken = true
		n.doomed = append(n.doomed, p)
		return true
	case r.unruly && dice < 30:
		return false // it waits in Raft's queue, and may be taken in a later term
	case r.unruly && dice < 40:
		r.holdBack(n, p)
		return true
	}
	p.answer(active.Answer{Err: active.ErrNotAppended})
	return true
}

// holdBack answers that the outcome is unknown, and offers the entry again at any later time, behind others that were
// proposed after it.
func (r *raft) holdBack(n *node, p *proposal) {
	r.s.tracef("raft: holds back entry %d of %s", p.ID, n.name)
	p.answer(active.Answer{Err: active.ErrUnknown})
	upTo := 50 * time.Millisecond
	if r.s.rnd.IntN(3) == 0 {
		upTo = 20 * time.Second
	}
	r.s.agenda.after(r.s.between(time.Millisecond, upTo), &n.proc, func() {
		n.queue = append([]*proposal{p}, n.queue...)
		r.pump(n, 0)
	})
}

// maybeForge puts an entry into the log that no controller made: right in everything but its lineage, as from the log
// of another cluster's history that was mixed up with this one.
func (r *raft) maybeForge(p *proposal) {
	if !r.unruly || p.Claim || r.s.rnd.IntN(50) != 0 {
		return
	}
	r.handmade++
	forged := cloneEnvelope(p.env)
	forged.Lineage = fsm.LineageID{Number: 1, UUID: fsm.UUID{0xff}}.Proto()
	forged.FirstMetadataOffset = nil
	first := p.env.GetFirstMetadataOffset() + recordsIn(p.env)
	forged.FirstMetadataOffset = &first
	forged.DigestBefore = nil
	r.suffix = append(r.suffix, &logEntry{term: r.term, env: forged, forge: true})
}

func recordsIn(env *metadatav1.Envelope) (n int64) {
	for _, b := range env.GetBatches() {
		n += int64(len(b.GetRecords()))
	}
	return n
}

// replicate commits what is in the leader's log by then, if a majority hears the leader.
func (r *raft) replicate() {
	if r.committing || r.leader == nil || len(r.suffix) == 0 {
		return
	}
	r.committing = true
	n, term, count := r.leader, r.term, len(r.suffix)
	delay := r.s.between(r.s.opt.Disk/6, r.s.opt.Disk)
	if r.s.rnd.IntN(50) == 0 {
		delay += r.s.between(0, 300*time.Millisecond) // a slow disk
	}
	r.s.agenda.after(delay, nil, func() {
		r.committing = false
		if r.leader != n || r.term != term {
			r.replicate()
			return
		}
		if !n.up || n.frozen || !r.majorityAround(n) {
			r.s.agenda.after(20*time.Millisecond, nil, r.replicate)
			return
		}
		r.commit(count)
		r.replicate()
	})
}

// commit moves the oldest entries of the suffix into the log.
func (r *raft) commit(count int) {
	count = min(count, len(r.suffix))
	r.log = append(r.log, r.suffix[:count]...)
	r.suffix = append([]*logEntry(nil), r.suffix[count:]...)
	for _, n := range r.s.nodes {
		n.hearOfCommit()
	}
}

// majorityAround tells whether a node reaches a majority of the nodes, itself among them.
func (r *raft) majorityAround(n *node) bool {
	count := 0
	for _, other := range r.s.nodes {
		if other.up && !other.frozen && r.s.net.reaches(&n.proc, &other.proc) {
			count++
		}
	}
	return 2*count > len(r.s.nodes)
}

// watch looks whether the leader still leads; it plans an election when it does not.
func (r *raft) watch() {
	l := r.leader
	if (l == nil || !l.up || l.frozen || !r.majorityAround(l)) && !r.electing {
		r.electing = true
		r.s.agenda.after(r.s.between(20*time.Millisecond, 1500*time.Millisecond), nil, func() {
			r.electing = false
			if l := r.leader; l == nil || !l.up || l.frozen || !r.majorityAround(l) {
				r.elect(nil)
			}
		})
	}
	r.s.agenda.after(100*time.Millisecond, nil, r.watch)
}

// elect gives leadership to somebody who reaches a majority, to the wanted one if that is possible.
func (r *raft) elect(wanted *node) {
	var able []*node
	for _, n := range r.s.nodes {
		if n.up && !n.frozen && r.majorityAround(n) {
			able = append(able, n)
		}
	}
	if len(able) == 0 {
		r.depose(nil)
		return
	}
	next := able[r.s.rnd.IntN(len(able))]
	if wanted != nil && slices.Contains(able, wanted) {
		next = wanted
	}
	r.depose(next)
	r.leader = next
	r.s.tracef("raft: %s leads in term %d", next.name, r.term)
	next.believes = true
	next.hint(true, r.term, r.s.between(0, 30*time.Millisecond))
}

// depose ends the term. What was not committed survives as far as the next leader has it: all of it if it is the same.
func (r *raft) depose(next *node) {
	old := r.leader
	r.leader = nil
	r.term += 1 + r.s.rnd.Uint64N(2)
	if old == nil {
		return
	}
	survivors := len(r.suffix)
	if next != old {
		survivors = r.s.rnd.IntN(len(r.suffix) + 1)
	}
	lost := r.suffix
	r.commit(survivors)
	r.suffix = nil
	for _, e := range lost { // every future that is on its way is answered with "leadership lost"
		if e.from != nil {
			p := e.from
			r.s.agenda.after(r.s.between(0, 600*time.Millisecond), &p.node.proc, func() { p.answer(active.Answer{Err: active.ErrUnknown}) })
		}
	}
	old.stepDown(r.term, next == old)
}
