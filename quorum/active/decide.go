package active

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// decideQueued decides requests in the order of their arrival, until an entry is full or nobody waits.
func (c *Core) decideQueued(now time.Time) {
	if len(c.queue) == 0 {
		return
	}
	env := c.liveEnv(now)
	n := 0
	for n < len(c.queue) && c.tip.stagedBytes < c.entryBytes {
		op := c.queue[n]
		n++
		c.queuedBytes -= op.size
		if op.take() {
			c.decide(op, env)
		}
	}
	c.queue = append([]*Op(nil), c.queue[n:]...)
}

// decide decides one request on the tip. Its answer waits for everything that it rests on.
func (c *Core) decide(op *Op, env *controller.Env) {
	if d := c.memory.find(op.key); d != nil {
		c.repeat(op, d)
		return
	}
	env.Cause, env.RequestID = op.cause, op.requestID
	v, parts, err := c.judge(op, env)
	d := &decided{ops: []*Op{op}}
	switch {
	case err != nil:
		c.counts.Misfits++
		c.note(hclog.Error, "a decision was refused because it is wrong", "request", op.kind, "error", err)
		d.outcome.Err = refuse(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_SERVER_ERROR, "%s: %v", op.kind, err)
	case v.refused != nil:
		d.outcome.Err = v.refused
	default:
		d.outcome.Reply = v.reply
	}
	if len(parts) > 0 {
		d.writes = true
		for i := range parts {
			parts[i].owner, parts[i].last = d, i == len(parts)-1
			c.countFencings(parts[i].before, parts[i].batch)
		}
		c.tip.stage(parts)
		c.memory.add(op.key, d)
	}
	if err == nil && v.remember != nil {
		v.remember(c.liveness)
	}
	if err == nil {
		c.recovery.keep(v.keep)
	}
	d.outcome.MetadataOffset = c.tip.image.AppliedOffset()
	withMetadataOffset(d.outcome.Reply, d.outcome.MetadataOffset)
	c.park(op, d)
}

// park has a decision wait for what its answer needs: what it was decided on, and if it wrote nothing, an entry of this
// claim that is proposed from now on. Once that is applied nobody else led in between, and what was decided is true at
// the entry's place in the log; until then a node that was deposed long ago could not tell.
func (c *Core) park(op *Op, d *decided) {
	switch {
	case d.writes:
	case op.own || op.prompt:
		if !c.tip.ride(d) {
			c.answer(d)
		}
	default:
		c.tip.hold(d, op.size)
	}
}

// repeat gives a retry the answer of the first attempt.
func (c *Core) repeat(op *Op, d *decided) {
	if d.done {
		c.settle(op, d.outcome)
		return
	}
	d.ops = append(d.ops, op)
}

// judge makes the decision and folds it. An error says that the decision is wrong, by a bug of ours: the request is
// refused, the tip stays, and nothing reaches the log.
func (c *Core) judge(op *Op, env *controller.Env) (v verdict, parts []staged, err error) {
	defer func() {
		if r := recover(); r != nil {
			v, parts, err = verdict{}, nil, fmt.Errorf("panic: %v", r)
		}
	}()
	v = op.decide(c.tip.image, env)
	if v.refused != nil {
		return v, nil, nil
	}
	img := c.tip.image
	for _, b := range v.batches {
		size := proto.Size(b)
		if size+batchOverhead > c.entryBytes {
			return verdict{refused: refuse(controllerv1.ErrorCode_ERROR_CODE_POLICY_VIOLATION,
				"%s needs a batch of %d bytes; an entry holds %d", op.kind, size, c.entryBytes)}, nil, nil
		}
		after, _, err := fsm.FoldBatches(img, []*metadatav1.Batch{b}, c.tip.epoch)
		if err != nil {
			return verdict{}, nil, fmt.Errorf("does not fold: %w", err)
		}
		parts = append(parts, staged{batch: b, size: size, before: img, after: after})
		img = after
	}
	return v, parts, nil
}

