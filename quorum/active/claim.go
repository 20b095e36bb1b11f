package active

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// claimAttempt is a claim in flight.
type claimAttempt struct {
	id    uint64
	nonce fsm.UUID
	// renews is the tip of the open claim that is claimed again, nil if there was none. Nothing is on its way in it.
	renews *tip
	// barriers arrived before the claim was proposed; its image answers them.
	barriers []*Op
}

// continues tells whether a claim at that offset follows the tip that it renews: then nobody else decided between.
func (a *claimAttempt) continues(claimOffset int64) bool {
	return a.renews != nil && claimOffset == a.renews.image.NextOffset()
}

// takeHint begins a claim, or ends it. A second "leading" in another term means that leadership was lost and won again
// between two hints.
func (c *Core) takeHint(now time.Time, h LeadershipHint) {
	if c.leading && (!h.Leading || h.Term != c.term) {
		c.endClaim(now, "leadership was lost")
		c.failures = 0
	}
	c.leading, c.term = h.Leading, h.Term
	switch {
	case c.leading && c.phase == Idle:
		c.claimAt = now
	case !c.leading:
		c.refuseQueued("this node is not the active controller")
	}
}

// beginClaim proposes a ControllerClaimed alone in its entry.
func (c *Core) beginClaim(now time.Time) {
	img := c.cfg.Image()
	if img == nil { // not initialised, or not yet restored
		c.retryClaim(now, "this node has no image")
		return
	}
	c.proposeClaim(now, img, nil)
}

// renewClaim claims again from the open claim, so that barriers and held answers have an entry to wait for.
func (c *Core) renewClaim(now time.Time) {
	t := c.tip
	c.tip = nil
	c.proposeClaim(now, t.image, t)
}

func (c *Core) proposeClaim(now time.Time, img *fsm.Image, renews *tip) {
	nonce := c.nonce()
	entry, err := fsm.EncodeEnvelope(c.claimEnvelope(now, img, nonce))
	if err != nil {
		c.retryClaim(now, fmt.Sprintf("the claim cannot be encoded: %v", err))
		return
	}
	c.nextID++
	c.claim = &claimAttempt{id: c.nextID, nonce: nonce, renews: renews, barriers: c.barriers}
	c.barriers = nil
	c.phase = Claiming
	c.do(Propose{ID: c.claim.id, Claim: true, Entry: entry, Timeout: c.cfg.ProposeTimeout})
}

// claimEnvelope leaves out what the claimant cannot know: where its entry lands.
func (c *Core) claimEnvelope(now time.Time, img *fsm.Image, nonce fsm.UUID) *metadatav1.Envelope {
	return &metadatav1.Envelope{
		Format:    fsm.EnvelopeFormat,
		ClusterId: img.ClusterID(),
		Lineage:   img.Lineage().ID.Proto(),
		Batches: []*metadatav1.Batch{{
			TimeMs:    max(now.UnixMilli(), img.LastBatchTimeMs()),
			RequestId: nonce.Bytes(),
			Cause:     &metadatav1.Cause{Principal: "controller", RequestKind: "Claim"},
			Reason:    &metadatav1.Reason{Code: "leadership_won", Text: fmt.Sprintf("node %d leads the quorum", c.cfg.NodeID)},
			Records: []*metadatav1.Record{{Kind: &metadatav1.Record_ControllerClaimed{
				ControllerClaimed: &metadatav1.ControllerClaimed{
					NodeId:        c.cfg.NodeID,
					DirectoryId:   c.cfg.DirectoryID.Bytes(),
					IncarnationId: c.cfg.IncarnationID.Bytes(),
					Nonce:         nonce.Bytes(),
				},
			}}},
		}},
	}
}

// nonce draws 16 bytes from the environment's dice.
func (c *Core) nonce() fsm.UUID {
	rnd := c.cfg.Env().Rand
	var u fsm.UUID
	binary.BigEndian.PutUint64(u[:8], rnd.Uint64())
	binary.BigEndian.PutUint64(u[8:], rnd.Uint64())
	return u
}

