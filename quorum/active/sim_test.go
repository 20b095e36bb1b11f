package active

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

var (
	simSeed  = flag.Uint64("active.seed", 0, "run only this seed of the simulation")
	simSeeds = flag.Int("active.seeds", 60, "number of seeds of the simulation")
)

// TestSimulation runs three Cores on a model of Raft that does everything Raft may do to a proposal: it refuses, loses,
// delays, commits after it has answered with an error, commits in a later term than the entry was proposed in, deposes
// with and without telling, and replaces images by snapshots. A run is a function of its seed.
//
// What must hold whatever happens: every request is answered at most once, and truly. Success means that it is in the
// log, was applied on the answering node before the answer, and has the answer's offset (I4); "not done" means that it is
// not in the log and never will be (I21); a question that writes nothing sees all that was acknowledged before it was
// asked; all nodes agree (I1).
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		simulate(t, *simSeed)
		return
	}
	acked := 0
	for seed := range uint64(*simSeeds) {
		acked += simulate(t, seed+1)
		if t.Failed() {
			t.Fatalf("run again with -active.seed=%d", seed+1)
		}
	}
	if acked < 20**simSeeds {
		t.Fatalf("%d keys were acknowledged in %d runs: too few to prove anything", acked, *simSeeds)
	}
}

// sim is one run.
type sim struct {
	t      *testing.T
	rnd    *rand.Rand
	now    time.Time
	nodes  []*simNode
	leader int
	// cut serves its clients and hears nothing of the others, -1 if nobody is cut off.
	cut  int
	term uint64
	log  []*simEntry
	ops  []*simOp
	// acked are the keys whose success was answered.
	acked []string
	next  int
}

// simEntry is committed.
type simEntry struct {
	term   uint64
	env    *metadatav1.Envelope
	origin *simProposal
}

// simProposal was handed to a node's Raft.
type simProposal struct {
	Propose
	node     *simNode
	answered bool
}

// simOp is a request and what is known of it.
type simOp struct {
	op      *Op
	keys    []string
	barrier bool
	asks    string   // a key that was acked when it was asked for
	before  []string // acked before it was submitted
	out     *Outcome
}

type simNode struct {
	s       *sim
	id      int
	core    *Core
	img     *fsm.Image
	applied int
	// queue holds what Raft has not taken yet, hints what the Core was not told yet.
	queue []*simProposal
	hints []LeadershipHint
}

// simulate makes one run and returns the number of keys whose writing was acknowledged.
func simulate(t *testing.T, seed uint64) int {
	s := &sim{t: t, rnd: rand.New(rand.NewPCG(seed, 99)), now: time.UnixMilli(1_700_000_000_000), leader: -1, cut: -1}
	depth := 1 + s.rnd.IntN(4)
	for i := range 3 {
		s.nodes = append(s.nodes, s.newNode(i, depth))
	}
	for range 1500 {
		s.act()
		if t.Failed() {
			return 0
		}
	}
	s.heal()
	s.check()
	return len(s.acked)
}

func (s *sim) newNode(i, depth int) *simNode {
	n := &simNode{s: s, id: i, img: genesis(s.t)}
	n.core = NewCore(Config{
		NodeID: int32(101 + i), DirectoryID: fsm.UUID{byte(i + 1)}, IncarnationID: fsm.UUID{byte(i + 1), 1}, Depth: depth,
		Image: func() *fsm.Image { return n.img },
		Env: func() *controller.Env {
			return &controller.Env{Now: s.now, Rand: s.rnd, Limits: controller.DefaultLimits()}
		},
	})
	n.core.entryBytes = 300 // a few batches, so that requests span entries
	return n
}

// act does one random thing.
func (s *sim) act() {
	n := s.nodes[s.rnd.IntN(len(s.nodes))]
	p := s.rnd.IntN(100)
	if n.id == s.cut && p >= 25 && p < 91 {
		return
	}
	switch {
	case p < 25:
		if s.leader >= 0 && s.rnd.IntN(3) > 0 {
			n = s.nodes[s.leader]
		}
		s.submit(n)
	case p < 50:
		n.handOver()
	case p < 80:
		n.applyNext()
	case p < 82:
		s.elect()
	case p < 90:
		n.hear()
	case p < 91:
		n.restore()
	case p < 93:
		s.expire()
	default:
		s.now = s.now.Add(time.Duration(s.rnd.IntN(50)) * time.Millisecond)
		if at := n.core.NextTick(); !at.IsZero() && !s.now.Before(at) {
			n.step(Tick{})
		}
	}
}

