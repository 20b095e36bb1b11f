package active

import (
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/controller"
)

// Phase tells how far the Core is on its way to deciding.
type Phase int

// The phases; doc.go draws them.
const (
	// Idle: the node does not lead, or waits before it claims again.
	Idle Phase = iota
	// Claiming: a claim is in flight.
	Claiming
	// Open: the claim was applied; requests are decided.
	Open
)

// String names the phase.
func (p Phase) String() string {
	switch p {
	case Idle:
		return "idle"
	case Claiming:
		return "claiming"
	case Open:
		return "open"
	}
	return "unknown"
}

// Core is the step function that decides while its node holds a claim. One goroutine owns it.
type Core struct {
	cfg Config

	// leading and term are the last hint.
	leading bool
	term    uint64
	phase   Phase
	// entryBytes bounds the batches of one entry.
	entryBytes int
	// claim is the claim in flight, nil unless phase is Claiming.
	claim *claimAttempt
	// failures counts claims since an entry was last applied in one of ours; it sets the pause before the next.
	failures int
	// claimAt is when to claim while leading and idle.
	claimAt time.Time
	// tip exists only while phase is Open.
	tip *tip

	// queue holds the requests that are not decided yet, in the order of their arrival.
	queue       []*Op
	queuedBytes int
	// barriers wait for an entry that is proposed after their arrival.
	barriers []*Op
	// orphans are entries of lost claims of which it is not known whether they took effect.
	orphans []*flight
	// memory matches retries with requests that were decided in the open claim.
	memory memory

	// liveness is written only between decisions.
	liveness *controller.Liveness
	// watch finds dead brokers before their sessions end; brokersChanged tells that it has to look at the image, and
	// refused are those that were found and not decided yet.
	watch          *controller.Watch
	brokersChanged bool
	refused        []controller.RefusedProbe
	// recovery elects from inventories.
	recovery recovery
	// routines are done at ticks, the next of which is due at nextTick.
	routines []*routine
	nextTick time.Time
	// stallMax is how late a tick may come before the process counts as having stalled.
	stallMax time.Duration

	nextID  uint64
	effects []Effect
	counts  Counts
}

// Counts are what the Core did since it was made.
type Counts struct {
	Claims   uint64 // claims that were opened
	Renewals uint64 // claims that were repeated for barriers and held answers
	Entries  uint64 // entries that were proposed, claims left out
	Batches  uint64 // batches in them
	Dropped  uint64 // entries of ours that failed the guard
	Unknown  uint64 // entries of ours whose outcome was not answered
	Misfits  uint64 // decisions that did not fold, or panicked
	Answered uint64 // requests that were answered
	Herds    uint64 // sessions that were closed in a herd, so that no probe decided
	// Probes that were answered, by result.
	Probes [controller.NumProbeResults]uint64
	// Fencings are the brokers that this node decided to fence, by reason.
	Fencings [NumFencings]uint64
}

// NewCore makes a Core that is idle.
func NewCore(cfg Config) *Core {
	cfg = cfg.withDefaults()
	return &Core{
		cfg:        cfg,
		entryBytes: fsm.MaxEntryBytes - envelopeOverhead,
		liveness:   controller.NewLiveness(cfg.SessionTimeout),
		watch:      controller.NewWatch(), brokersChanged: true,
		recovery: recovery{inventories: controller.NewInventories()},
		routines: newRoutines(cfg),
		stallMax: cfg.SessionTimeout / 2,
	}
}

// Step takes events that happened up to now, in their order, and returns what is to be done, in the order to do it.
// What arrives in one step is decided together.
func (c *Core) Step(now time.Time, events ...Event) []Effect {
	c.effects = nil
	for _, ev := range events {
		c.take(now, ev)
	}
	c.fenceRefused()
	c.electInventoried()
	c.pump(now)
	if c.recovery.due { // by a report that was decided just now
		c.electInventoried()
		c.pump(now)
	}
	c.probe(now)
	return c.effects
}

// take updates the state with one event.
func (c *Core) take(now time.Time, ev Event) {
	switch ev := ev.(type) {
	case LeadershipHint:
		c.takeHint(now, ev)
	case Submitted:
		c.takeOp(ev.Op)
	case ClaimAnswered:
		c.takeClaimAnswer(now, ev)
	case ProposalAnswered:
		c.takeAnswer(now, ev)
	case Contacts:
		c.takeContacts(ev.Contacts)
	case Closings:
		c.takeClosings(ev.Closings)
	case BrokersChanged:
		c.brokersChanged, c.recovery.due = true, true
	case ProbeAnswered:
		c.takeProbeAnswer(ev)
	case Tick:
		c.takeTick(now)
	case Observed:
		c.takeObserved(now, ev)
	case Restored:
		c.takeRestored(now)
	case OpDeadline:
		c.forget(ev.Op)
	}
}

// takeOp queues a request, or refuses it where nothing can be decided. While a claim is on its way requests wait for
// it: that is sooner than the caller's next attempt.
func (c *Core) takeOp(op *Op) {
	if !c.leading {
		c.settle(op, Outcome{Err: notDone(op.kind, "this node is not the active controller")})
		return
	}
	if op.decide == nil {
		c.barriers = append(c.barriers, op)
		return
	}
	c.queue = append(c.queue, op)
	c.queuedBytes += op.size
}

// takeAnswer completes an entry. Anything but "applied" ends the claim that it belongs to.
func (c *Core) takeAnswer(now time.Time, ev ProposalAnswered) {
	if c.phase == Open {
		if i := slices.IndexFunc(c.tip.flights, func(f *flight) bool { return f.id == ev.ID }); i >= 0 {
			c.takeOpenAnswer(now, i, ev.Answer)
			return
		}
	}
	if i := slices.IndexFunc(c.orphans, func(f *flight) bool { return f.id == ev.ID }); i >= 0 {
		c.takeOrphanAnswer(i, ev.Answer)
	}
}

