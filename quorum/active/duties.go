package active

import (
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// startDuties begins with a full session for every unfenced broker: what the last controller heard is not known here.
func (c *Core) startDuties(now time.Time, img *fsm.Image) {
	c.liveness.Reset(img, now)
	c.lastTick, c.nextTick = now, now.Add(c.cfg.tick())
	if reg := c.cfg.Registration; reg != nil && !registered(img, reg) {
		c.addDuty("RegisterController", duty(controller.RegisterController, reg), nil)
	}
}

// takeTick does what the clock asks for. A request that the clock makes is decided like any other.
func (c *Core) takeTick(now time.Time) {
	if c.phase != Open || now.Before(c.nextTick) {
		return
	}
	c.grantAfterStall(now)
	c.lastTick, c.nextTick = now, now.Add(c.cfg.tick())
	if c.expiring {
		return
	}
	c.expiring = true
	expire := func(img *fsm.Image, env *controller.Env, _ struct{}) controller.Decision[[]int32] {
		return controller.ExpireSessions(img, env)
	}
	c.addDuty("ExpireSessions", duty(expire, struct{}{}), func(Outcome) { c.expiring = false })
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

// duty makes a decision of the Core's own.
func duty[Req, Resp any](decide func(*fsm.Image, *controller.Env, Req) controller.Decision[Resp], req Req) func(*fsm.Image, *controller.Env) verdict {
	return func(img *fsm.Image, env *controller.Env) verdict {
		d := decide(img, env, req)
		return verdict{batches: d.Batches, reply: d.Reply, refused: d.Refused, remember: d.Remember}
	}
}

// registered tells whether the image describes this node as it is.
func registered(img *fsm.Image, reg *metadatav1.ControllerRegistered) bool {
	node, ok := img.Controller(reg.GetNodeId())
	if !ok {
		return false
	}
	have := node.Record()
	return slices.Equal(have.GetIncarnationId(), reg.GetIncarnationId()) && slices.Equal(have.GetDirectoryId(), reg.GetDirectoryId())
}