// submit brings a request to a node: a write of one or of several batches, a question or a barrier; sometimes a burst.
func (s *sim) submit(n *simNode) {
	var events []Event
	for range 1 + s.rnd.IntN(3) {
		o := &simOp{before: slices.Clone(s.acked)}
		kind := s.rnd.IntN(10)
		if n.id == s.cut {
			kind = 1 // behind a write it could decide nothing
		}
		switch kind {
		case 0:
			o.op, o.barrier = NewBarrier(), true
		case 1, 2:
			if len(s.acked) == 0 {
				continue
			}
			o.asks = s.acked[len(s.acked)-1-s.rnd.IntN(min(3, len(s.acked)))]
			o.op = getOp(o.asks)
		case 3:
			o.keys = []string{s.key(), s.key(), s.key(), s.key(), s.key()}
			o.op = NewOp(putMany, o.keys, nil, fsm.UUID{})
		default:
			o.keys = []string{s.key()}
			o.op = NewOp(put, o.keys[0], nil, fsm.UUID{})
		}
		s.ops = append(s.ops, o)
		events = append(events, Submitted{o.op})
	}
	n.step(events...)
}

func (s *sim) key() string {
	s.next++
	return fmt.Sprintf("k%d", s.next)
}

// elect gives leadership to somebody else, to the same node in a new term, or to nobody. Who hears of it is open.
func (s *sim) elect() {
	s.term++
	old := s.leader
	s.leader = s.rnd.IntN(len(s.nodes)+1) - 1
	if s.cut = -1; s.leader != old && s.rnd.IntN(2) == 0 {
		s.cut = old
	}
	if old >= 0 && s.rnd.IntN(3) > 0 {
		s.nodes[old].hints = append(s.nodes[old].hints, LeadershipHint{Term: s.term})
	}
	if s.leader >= 0 {
		n := s.nodes[s.leader]
		n.hints = append(n.hints, LeadershipHint{Leading: true, Term: s.term})
	}
}

// expire lets a caller's patience end.
func (s *sim) expire() {
	if len(s.ops) == 0 {
		return
	}
	o := s.ops[s.rnd.IntN(len(s.ops))]
	if o.out != nil {
		return
	}
	if o.op.withdraw() {
		o.out = &Outcome{Err: refuse(controllerv1.ErrorCode_ERROR_CODE_OVERLOADED, "withdrawn")}
	} else {
		o.out = &Outcome{Err: unknownOutcome(o.op.kind, "deadline")}
	}
	for _, n := range s.nodes {
		n.step(OpDeadline{o.op})
	}
}

func (n *simNode) step(events ...Event) {
	for _, e := range n.core.Step(n.s.now, events...) {
		switch e := e.(type) {
		case Propose:
			n.queue = append(n.queue, &simProposal{Propose: e, node: n})
		case Settle:
			n.settled(e)
		case Halt:
			n.s.t.Errorf("halted: %v", e.Err)
		}
	}
}

// settled notes an answer, and checks what must be true already.
func (n *simNode) settled(e Settle) {
	i := slices.IndexFunc(n.s.ops, func(o *simOp) bool { return o.op == e.Op })
	o := n.s.ops[i]
	if o.out != nil {
		return // its caller is gone; the answer goes nowhere
	}
	o.out = &e.Outcome
	if e.Outcome.Err != nil {
		return
	}
	if o.asks != "" && e.Outcome.Reply != true {
		n.s.t.Errorf("node %d answers that %s is not there, which was acknowledged before", n.id, o.asks)
	}
	img := n.img
	if o.barrier {
		img = e.Outcome.Image
	}
	for _, key := range slices.Concat(o.keys, o.before) {
		if _, ok := img.ConfigValue(brokerDefaults, key); !ok && (o.barrier || slices.Contains(o.keys, key)) {
			n.s.t.Errorf("node %d answered success, and its image misses %s", n.id, key)
		}
	}
	n.s.acked = append(n.s.acked, o.keys...)
}

// handOver lets Raft deal with the proposal that was handed to the node first.
func (n *simNode) handOver() {
	if len(n.queue) == 0 {
		return
	}
	p, s := n.queue[0], n.s
	leads := s.leader == n.id
	switch r := s.rnd.IntN(20); {
	case !leads && r < 10:
		return // stays in Raft's queue, and may be taken in a later term
	case !leads && r < 15, leads && r == 0:
		n.queue = n.queue[1:]
		n.answer(p, Answer{Err: ErrNotAppended})
	case !leads, leads && r == 1:
		n.queue = n.queue[1:]
		n.answer(p, Answer{Err: ErrUnknown}) // lost, but who can tell
	case r == 2:
		n.answer(p, Answer{Err: ErrUnknown}) // and it stays: it may be committed all the same
	default:
		n.queue = n.queue[1:]
		env, err := fsm.DecodeEnvelope(p.Entry)
		if err != nil {
			s.t.Fatal(err)
		}
		s.log = append(s.log, &simEntry{term: s.term, env: env, origin: p})
	}
}

func (n *simNode) answer(p *simProposal, a Answer) {
	if p.answered {
		return
	}
	p.answered = true
	if p.Claim {
		n.step(ClaimAnswered{ID: p.ID, Answer: a})
	} else {
		n.step(ProposalAnswered{ID: p.ID, Answer: a})
	}
}

