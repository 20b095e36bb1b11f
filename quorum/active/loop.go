package active

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// answerGrace is how much longer than the timeout of its entry an answer is awaited: the Log answers by then, and if it
// does not, nobody may hang for it.
const answerGrace = time.Second

// Loop drives a Core. Its methods may be called from any goroutine, before, during and after Run.
type Loop struct {
	cfg      Config
	sessions *Sessions
	box      mailbox

	// core is owned by the goroutine of Run.
	core *Core

	// ownClaim is the offset of the last claim that was opened here, -1 before the first.
	ownClaim atomic.Int64
	active   atomic.Bool
	status   atomic.Pointer[Status]

	// mu guards changed.
	mu sync.Mutex
	// changed is closed, and replaced, when active changes.
	changed chan struct{}
}

// New makes a Loop that does not run yet.
func New(cfg Config) *Loop {
	cfg = cfg.withDefaults()
	l := &Loop{
		cfg:     cfg,
		box:     mailbox{wake: make(chan struct{}, 1)},
		core:    NewCore(cfg),
		changed: make(chan struct{}),
	}
	l.sessions = newSessions(func() time.Time { return cfg.Env().Now }, l.box.signal)
	l.ownClaim.Store(-1)
	l.status.Store(&Status{})
	return l
}

// Run decides until ctx ends, which is not an error, or until an entry does not fold (ErrBroken). Then everybody who
// still waits is answered. It is called once.
func (l *Loop) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		l.arm(timer)
		var events []Event
		select {
		case <-ctx.Done():
			l.stop()
			return nil
		case <-l.box.wake:
			events = l.box.take()
		case <-timer.C:
			events = append(l.box.take(), Tick{})
		}
		if err := l.step(ctx, events); err != nil {
			l.stop()
			return err
		}
	}
}

// arm sets the timer to the next tick.
func (l *Loop) arm(timer *time.Timer) {
	wait := time.Hour
	if at := l.core.NextTick(); !at.IsZero() {
		wait = max(at.Sub(l.cfg.Env().Now), 0)
	}
	timer.Reset(wait)
}

// step drives the Core. The clock is read before the contacts are taken, so no contact can seem to be missing that
// arrived before now.
func (l *Loop) step(ctx context.Context, events []Event) error {
	now := l.cfg.Env().Now
	contacts, closings := l.sessions.drain()
	if len(contacts) > 0 {
		events = append([]Event{Contacts{contacts}}, events...)
	}
	if len(closings) > 0 {
		events = append(events, Closings{closings})
	}
	effects := l.core.Step(now, events...)
	l.publish()
	var err error
	for _, e := range effects {
		switch e := e.(type) {
		case Propose:
			l.propose(ctx, e)
		case Settle:
			e.Op.Deliver(e.Outcome)
		case Probe:
			l.probe(ctx, e)
		case Note:
			l.cfg.Logger.Log(e.Level, e.Message, e.Args...)
		case Halt:
			err = e.Err
		}
	}
	return err
}

// publish makes the Core's state visible before its effects are, so that an entry of a claim is never seen without it.
func (l *Loop) publish() {
	s := l.core.Status()
	l.status.Store(&s)
	l.box.setQueued(l.core.QueueLen())
	if s.Phase == Open {
		l.ownClaim.Store(s.ClaimOffset)
	}
	l.setActive(s.Active)
}

func (l *Loop) setActive(active bool) {
	if l.active.Swap(active) == active {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

// propose hands an entry to the log. One goroutine waits for each answer, so that the answer to a new claim need not
// wait behind that of a lost one; there are at most as many as entries in flight.
func (l *Loop) propose(ctx context.Context, p Propose) {
	answers := l.cfg.Log.Propose(p.Entry, p.Timeout)
	go func() {
		answer := awaitAnswer(ctx, answers, p.Timeout+answerGrace)
		if p.Claim {
			l.box.post(ClaimAnswered{ID: p.ID, Answer: answer})
		} else {
			l.box.post(ProposalAnswered{ID: p.ID, Answer: answer})
		}
	}()
}

// awaitAnswer waits for an answer, but neither longer than timeout nor after the end of ctx.
func awaitAnswer(ctx context.Context, answers <-chan Answer, timeout time.Duration) Answer {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a
	case <-timer.C:
	case <-ctx.Done():
	}
	return Answer{Err: ErrUnknown}
}

// stop answers everybody who waits, now and later.
func (l *Loop) stop() {
	for _, ev := range l.box.close() {
		if s, ok := ev.(Submitted); ok {
			s.Op.Deliver(Outcome{Err: stopping(s.Op)})
		}
	}
	for _, e := range l.core.Shutdown() {
		if s, ok := e.(Settle); ok {
			s.Op.Deliver(s.Outcome)
		}
	}
	l.publish()
}

func stopping(op *Op) error { return notDone(op.kind, "this node is stopping") }

// submit hands a request to the loop.
func (l *Loop) submit(op *Op) error {
	err := l.box.submit(op)
	switch {
	case errors.Is(err, errFull):
		return refuse(controllerv1.ErrorCode_ERROR_CODE_OVERLOADED, "%s was not done: %d requests wait already", op.kind, MaxQueuedOps)
	case errors.Is(err, errClosed):
		return stopping(op)
	}
	return nil
}

// Leadership tells whether this node leads, in which term. It may be late, early or wrong, and never blocks.
func (l *Loop) Leadership(leading bool, term uint64) {
	l.box.post(LeadershipHint{Leading: leading, Term: term})
}

// Observe tells what the fold on this node made of an entry of the log. The goroutine that folds calls it for every
// entry that was applied or dropped, in the order of the log, before it answers the entry's proposer. It never blocks.
func (l *Loop) Observe(res fsm.Result, env *metadatav1.Envelope) {
	if res.Outcome == fsm.Broken {
		return // its proposer hears of it
	}
	if ChangesBrokers(res) {
		l.box.brokersChanged()
	}
	o := NewObserved(res, env)
	if o.Claim || o.ClaimOffset == l.ownClaim.Load() {
		l.box.post(o)
	}
}

// Restored tells that the image of this node was replaced by a snapshot: what became of entries that were in flight
// cannot be told any longer. It never blocks.
func (l *Loop) Restored() { l.box.post(Restored{}) }

// Active tells whether this node holds an open claim.
func (l *Loop) Active() bool { return l.active.Load() }

// Changed returns a channel that is closed when Active changes.
func (l *Loop) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Status describes the loop.
func (l *Loop) Status() Status { return *l.status.Load() }

// Sessions is where the heartbeats of brokers are noted.
func (l *Loop) Sessions() *Sessions { return l.sessions }

// Logger is where the loop writes.
func (l *Loop) Logger() hclog.Logger { return l.cfg.Logger }
