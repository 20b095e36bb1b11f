package main

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/active"
)

// Plant is a fault that is built into the simulated system, to see whether the checks find it.
type Plant string

// The faults.
const (
	// NoFault is the system as it is.
	NoFault Plant = ""
	// SkipClaim, SkipFirst, SkipLineage and SkipEpoch take one equation out of the guard of every node.
	SkipClaim   Plant = "claim-offset"
	SkipFirst   Plant = "first-offset"
	SkipLineage Plant = "lineage"
	SkipEpoch   Plant = "controller-epoch"
	// StaleClaim lets a decision of an old claim take effect after a newer one: no equation looks at the claim or at
	// what was decided since.
	StaleClaim Plant = "stale-claim"
	// HighTooEarly lets a leader count a follower for records that it has only asked for.
	HighTooEarly Plant = "high-watermark-early"
	// WidenAlone and ShrinkAlone let a leader change the ISR without the controller.
	WidenAlone  Plant = "isr-widened-alone"
	ShrinkAlone Plant = "isr-shrunk-alone"
	// AnswerEarly answers a request when it was decided, not when it is committed.
	AnswerEarly Plant = "answer-before-commit"
	// AckEarly acknowledges a record when the leader has appended it.
	AckEarly Plant = "ack-before-replication"
	// ForgetEpochs lets followers fetch without telling the leader epoch of their last record, so that nobody sees that
	// their logs have parted.
	ForgetEpochs Plant = "no-truncation"
	// Unclean lets any replica lead when no ISR member can.
	Unclean Plant = "unclean-election"
	// NeverExpire gives brokers ten sessions of silence.
	NeverExpire Plant = "sessions-too-long"
)

// Plants lists the faults.
var Plants = []Plant{
	SkipClaim, SkipFirst, SkipLineage, SkipEpoch, StaleClaim, HighTooEarly, WidenAlone, ShrinkAlone, AnswerEarly, AckEarly,
	ForgetEpochs, Unclean, NeverExpire,
}

// fold is fsm.Apply, but for the fault.
func (p Plant) fold(img *fsm.Image, e *logEntry) fsm.Result {
	entry := fsm.Entry{Envelope: e.env, ControllerEpoch: img.EpochBase() + int64(e.term)}
	res := fsm.Apply(img, entry)
	for range 4 { // each check that the fault leaves out may hide another
		if res.Outcome != fsm.Dropped || !p.leavesOut(res.Mismatch.Check) {
			break
		}
		entry = p.disguise(img, entry, res.Mismatch.Check)
		res = fsm.Apply(img, entry)
	}
	return res
}

// leavesOut tells whether the fault makes the guard blind for a check.
func (p Plant) leavesOut(check string) bool {
	switch p {
	case SkipClaim:
		return check == "claim_offset"
	case SkipFirst:
		return check == "first_metadata_offset"
	case SkipLineage:
		return check == "lineage"
	case SkipEpoch:
		return check == "controller_epoch" || check == "controller_epoch of the claim"
	case StaleClaim:
		return check != "lineage"
	case NoFault, HighTooEarly, WidenAlone, ShrinkAlone, AnswerEarly, AckEarly, ForgetEpochs, Unclean, NeverExpire:
	}
	return false
}

// disguise makes an entry look as the check wants it.
func (p Plant) disguise(img *fsm.Image, e fsm.Entry, check string) fsm.Entry {
	if img.ClaimOffset() < 0 {
		return e
	}
	env := cloneEnvelope(e.Envelope)
	switch check {
	case "claim_offset":
		env.ClaimOffset = proto.Int64(img.ClaimOffset())
	case "first_metadata_offset":
		env.FirstMetadataOffset = proto.Int64(img.NextOffset())
	case "lineage":
		env.Lineage = img.Lineage().ID.Proto()
	default:
		env.ControllerEpoch = proto.Int64(img.ControllerEpoch())
		e.ControllerEpoch = img.ControllerEpoch()
	}
	e.Envelope = env
	return e
}

// follow is fsm.Follow, but for the fault: a broker checks the lineage too.
func (p Plant) follow(img *fsm.Image, e fsm.Entry) fsm.Result {
	res := fsm.Follow(img, e)
	if res.Outcome == fsm.Dropped && p.leavesOut(res.Mismatch.Check) && res.Mismatch.Check == "lineage" {
		res = fsm.Follow(img, p.disguise(img, e, "lineage"))
	}
	return res
}

// early answers a proposal as if it was applied, before Raft has seen it.
func (p Plant) early(n *node, e active.Propose) {
	if p != AnswerEarly || e.Claim {
		return
	}
	env, err := fsm.DecodeEnvelope(e.Entry)
	if err != nil {
		return
	}
	n.s.agenda.after(0, &n.proc, func() {
		res := fsm.Apply(n.img, fsm.Entry{Envelope: env, ControllerEpoch: n.img.ControllerEpoch()})
		if res.Outcome == fsm.Applied {
			n.step(active.ProposalAnswered{ID: e.ID, Answer: active.Answer{Result: res}})
		}
	})
}

// flatter lets the leader believe that a follower has everything that the leader has.
func (p Plant) flatter(h *hosted, f *parkedFetch, item fetchItem) {
	if p != HighTooEarly {
		return
	}
	if st := h.solo.State(); st.Leader {
		sent := item.sent
		sent.Offset, sent.LastFetchedEpoch = st.End, -1
		h.solo.Read(sent, f.from, f.epoch, true)
	}
}

// alone grants a leader's wish without asking the controller; true if it did.
func (p Plant) alone(h *hosted, w *replica.Wish, grows bool) bool {
	if !(p == WidenAlone && grows) && !(p == ShrinkAlone && !grows) {
		return false
	}
	item := w.Item(h.id, h.b.id, h.b.life.Epoch)
	r := &controllerv1.AlterPartitionResult{LeaderEpoch: item.GetLeaderEpoch(), PartitionEpoch: item.GetPartitionEpoch() + 1}
	for _, m := range item.GetNewIsr() {
		r.Isr = append(r.Isr, m.GetBrokerId())
	}
	slices.Sort(r.Isr)
	h.solo.Granted(w, r)
	return true
}

// hasty acknowledges an append at once.
func (p Plant) hasty(w *write) {
	if p == AckEarly {
		w.finish(nil)
	}
}

// forget takes the leader epoch out of a follower's fetch.
func (p Plant) forget(f *replica.FetchPartition) {
	if p == ForgetEpochs {
		f.LastFetchedEpoch = -1
	}
}

// unclean tells what unclean.leader.election.enable is.
func (p Plant) unclean() string {
	if p == Unclean {
		return "true"
	}
	return "false"
}

// session is the timeout that the controller goes by.
func (p Plant) session(d time.Duration) time.Duration {
	if p == NeverExpire {
		return 10 * d
	}
	return d
}