// fold applies the next committed entry to the node's image.
func (n *simNode) fold() (*simEntry, fsm.Result) {
	e := n.s.log[n.applied]
	n.applied++
	res := fsm.Apply(n.img, fsm.Entry{Envelope: e.env, ControllerEpoch: n.img.EpochBase() + int64(e.term)})
	if res.Outcome == fsm.Broken || res.Alarm != nil {
		n.s.t.Errorf("entry does not fold: %v, %v", res.Err, res.Alarm)
	}
	n.img = res.Image
	return e, res
}

func (n *simNode) applyNext() {
	if n.applied == len(n.s.log) {
		return
	}
	e, res := n.fold()
	n.step(NewObserved(res, e.env))
	if e.origin.node == n {
		n.answer(e.origin, Answer{Result: res})
	}
}

// hear gives the node its next hint.
func (n *simNode) hear() {
	if len(n.hints) == 0 {
		return
	}
	h := n.hints[0]
	n.hints = n.hints[1:]
	n.step(h)
}

// restore replaces the image by a later one, without showing the entries between.
func (n *simNode) restore() {
	if n.s.leader == n.id {
		return
	}
	var skipped []*simProposal
	for n.applied < len(n.s.log) {
		if e, _ := n.fold(); e.origin.node == n {
			skipped = append(skipped, e.origin)
		}
	}
	n.step(Restored{})
	for _, p := range skipped {
		n.answer(p, Answer{Err: ErrUnknown})
	}
}

// heal ends the faults and lets everything land.
func (s *sim) heal() {
	s.term++
	s.leader = 0
	for _, n := range s.nodes {
		n.hints = nil
		n.step(LeadershipHint{Term: s.term})
		for len(n.queue) > 0 {
			p := n.queue[0]
			n.queue = n.queue[1:]
			n.answer(p, Answer{Err: ErrNotAppended})
		}
	}
	s.term++
	n := s.nodes[0]
	n.step(LeadershipHint{Leading: true, Term: s.term})
	for range 200 {
		for len(n.queue) > 0 {
			p := n.queue[0]
			n.queue = n.queue[1:]
			env, err := fsm.DecodeEnvelope(p.Entry)
			if err != nil {
				s.t.Fatal(err)
			}
			s.log = append(s.log, &simEntry{term: s.term, env: env, origin: p})
		}
		for _, each := range s.nodes {
			for each.applied < len(s.log) {
				each.applyNext()
			}
		}
	}
}

// check compares what was answered with what is in the log.
func (s *sim) check() {
	first := s.nodes[0]
	for _, n := range s.nodes[1:] {
		if n.img.Digest() != first.img.Digest() || n.img.NextOffset() != first.img.NextOffset() {
			s.t.Errorf("I1: nodes 0 and %d differ", n.id)
		}
	}
	if first.core.phase != Open {
		s.t.Errorf("the leader of a healthy quorum has no open claim: %s", first.core.phase)
	}
	offsets := s.offsets()
	for _, o := range s.ops {
		s.checkOp(o, offsets)
	}
}

// offsets folds the log once more, and notes where each key was set.
func (s *sim) offsets() map[string]int64 {
	offsets := map[string]int64{}
	img := genesis(s.t)
	for _, e := range s.log {
		res := fsm.Apply(img, fsm.Entry{Envelope: e.env, ControllerEpoch: img.EpochBase() + int64(e.term)})
		if res.Outcome != fsm.Applied {
			continue
		}
		at := res.FirstOffset
		for _, b := range e.env.GetBatches() {
			for _, r := range b.GetRecords() {
				if key := r.GetConfig().GetKey(); key != "" {
					if was, twice := offsets[key]; twice {
						s.t.Errorf("%s was set at %d and at %d", key, was, at)
					}
					offsets[key] = at
				}
				at++
			}
		}
		img = res.Image
	}
	return offsets
}

func (s *sim) checkOp(o *simOp, offsets map[string]int64) {
	if o.out == nil {
		s.t.Errorf("%s was never answered in a healthy quorum", o.op.kind)
		return
	}
	there := 0
	for _, key := range o.keys {
		if _, ok := offsets[key]; ok {
			there++
		}
	}
	var r *controller.Refusal
	switch {
	case o.out.Err == nil:
		if there != len(o.keys) {
			s.t.Errorf("%v: success was answered, and %d of %d keys are in the log", o.keys, there, len(o.keys))
		} else if there > 0 && o.out.MetadataOffset != offsets[o.keys[len(o.keys)-1]] {
			s.t.Errorf("%v: answered with offset %d, in the log at %d", o.keys, o.out.MetadataOffset, offsets[o.keys[len(o.keys)-1]])
		}
	case !errors.As(o.out.Err, &r):
		s.t.Errorf("%v: %v is no refusal", o.keys, o.out.Err)
	case r.Code == unknown:
	case there > 0:
		s.t.Errorf("%v: answered %v, and it is in the log", o.keys, o.out.Err)
	}
}
