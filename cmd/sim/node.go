package main

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
	"github.com/skiffmq/skiff/quorum/rpc"
)

// feedMax is how many entries a node keeps for its followers; who is further behind gets a snapshot.
const feedMax = 256

// node is one quorum node: the real Core on the model of Raft, the real fold, and the edge that brokers and clients
// call.
type node struct {
	proc
	s  *Sim
	id int32

	// The disk: the last snapshot. The log is the model's.
	snapshot      *fsm.Image
	snapshotIndex int

	// What follows is lost with the process.
	core *active.Core
	img  *fsm.Image
	// applied counts the entries of the log that were folded or skipped by a snapshot.
	applied int
	queue   []*proposal
	pumping bool
	// believes tells that the node takes itself for the leader; doomed are entries in its log that are lost by now.
	believes bool
	doomed   []*proposal
	// told is the hint on its way, nil if there is none.
	told *active.LeadershipHint
	// applying tells that a visit of the fold is planned.
	applying bool
	contacts []active.Contact
	waiting  map[*active.Op]func(active.Outcome)
	// desk and links are the sessions.
	desk  *rpc.Desk[*beat]
	links []*link
	// heard is when a broker's heartbeat arrived last, openedAt when a claim was opened, thawedAt when the process went
	// on after it was frozen: each begins a session.
	heard              map[int32]int64
	openedAt, thawedAt int64
	// tickAt is when the next tick is planned, 0 if none is.
	tickAt int64
	feed   []*fed
	// streams are followers to be woken by the next entry.
	streams map[*stream]bool
	order   []*stream
}

// fed is an entry that took effect, as the feed hands it out.
type fed struct {
	first, epoch int64
	env          *metadatav1.Envelope
}

// boot starts the process from what is on disk.
func (n *node) boot() {
	n.start()
	s := n.s
	n.img, n.applied = n.snapshot, n.snapshotIndex
	n.queue, n.doomed, n.contacts, n.feed = nil, nil, nil, nil
	n.pumping, n.believes, n.applying, n.told, n.tickAt = false, false, false, nil, 0
	n.heard = map[int32]int64{}
	n.waiting, n.streams, n.order = map[*active.Op]func(active.Outcome){}, map[*stream]bool{}, nil
	n.desk, n.links = rpc.NewDesk[*beat](), nil
	incarnation := s.uuid()
	n.core = active.NewCore(active.Config{
		NodeID: n.id, DirectoryID: nodeDirectory(n.id), IncarnationID: incarnation, Depth: s.opt.Depth,
		Image: func() *fsm.Image { return n.img },
		Env: func() *controller.Env {
			return &controller.Env{Now: s.agenda.time(), Rand: s.rnd, Limits: s.limits, Defaults: s.defaults}
		},
		Registration: &metadatav1.ControllerRegistered{
			NodeId: n.id, DirectoryId: nodeDirectory(n.id).Bytes(), IncarnationId: incarnation.Bytes(),
			Listeners: []*metadatav1.Listener{{Name: "CONTROLLER", Host: n.name, Port: 9093}},
			Features:  []*metadatav1.Feature{{Name: controller.FeatureName, MinLevel: 1, MaxLevel: 1}},
		},
		SessionTimeout: s.plant.session(s.opt.Session),
		ProposeTimeout: s.opt.ProposeTimeout,
	})
	s.tracef("%s starts at metadata offset %d", n.name, n.img.AppliedOffset())
	n.hearOfCommit()
	n.step(active.BrokersChanged{})
	n.pingSessions()
	s.agenda.after(s.between(2*time.Second, 40*time.Second), &n.proc, n.takeSnapshot)
}

func nodeDirectory(id int32) fsm.UUID { return fsm.UUID{0xd0, byte(id), 1} }

// kill ends the process.
func (n *node) kill() {
	n.s.tracef("%s is killed", n.name)
	n.stop()
	if n.s.raft.leader == n {
		n.s.raft.depose(nil)
	}
	n.core, n.waiting = nil, nil
}

