package active

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// probeTimeout is how long a probe may take. A host that has not answered by then decides nothing.
const probeTimeout = time.Second

// takeClosings notes the sessions that brokers closed without a goodbye.
func (c *Core) takeClosings(closings []Closing) {
	img := c.cfg.Image()
	if !c.active() || img == nil {
		return
	}
	for _, n := range closings {
		herds := c.watch.Herds()
		c.watch.Closed(img, c.liveness, n.BrokerID, n.BrokerEpoch, n.At)
		if c.watch.Herds() > herds {
			c.note(hclog.Warn, "many brokers closed their sessions at once; their sessions decide", "broker", n.BrokerID)
		} else {
			c.note(hclog.Info, "a broker closed its session without a goodbye", "broker", n.BrokerID, "broker_epoch", n.BrokerEpoch)
		}
	}
}

// takeProbeAnswer keeps the brokers that are proved to be gone for the next decision.
func (c *Core) takeProbeAnswer(ev ProbeAnswered) {
	if ev.Result >= 0 && ev.Result < controller.NumProbeResults {
		c.counts.Probes[ev.Result]++
	}
	r, gone := c.watch.Answered(ev.BrokerID, ev.ID, ev.Result, ev.Remote)
	switch {
	case gone:
		c.refused = append(c.refused, r)
	case r.Address != "":
		c.note(hclog.Info, "a broker that may be gone is left to its session", "broker", ev.BrokerID, "address", r.Address, "probe", ev.Result)
	}
}

// fenceRefused has those fenced together.
func (c *Core) fenceRefused() {
	refused := c.refused
	if c.refused = nil; len(refused) == 0 || !c.active() {
		return
	}
	c.addDuty("FenceRefused", func(img *fsm.Image, env *controller.Env) verdict {
		return untyped(controller.FenceRefused(img, env, refused))
	}, nil)
}

// probe begins the probes that are due. It knows the brokers from the applied image, also while nothing is decided: a
// node that becomes active must have connected to them before they died.
func (c *Core) probe(now time.Time) {
	if !c.active() {
		c.watch.Rest()
	}
	img := c.cfg.Image()
	if img == nil {
		return
	}
	if c.brokersChanged {
		c.brokersChanged = false
		c.watch.Look(img)
	}
	for _, p := range c.watch.Next(img, c.liveness, now) {
		c.do(Probe{Probe: p, Timeout: probeTimeout})
	}
	c.counts.Herds = c.watch.Herds()
}

// Fencing is why a broker was fenced.
type Fencing int

// The reasons, by their codes in the metadata.
const (
	FencedOther Fencing = iota
	FencedSessionExpired
	FencedProbeRefused
	FencedGoodbye
	FencedWish
	FencedStopped
	FencedRegistered

	// NumFencings is their number.
	NumFencings = iota
)

// fencingCodes are the reason codes of package controller.
var fencingCodes = [NumFencings]string{
	FencedOther: "other", FencedSessionExpired: "session_expired", FencedProbeRefused: "probe_refused", FencedGoodbye: "broker_goodbye",
	FencedWish: "broker_wants_fence", FencedStopped: "broker_stopped", FencedRegistered: "broker_registered",
}

// String is the reason's code in the metadata.
func (f Fencing) String() string {
	if f < 0 || f >= NumFencings {
		return "other"
	}
	return fencingCodes[f]
}

// countFencings counts the brokers that a batch takes out of service.
func (c *Core) countFencings(before *fsm.Image, b *metadatav1.Batch) {
	for _, r := range b.GetRecords() {
		change, fence := r.GetBrokerRegistrationChange(), false
		if change != nil {
			fence = change.Fenced != nil && change.GetFenced()
		} else if reg := r.GetRegisterBroker(); reg != nil {
			was, known := before.Broker(reg.GetBrokerId())
			fence = known && !was.Fenced && reg.GetFenced()
		}
		if fence {
			c.counts.Fencings[fencingOf(b.GetReason().GetCode())]++
		}
	}
}

func fencingOf(code string) Fencing {
	for f, known := range fencingCodes {
		if known == code {
			return Fencing(f)
		}
	}
	return FencedOther
}