// takeClaimAnswer opens the claim, or tries again.
func (c *Core) takeClaimAnswer(now time.Time, ev ClaimAnswered) {
	if c.phase != Claiming || c.claim.id != ev.ID {
		return // an attempt that was given up
	}
	res := ev.Answer.Result
	switch {
	case ev.Answer.Err != nil:
		c.retryClaim(now, ev.Answer.Err.Error())
	case res.Outcome == fsm.Dropped:
		c.retryClaim(now, "the claim was dropped: "+mismatch(res.Mismatch))
	case res.Outcome == fsm.Broken:
		c.retryClaim(now, "the claim does not fold: "+errorText(res.Err))
		c.do(Halt{Err: brokenError(res.Err)})
	default:
		c.openClaim(now, res.Image)
	}
}

// openClaim begins to decide on the image that the claim was folded into.
func (c *Core) openClaim(now time.Time, img *fsm.Image) {
	claim, ok := img.Claim()
	if !ok || claim.Nonce != c.claim.nonce {
		c.retryClaim(now, "the answer is about another claim")
		return
	}
	attempt := c.claim
	c.claim, c.phase = nil, Open
	c.tip = &tip{epoch: img.ControllerEpoch(), claimOffset: img.ClaimOffset(), image: img}
	for _, op := range attempt.barriers {
		c.settle(op, Outcome{Image: img, MetadataOffset: img.AppliedOffset()})
	}
	if attempt.continues(img.ClaimOffset()) {
		c.counts.Renewals++
		for _, d := range attempt.renews.held.take() {
			c.answer(d)
		}
		return
	}
	c.interrupted(attempt, "another node decided before the claim was renewed")
	c.counts.Claims++
	c.note(hclog.Info, "claim opened: this node is the active controller", "controller_epoch", c.tip.epoch, "metadata_offset", img.AppliedOffset())
	c.startDuties(now, img)
}

// interrupted lets go of what was to continue over a renewal.
func (c *Core) interrupted(attempt *claimAttempt, why string) {
	c.memory.clear()
	if attempt.renews == nil {
		return
	}
	for _, d := range attempt.renews.held.take() {
		c.abandon(d, why)
	}
}

// retryClaim gives up the claim in flight and plans the next.
func (c *Core) retryClaim(now time.Time, why string) {
	if c.claim != nil {
		c.failClaim("the claim failed")
	}
	c.claim, c.phase = nil, Idle
	c.planClaim(now)
	c.note(hclog.Warn, "claim failed", "why", why, "retry_in", c.claimAt.Sub(now))
}

// failClaim answers those who wait for the claim in flight.
func (c *Core) failClaim(why string) {
	for _, op := range c.claim.barriers {
		c.settle(op, Outcome{Err: notDone(op.kind, why)})
	}
	c.interrupted(c.claim, why)
}

// planClaim sets when to claim again: at once after a claim that worked, later and later when claims fail.
func (c *Core) planClaim(now time.Time) {
	pause := time.Duration(0)
	if c.failures > 0 {
		pause = min(claimBackoffMin<<min(c.failures-1, 16), claimBackoffMax)
	}
	c.failures++
	c.claimAt = now.Add(pause)
}

// endClaim stops deciding and throws the tip away. What was proposed is kept until its outcome is known; everybody else
// is told that nothing was done.
func (c *Core) endClaim(now time.Time, why string) {
	switch c.phase {
	case Idle:
		return
	case Claiming:
		c.retryClaim(now, why)
		return
	case Open:
	}
	t := c.tip
	c.tip, c.phase = nil, Idle
	c.memory.clear()
	c.note(hclog.Warn, "claim ended", "why", why, "controller_epoch", t.epoch, "in_flight", len(t.flights))
	c.scatter(t)
	c.planClaim(now)
}