// step gives events to the Core and carries out its effects.
func (n *node) step(events ...active.Event) {
	if len(n.contacts) > 0 {
		events = append([]active.Event{active.Contacts{Contacts: n.contacts}}, events...)
		n.contacts = nil
	}
	for _, e := range n.core.Step(n.s.agenda.time(), events...) {
		switch e := e.(type) {
		case active.Propose:
			n.propose(e)
		case active.Settle:
			n.settle(e)
		case active.Probe:
			n.probe(e)
		case active.Note:
			n.note(e)
		case active.Halt:
			n.s.fail(3, "%s halts: %v", n.name, e.Err)
		}
	}
	n.planTick()
	n.s.check.stepped(n)
}

func (n *node) note(e active.Note) {
	n.s.tracef("%s: %s %v", n.name, e.Message, e.Args)
	if strings.HasPrefix(e.Message, "claim opened") {
		n.openedAt = n.s.agenda.now
	}
}

func (n *node) propose(e active.Propose) {
	n.s.plant.early(n, e)
	n.s.raft.propose(n, e)
}

// planTick keeps one tick planned.
func (n *node) planTick() {
	at := n.core.NextTick()
	if at.IsZero() {
		return
	}
	when := max(at.UnixNano(), n.s.agenda.now)
	if n.tickAt != 0 && n.tickAt <= when {
		return
	}
	n.tickAt = when
	n.s.agenda.at(when, &n.proc, func() {
		if n.tickAt != when {
			return
		}
		n.tickAt = 0
		n.step(active.Tick{})
	})
}

// settle answers a request, and holds the answer against I4.
func (n *node) settle(e active.Settle) {
	done, ok := n.waiting[e.Op]
	if !ok {
		return // its caller is gone
	}
	delete(n.waiting, e.Op)
	if e.Outcome.Err == nil && e.Outcome.MetadataOffset > n.img.AppliedOffset() {
		n.s.fail(4, "%s answers at metadata offset %d and has applied %d", n.name, e.Outcome.MetadataOffset, n.img.AppliedOffset())
	}
	done(e.Outcome)
}

// submit brings a request to the Core. Done is called once, unless the process ends before.
func (n *node) submit(op *active.Op, patience time.Duration, done func(active.Outcome)) {
	n.waiting[op] = done
	n.s.agenda.after(patience, &n.proc, func() {
		if _, ok := n.waiting[op]; !ok {
			return
		}
		delete(n.waiting, op)
		n.step(active.OpDeadline{Op: op})
		done(active.Outcome{Err: errPatience})
	})
	n.step(active.Submitted{Op: op})
}

var errPatience = errors.New("the caller's patience is over")

// hint tells the Core of leadership after a while. Hints that come before that one replace it.
func (n *node) hint(leading bool, term uint64, in time.Duration) {
	waiting := n.told != nil
	n.told = &active.LeadershipHint{Leading: leading, Term: term}
	if waiting && n.s.rnd.IntN(2) == 0 {
		return
	}
	n.s.agenda.after(in, &n.proc, func() {
		if n.told == nil {
			return
		}
		h := *n.told
		n.told = nil
		n.step(h)
	})
}

// stepDown is what becomes of the leader of a term that is over.
func (n *node) stepDown(term uint64, again bool) {
	if !n.up {
		return
	}
	n.s.agenda.after(n.s.between(0, 500*time.Millisecond), &n.proc, func() {
		if n.s.raft.leader == n {
			return
		}
		n.believes = false
		doomed := n.doomed
		n.doomed = nil
		for _, p := range doomed {
			p.answer(active.Answer{Err: active.ErrUnknown})
		}
		n.hint(false, term, n.s.between(0, 50*time.Millisecond))
	})
	if again && n.s.rnd.IntN(2) == 0 {
		n.hint(false, term, 0)
	}
}

// hearOfCommit plans a visit of the fold.
func (n *node) hearOfCommit() {
	if !n.up || n.applying || n.applied == len(n.s.raft.log) {
		return
	}
	n.applying = true
	delay := n.s.between(100*time.Microsecond, time.Millisecond)
	if n.s.raft.leader != n {
		delay = n.s.between(500*time.Microsecond, 60*time.Millisecond)
	}
	n.s.agenda.after(delay, &n.proc, n.applyCommitted)
}