// propose hands the staged batches to the log, as many as one entry holds. The barriers share the entry.
func (c *Core) propose(now time.Time) {
	before := c.tip.staged[0].before
	c.nextID++
	f, batches := c.tip.launch(c.nextID, c.entryBytes)
	f.waiters = append(f.waiters, c.tip.held.take()...)
	f.barriers, c.barriers = c.barriers, nil
	entry, err := fsm.EncodeEnvelope(&metadatav1.Envelope{
		Format:              fsm.EnvelopeFormat,
		ClusterId:           before.ClusterID(),
		Lineage:             before.Lineage().ID.Proto(),
		ControllerEpoch:     proto.Int64(f.epoch),
		ClaimOffset:         proto.Int64(f.claimOffset),
		FirstMetadataOffset: proto.Int64(f.first),
		DigestBefore:        proto.Uint64(before.Digest().Prefix()),
		Batches:             batches,
	})
	if err != nil {
		c.note(hclog.Error, "an entry cannot be encoded", "error", err)
		c.endClaim(now, "an entry cannot be encoded")
		c.takeOrphanAnswer(slices.Index(c.orphans, f), Answer{Err: ErrNotAppended})
		return
	}
	c.counts.Entries++
	c.counts.Batches += uint64(len(batches))
	c.do(Propose{ID: f.id, Entry: entry, Timeout: c.cfg.ProposeTimeout})
}

// resolve answers everybody who waits for an entry that certainly took effect, or certainly never will.
func (c *Core) resolve(f *flight, applied bool) {
	for _, d := range f.owners {
		d.unknown--
		d.begun = d.begun || applied
		d.lost = d.lost || !applied
		if d.lost && d.unknown == 0 {
			c.answerLost(d)
		}
	}
	if !applied {
		return
	}
	for _, d := range f.waiters {
		d.done = true
		c.answer(d)
	}
	for _, op := range f.barriers {
		c.settle(op, Outcome{Image: f.after, MetadataOffset: f.after.AppliedOffset()})
	}
}

// answerLost answers a decision that never will take effect as a whole.
func (c *Core) answerLost(d *decided) {
	for _, op := range d.ops {
		if d.begun {
			c.settle(op, Outcome{Err: unknownOutcome(op.kind, "a part of it took effect before the claim ended")})
		} else {
			c.settle(op, Outcome{Err: notDone(op.kind, "the claim that decided it ended")})
		}
	}
	d.ops = nil
}

// lose answers everybody who waits for an entry of which it will never be known whether it took effect.
func (c *Core) lose(f *flight, why string) {
	for _, d := range f.owners {
		for _, op := range d.ops {
			c.settle(op, Outcome{Err: unknownOutcome(op.kind, why)})
		}
		d.ops = nil
	}
}

// answer gives a decision to everybody who asked for it.
func (c *Core) answer(d *decided) {
	for _, op := range d.ops {
		c.settle(op, d.outcome)
	}
	d.ops = nil
}

// refuseQueued answers everybody who was not decided yet.
func (c *Core) refuseQueued(why string) {
	for _, op := range slices.Concat(c.queue, c.barriers) {
		c.settle(op, Outcome{Err: notDone(op.kind, why)})
	}
	c.queue, c.queuedBytes, c.barriers = nil, 0, nil
}

// forget lets go of a request whose caller is gone.
func (c *Core) forget(op *Op) {
	if i := slices.Index(c.queue, op); i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
		c.queuedBytes -= op.size
	}
	c.barriers = slices.DeleteFunc(c.barriers, func(o *Op) bool { return o == op })
	for _, f := range c.orphans {
		for _, d := range f.owners {
			if i := slices.Index(d.ops, op); i >= 0 {
				d.ops = slices.Delete(d.ops, i, i+1)
				c.settle(op, Outcome{Err: unknownOutcome(op.kind, "its deadline passed")})
			}
		}
	}
	c.sweepOrphans()
}

// outcomeOf says whether an answer tells that the entry took effect, and whether it tells anything.
func outcomeOf(f *flight, a Answer) (applied, known bool) {
	switch {
	case errors.Is(a.Err, ErrNotAppended):
		return false, true
	case a.Err != nil:
		return false, false
	case a.Result.Outcome == fsm.Dropped:
		return false, true
	case a.Result.Outcome == fsm.Applied && a.Result.FirstOffset == f.first && a.Result.ControllerEpoch == f.epoch:
		return true, true
	}
	return false, false
}

func mismatch(m *fsm.Mismatch) string {
	if m == nil {
		return "no reason given"
	}
	return m.Error()
}

func errorText(err error) string {
	if err == nil {
		return "no reason given"
	}
	return err.Error()
}

func brokenError(err error) error { return fmt.Errorf("%w: %s", ErrBroken, errorText(err)) }