// scatter lets go of a tip: what was not proposed is given up, what was becomes an orphan.
func (c *Core) scatter(t *tip) {
	const why = "the claim ended before it was proposed"
	for _, s := range t.staged {
		if s.last {
			c.abandon(s.owner, why)
		}
		for _, d := range s.riders {
			c.abandon(d, why)
		}
	}
	for _, d := range t.held.take() {
		c.abandon(d, why)
	}
	for _, f := range t.flights {
		c.orphan(f)
	}
}

// abandon answers a decision that will never be proposed as a whole.
func (c *Core) abandon(d *decided, why string) {
	for _, op := range d.ops {
		if d.begun || d.unknown > 0 {
			c.settle(op, Outcome{Err: unknownOutcome(op.kind, "the claim ended when a part of it was decided")})
		} else {
			c.settle(op, Outcome{Err: notDone(op.kind, why)})
		}
	}
	d.ops = nil
}

// orphan keeps an entry of the claim that has just ended. Those who only rode on it changed nothing and may ask again.
func (c *Core) orphan(f *flight) {
	var kept []*decided
	for _, d := range f.waiters {
		if d.writes {
			kept = append(kept, d)
			continue
		}
		c.abandon(d, "the claim ended")
	}
	f.waiters = kept
	for _, op := range f.barriers {
		c.settle(op, Outcome{Err: notDone(op.kind, "the claim ended")})
	}
	f.barriers = nil
	c.orphans = append(c.orphans, f)
}

// takeObserved learns from an entry of the log what became of ours.
func (c *Core) takeObserved(now time.Time, o Observed) {
	if !o.Claim {
		c.observeOrphan(o)
		return
	}
	if !o.Applied {
		return
	}
	const another = "another claim was applied"
	switch {
	case c.phase == Open && o.ClaimOffset > c.tip.claimOffset:
		c.endClaim(now, another)
	case c.phase == Claiming && o.Nonce != c.claim.nonce:
		c.interrupted(c.claim, another)
		c.claim.renews = nil // what comes of it is a new claim
	}
	// From here on no entry of an earlier claim passes the guard, and those that did pass were seen before.
	for i := len(c.orphans) - 1; i >= 0; i-- {
		if f := c.orphans[i]; f.claimOffset < o.ClaimOffset {
			c.dropOrphan(i)
			c.resolve(f, false)
		}
	}
}

// observeOrphan resolves an orphan whose entry was seen in the log.
func (c *Core) observeOrphan(o Observed) {
	i := slices.IndexFunc(c.orphans, func(f *flight) bool { return f.claimOffset == o.ClaimOffset && f.first == o.FirstOffset })
	if i < 0 {
		return
	}
	f := c.orphans[i]
	c.dropOrphan(i)
	c.resolve(f, o.Applied)
}

// takeRestored ends the claim: a snapshot hides which entries took effect.
func (c *Core) takeRestored(now time.Time) {
	c.brokersChanged = true
	c.endClaim(now, "the image was restored from a snapshot")
	for _, f := range c.orphans {
		c.lose(f, "the image was replaced by a snapshot")
	}
	c.orphans = nil
}

func (c *Core) dropOrphan(i int) { c.orphans = slices.Delete(c.orphans, i, i+1) }

// sweepOrphans forgets the entries that nobody waits for any longer.
func (c *Core) sweepOrphans() {
	c.orphans = slices.DeleteFunc(c.orphans, func(f *flight) bool {
		return !slices.ContainsFunc(f.owners, func(d *decided) bool { return len(d.ops) > 0 })
	})
}

// liveEnv returns the environment of decisions made at now.
func (c *Core) liveEnv(now time.Time) *controller.Env {
	env := *c.cfg.Env()
	env.Now = now
	env.Liveness = c.liveness
	env.Inventories = c.recovery.inventories
	return &env
}