// applyCommitted folds what is committed, as far as the node hears of it.
func (n *node) applyCommitted() {
	n.applying = false
	r := n.s.raft
	if r.unruly && n.s.agenda.now == n.thawedAt && r.leader != n { // the requests at its port are nearer than the next leader's entries
		n.applying = true
		n.s.agenda.after(n.s.between(time.Millisecond, 100*time.Millisecond), &n.proc, n.applyCommitted)
		return
	}
	if r.leader == nil || !n.s.net.reaches(&n.proc, &r.leader.proc) || !r.majorityAround(n) {
		n.applying = true
		n.s.agenda.after(50*time.Millisecond, &n.proc, n.applyCommitted)
		return
	}
	if behind := len(r.log) - n.applied; r.leader != n && (behind > 40 || behind > 4 && r.unruly && n.s.rnd.IntN(40) == 0) && n.install() {
		n.hearOfCommit()
		return
	}
	for i := 0; n.applied < len(r.log) && i < 64; i++ {
		n.apply(r.log[n.applied])
		if n.s.violation != nil {
			return
		}
	}
	n.wakeStreams()
	n.hearOfCommit()
}

// apply folds one entry, tells the Core, and answers the proposer.
func (n *node) apply(e *logEntry) {
	n.applied++
	before := n.img
	res := n.s.plant.fold(before, e)
	n.s.check.folded(n, before, e, res)
	if n.s.violation != nil {
		return
	}
	n.img = res.Image
	if res.Outcome == fsm.Applied {
		n.feed = append(n.feed, &fed{first: res.FirstOffset, epoch: res.ControllerEpoch, env: e.env})
		if len(n.feed) > feedMax {
			n.feed = append([]*fed(nil), n.feed[len(n.feed)-feedMax/2:]...)
		}
	}
	events := []active.Event{active.NewObserved(res, e.env)}
	if active.ChangesBrokers(res) {
		events = append(events, active.BrokersChanged{})
	}
	n.step(events...)
	if e.from != nil && e.from.node == n {
		e.from.answer(active.Answer{Result: res})
	}
}

// install replaces the image by the leader's, as Raft does with a node that is far behind.
func (n *node) install() bool {
	leader := n.s.raft.leader
	if leader.applied <= n.applied {
		return false
	}
	img := n.s.roundTrip(leader.img)
	if img == nil {
		return false
	}
	n.s.check.grew(n.name, n.img, img)
	n.s.tracef("%s installs a snapshot at metadata offset %d, was at %d", n.name, img.AppliedOffset(), n.img.AppliedOffset())
	skipped := n.s.raft.log[n.applied:leader.applied]
	n.img, n.applied, n.feed = img, leader.applied, nil
	n.snapshot, n.snapshotIndex = img, n.applied
	n.step(active.Restored{})
	for _, e := range skipped {
		if e.from != nil && e.from.node == n {
			e.from.answer(active.Answer{Err: active.ErrUnknown})
		}
	}
	n.wakeStreams()
	return true
}

// takeSnapshot keeps the image, so that the next process starts from it.
func (n *node) takeSnapshot() {
	if img := n.s.roundTrip(n.img); img != nil {
		n.snapshot, n.snapshotIndex = img, n.applied
	}
	n.s.agenda.after(n.s.between(10*time.Second, 120*time.Second), &n.proc, n.takeSnapshot)
}

// roundTrip writes and reads an image; the two must be one (I5).
func (s *Sim) roundTrip(img *fsm.Image) *fsm.Image {
	var b bytes.Buffer
	if err := fsm.WriteSnapshot(img, &b); err != nil {
		s.fail(5, "an image cannot be written: %v", err)
		return nil
	}
	read, err := fsm.ReadSnapshot(&b)
	if err != nil {
		s.fail(5, "a snapshot cannot be read: %v", err)
		return nil
	}
	if read.Digest() != img.Digest() || read.NextOffset() != img.NextOffset() {
		s.fail(5, "a snapshot of %s at %d reads as %s at %d", img.Digest(), img.NextOffset(), read.Digest(), read.NextOffset())
		return nil
	}
	if s.rnd.IntN(4) == 0 && img.NumPartitions() <= checkFullBelow && fsm.Describe(read) != fsm.Describe(img) {
		s.fail(5, "a snapshot at %d reads as another image:\n%s\n%s", img.NextOffset(), fsm.Describe(img), fsm.Describe(read))
		return nil
	}
	return read
}

// open tells whether the node is the active controller, as far as it knows.
func (n *node) open() bool { return n.core.Status().Active }

func cloneEnvelope(env *metadatav1.Envelope) *metadatav1.Envelope {
	c, _ := proto.Clone(env).(*metadatav1.Envelope)
	return c
}