// takeOpenAnswer completes the i-th entry in flight of the open claim.
func (c *Core) takeOpenAnswer(now time.Time, i int, a Answer) {
	f := c.tip.flights[i]
	why := c.fault(f, a)
	if why != "" {
		c.endClaim(now, why)
		c.takeOrphanAnswer(slices.Index(c.orphans, f), a)
		return
	}
	// Offsets are dense and one claim follows no other: what stands before an applied entry was applied too.
	for _, done := range c.tip.land(i + 1) {
		c.resolve(done, true)
	}
	c.failures = 0
	if a.Result.Image.Digest() != f.after.Digest() {
		c.endClaim(now, "the applied image differs from the tip")
		c.note(hclog.Error, "an entry was applied here with another result than it was decided with",
			"metadata_offset", f.after.AppliedOffset(), "want_digest", f.after.Digest(), "got_digest", a.Result.Image.Digest())
		return
	}
	c.tip.rebase(a.Result.Image)
}

// fault says why an answer ends the claim, "" if it does not.
func (c *Core) fault(f *flight, a Answer) string {
	switch {
	case a.Err != nil:
		return a.Err.Error()
	case a.Result.Outcome == fsm.Dropped:
		return "an entry was dropped: " + mismatch(a.Result.Mismatch)
	case a.Result.Outcome == fsm.Broken:
		return "an entry did not fold: " + errorText(a.Result.Err)
	case a.Result.FirstOffset != f.first || a.Result.ControllerEpoch != f.epoch:
		return "the answer is about another entry"
	}
	return ""
}

// takeOrphanAnswer resolves the i-th orphan as far as the answer to its entry allows.
func (c *Core) takeOrphanAnswer(i int, a Answer) {
	f := c.orphans[i]
	applied, known := outcomeOf(f, a)
	switch {
	case a.Err == nil && a.Result.Outcome == fsm.Broken:
		c.dropOrphan(i)
		c.lose(f, "its committed entry does not fold here: "+errorText(a.Result.Err))
		c.do(Halt{Err: brokenError(a.Result.Err)})
	case !known:
		c.counts.Unknown++
	default:
		if !applied && a.Err == nil {
			c.counts.Dropped++
		}
		c.dropOrphan(i)
		c.resolve(f, applied)
	}
	c.sweepOrphans()
}

// pump decides and proposes as much as the open claim allows.
func (c *Core) pump(now time.Time) {
	if c.phase == Idle && c.leading && !now.Before(c.claimAt) {
		c.beginClaim(now)
	}
	for c.phase == Open && c.tip.hasRoom(c.cfg.Depth) {
		c.decideQueued(now)
		if c.phase != Open || len(c.tip.staged) == 0 {
			break
		}
		c.propose(now)
	}
	if c.phase == Open && (len(c.barriers) > 0 || len(c.tip.held.decisions) > 0) && len(c.tip.flights) == 0 && len(c.tip.staged) == 0 {
		c.renewClaim(now)
	}
}

// settle answers a request, one of the Core's own at once.
func (c *Core) settle(op *Op, out Outcome) {
	if op.own {
		if op.duty != nil {
			op.duty(out)
		}
		return
	}
	c.counts.Answered++
	c.do(Settle{Op: op, Outcome: out})
}

func (c *Core) do(e Effect) { c.effects = append(c.effects, e) }

func (c *Core) note(level hclog.Level, msg string, args ...any) {
	c.do(Note{Level: level, Message: msg, Args: args})
}

// NextTick returns when the Core wants its next Tick; the zero time if it wants none.
func (c *Core) NextTick() time.Time {
	switch {
	case c.active():
		if due := c.watch.NextDue(); !due.IsZero() && due.Before(c.nextTick) {
			return due
		}
		return c.nextTick
	case c.phase == Idle && c.leading:
		return c.claimAt
	}
	return time.Time{}
}

// QueueLen returns the number and the size of the requests that wait to be decided, or for an entry to be proposed.
func (c *Core) QueueLen() (ops, bytes int) {
	ops, bytes = len(c.queue)+len(c.barriers), c.queuedBytes
	t := c.tip
	if c.claim != nil {
		t = c.claim.renews
		ops += len(c.claim.barriers)
	}
	if t != nil {
		ops, bytes = ops+len(t.held.decisions), bytes+t.held.bytes
	}
	return ops, bytes
}

// Status describes the Core.
func (c *Core) Status() Status {
	s := Status{Phase: c.phase, Active: c.active(), Leading: c.leading, Term: c.term, Queued: len(c.queue), Orphans: len(c.orphans), Counts: c.counts}
	if c.tip != nil {
		s.ControllerEpoch, s.ClaimOffset, s.InFlight = c.tip.epoch, c.tip.claimOffset, len(c.tip.flights)
	}
	return s
}

// active tells that the node decides, or will again as soon as its renewed claim is applied.
func (c *Core) active() bool {
	return c.phase == Open || c.phase == Claiming && c.claim.renews != nil
}

// Status is what a Core looks like from outside.
type Status struct {
	Phase Phase
	// Active tells that the node decides, or will again as soon as its renewed claim is applied.
	Active  bool
	Leading bool
	Term    uint64
	// ControllerEpoch and ClaimOffset of the open claim, 0 if there is none.
	ControllerEpoch int64
	ClaimOffset     int64
	// Queued requests, entries InFlight, and Orphans: entries of lost claims whose outcome is not known yet.
	Queued   int
	InFlight int
	Orphans  int
	Counts   Counts
}
