package active

import (
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// routine is a request that the clock makes, again and again. It is decided like any other request.
type routine struct {
	kind  string
	every time.Duration
	// atOnce asks for a run at the first tick of a claim.
	atOnce bool
	decide func(*fsm.Image, *controller.Env) verdict
	// at is when it is due next; running is set while the last one is on its way.
	at      time.Time
	running bool
}

// newRoutines are the Core's: sessions at every tick, elections at Kafka's intervals.
func newRoutines(cfg Config) []*routine {
	return []*routine{
		{kind: "ExpireSessions", every: cfg.tick(), decide: routinely(controller.ExpireSessions)},
		{kind: "BalanceLeaders", every: cfg.ElectInterval, decide: routinely(controller.BalanceLeaders)},
		// The last controller may have stopped half-way through a fencing that takes several entries.
		{kind: "ElectLeaderless", every: cfg.ElectInterval, atOnce: true, decide: routinely(controller.ElectLeaderless)},
	}
}

// routinely takes the type off a decision that needs no request.
func routinely[Resp any](decide func(*fsm.Image, *controller.Env) controller.Decision[Resp]) func(*fsm.Image, *controller.Env) verdict {
	return func(img *fsm.Image, env *controller.Env) verdict { return untyped(decide(img, env)) }
}

// startDuties begins with a full session for every unfenced broker: what the last controller heard is not known here.
func (c *Core) startDuties(now time.Time, img *fsm.Image) {
	c.liveness.Reset(img, now)
	c.recovery.begin(now)
	c.watch.Claimed(img, now)
	c.nextTick = now.Add(c.cfg.tick())
	for _, r := range c.routines {
		r.at, r.running = now.Add(r.every), false
		if r.atOnce {
			r.at = now
		}
	}
	if reg := c.cfg.Registration; reg != nil {
		register := func(img *fsm.Image, env *controller.Env) verdict {
			return untyped(controller.RegisterController(img, env, reg))
		}
		c.addDuty("RegisterController", register, nil)
	}
}

// takeTick does what the clock asks for. While the claim is renewed it is put into the queue: one renewal may follow the
// other for as long as barriers or refusals are asked for.
func (c *Core) takeTick(now time.Time) {
	if !c.active() || now.Before(c.nextTick) {
		return
	}
	c.grantAfterStall(now)
	c.nextTick = now.Add(c.cfg.tick())
	for _, r := range c.routines {
		if r.running || now.Before(r.at) {
			continue
		}
		r.running, r.at = true, now.Add(r.every)
		c.addDuty(r.kind, r.decide, func(out Outcome) {
			r.running = false
			if more, ok := out.Reply.(bool); ok && more {
				r.at = time.Time{} // at the next tick
			}
		})
	}
}

// grantAfterStall gives every broker a full session when this process itself did not run for a while: their heartbeats
// may be waiting in our sockets.
func (c *Core) grantAfterStall(now time.Time) {
	if stalled := now.Sub(c.nextTick); stalled > c.stallMax {
		c.note(hclog.Warn, "this process stalled; every broker gets a full session", "stalled", stalled)
		c.liveness.Grant(now)
	}
}

// takeContacts notes the heartbeats. The time of each is that of its arrival, however long it waited here.
func (c *Core) takeContacts(contacts []Contact) {
	for _, n := range contacts {
		c.liveness.Touch(n.BrokerID, n.BrokerEpoch, n.MetadataOffset, n.At)
	}
}

// addDuty puts a request of the Core's own before all others.
func (c *Core) addDuty(kind string, decide func(*fsm.Image, *controller.Env) verdict, done func(Outcome)) {
	op := &Op{
		kind:   kind,
		cause:  &metadatav1.Cause{Principal: "controller", RequestKind: kind},
		decide: decide,
		own:    true,
		duty:   done,
		done:   make(chan Outcome, 1),
	}
	c.queue = slices.Insert(c.queue, 0, op)
}
