package active

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/controller"
)

// The guard's check of the epoch: what was proposed in one term and lands in a later one changes nothing.
func TestLateProposalIsDropped(t *testing.T) {
	n := newNode(t)
	n.claimed(5)
	late := putOp("late")
	n.step(Submitted{late})
	stale := n.takeProposal() // waits in Raft's queue
	n.lead(7)                 // lost and won again; only the second signal arrived
	claim := n.takeProposal()
	if !claim.Claim {
		t.Fatal("no new claim")
	}
	n.wantUnanswered(late)
	n.commit(claim)
	n.want(late, tryAgain)
	if res := n.commit(stale); res.Outcome != fsm.Dropped {
		t.Fatalf("the late entry was %s", res.Outcome)
	}
	if n.has("late") {
		t.Fatal("the late entry took effect")
	}
}

func TestLateProposalBeforeTheNewClaimIsDroppedByItsEpoch(t *testing.T) {
	n := newNode(t)
	n.claimed(5)
	late := putOp("late")
	n.step(Submitted{late})
	stale := n.takeProposal()
	n.lead(7)
	claim := n.takeProposal()
	if res := n.apply(stale); res.Outcome != fsm.Dropped || !strings.HasPrefix(res.Mismatch.Check, "controller_epoch") {
		t.Fatalf("the late entry was %s by %v", res.Outcome, res.Mismatch)
	}
	n.want(late, tryAgain)
	n.commit(claim)
	if n.has("late") {
		t.Fatal("the late entry took effect")
	}
}

// The guard's check of the claim: the entry that is second in a lost claim has exactly the first offset that the image
// expects after a new claim in the same term, so nothing but claim_offset can tell that it is stale. This test fails
// when that check is taken out of fsm.Apply.
func TestClaimOffsetAloneFencesAnOlderClaimOfTheSameTerm(t *testing.T) {
	n := newNode(t, withDepth(4))
	n.claimed(1)
	a, b := putOp("a"), putOp("b")
	n.step(Submitted{a})
	n.step(Submitted{b})
	first, second := n.takeProposal(), n.takeProposal()
	n.answer(first, Answer{Err: ErrNotAppended})
	n.want(a, tryAgain)
	n.commit(n.takeProposal()) // the new claim, in the same term
	if want, got := n.img.NextOffset(), n.envelope(second).GetFirstMetadataOffset(); got != want {
		t.Fatalf("the crafted entry begins at %d, the image expects %d: the test proves nothing", got, want)
	}
	n.want(b, tryAgain)
	if res := n.commit(second); res.Outcome != fsm.Dropped || res.Mismatch.Check != "claim_offset" {
		t.Fatalf("the entry of the older claim was %s by %v", res.Outcome, res.Mismatch)
	}
	if n.has("b") {
		t.Fatal("a deposed claim's decision is visible (I21)")
	}
	// The claim goes on: nothing that it decides rests on the dropped entry.
	c := putOp("c")
	n.step(Submitted{c})
	n.commit(n.takeProposal())
	n.want(c, done)
}

// The guard's check of the first offset: of two entries of one claim the first is lost, so the second was decided on
// what never came to be. Epoch and claim are right. This test fails when the check of first_metadata_offset is taken
// out of fsm.Apply.
func TestFirstOffsetAloneFencesWhatWasDecidedOnALostEntry(t *testing.T) {
	n := newNode(t, withDepth(4))
	n.claimed(1)
	a, b := putOp("a"), putOp("b")
	n.step(Submitted{a})
	n.step(Submitted{b})
	n.takeProposal() // lost on its way; its answer is late, too
	second := n.takeProposal()
	if res := n.commit(second); res.Outcome != fsm.Dropped || res.Mismatch.Check != "first_metadata_offset" {
		t.Fatalf("the entry was %s by %v", res.Outcome, res.Mismatch)
	}
	n.want(b, tryAgain)
	if n.has("b") {
		t.Fatal("an entry took effect that was decided on a lost one (I2)")
	}
	n.wantUnanswered(a) // it may still come
	n.commit(n.takeProposal())
	n.want(a, tryAgain)
}

func TestEntryThatCommitsAfterAnErrorCounts(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	op, read := putOp("a"), getOp("a")
	n.step(Submitted{op}, Submitted{read})
	p := n.takeProposal()
	n.answer(p, Answer{Err: fmt.Errorf("leadership lost: %w", ErrUnknown)})
	n.wantUnanswered(op)
	n.want(read, tryAgain) // it changed nothing and may be asked again
	n.apply(p)             // committed all the same, before the new claim
	out := n.want(op, done)
	if out.MetadataOffset != n.img.AppliedOffset() {
		t.Fatalf("offset %d, applied %d", out.MetadataOffset, n.img.AppliedOffset())
	}
	n.commit(n.takeProposal())
	if n.core.phase != Open {
		t.Fatal("no new claim")
	}
}

func TestCallersOfALostClaimLearnFromAnotherNodesClaim(t *testing.T) {
	n := newNode(t, withDepth(2))
	n.claimed(1)
	landed, lost := putOp("landed"), putOp("lost")
	n.step(Submitted{landed})
	n.step(Submitted{lost})
	p := n.takeProposal()
	n.takeProposal()
	n.step(LeadershipHint{Leading: false, Term: 2})
	n.wantUnanswered(landed, lost)
	n.apply(p)
	n.want(landed, done)
	n.wantUnanswered(lost)
	n.anotherClaims(2)
	n.want(lost, tryAgain)
	queued := putOp("queued")
	n.step(Submitted{queued})
	n.want(queued, tryAgain)
}

func TestAnotherClaimEndsOurs(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	n.anotherClaims(2)
	if n.core.phase == Open {
		t.Fatal("two claims decide (I21)")
	}
}

func TestRestoreAnswersOutcomeUnknown(t *testing.T) {
	n := newNode(t, withDepth(2))
	n.claimed(1)
	early, late := putOp("early"), putOp("late")
	n.step(Submitted{early})
	p := n.takeProposal()
	n.answer(p, Answer{Err: ErrUnknown})
	n.step(LeadershipHint{Leading: false, Term: 2})
	n.step(Restored{})
	n.want(early, unknown)
	n.proposals = nil // the claim that was under way is lost
	n.claimed(3)
	n.step(Submitted{late})
	n.step(Restored{})
	n.want(late, unknown)
	n.anotherClaims(4) // nobody is answered twice
}

func TestDeadlineOfACallerOfALostClaim(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	op := putOp("a")
	n.step(Submitted{op})
	n.answer(n.takeProposal(), Answer{Err: ErrUnknown})
	n.step(OpDeadline{op})
	n.want(op, unknown)
	if len(n.core.orphans) != 0 {
		t.Fatal("an entry is kept that nobody waits for")
	}
}

func TestClaimThatDiesHalfWay(t *testing.T) {
	half := func(t *testing.T) (*node, *Op, Propose, Propose) {
		n := newNode(t)
		n.claimed(1)
		many := NewOp(func(img *fsm.Image, env *controller.Env, keys []string) controller.Decision[string] {
			d := putMany(img, env, keys)
			for _, b := range d.Batches {
				b.Reason.Text = strings.Repeat("x", 700<<10) // one to an entry
			}
			return d
		}, []string{"a", "b"}, nil, fsm.UUID{})
		n.step(Submitted{many})
		first := n.takeProposal()
		n.commit(first)
		n.wantUnanswered(many)
		return n, many, first, n.takeProposal()
	}
	t.Run("the rest is applied", func(t *testing.T) {
		n, op, _, second := half(t)
		n.commit(second)
		if out := n.want(op, done); out.MetadataOffset != n.img.AppliedOffset() {
			t.Fatalf("offset %d, applied %d", out.MetadataOffset, n.img.AppliedOffset())
		}
	})
	t.Run("the rest is lost", func(t *testing.T) {
		n, op, _, second := half(t)
		n.answer(second, Answer{Err: ErrNotAppended})
		n.want(op, unknown)
		if !n.has("a") || n.has("b") {
			t.Fatal("the first part is not what is left")
		}
	})
	t.Run("the rest was never proposed", func(t *testing.T) {
		n := newNode(t)
		n.claimed(1)
		many := NewOp(func(img *fsm.Image, env *controller.Env, keys []string) controller.Decision[string] {
			d := putMany(img, env, keys)
			for _, b := range d.Batches {
				b.Reason.Text = strings.Repeat("x", 700<<10)
			}
			return d
		}, []string{"a", "b"}, nil, fsm.UUID{})
		n.step(Submitted{many})
		n.takeProposal()
		n.step(LeadershipHint{Leading: false, Term: 2})
		n.want(many, unknown)
	})
}

func TestEntryThatDoesNotFoldStopsTheLeader(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	op := putOp("a")
	n.step(Submitted{op})
	n.answer(n.takeProposal(), Answer{Result: fsm.Result{Outcome: fsm.Broken, Image: n.img, Err: errors.New("a misfit")}})
	if !errors.Is(n.halted, ErrBroken) {
		t.Fatalf("halted by %v", n.halted)
	}
	n.want(op, unknown)
}

func TestDifferentResultEndsTheClaim(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	op := putOp("a")
	n.step(Submitted{op})
	p := n.takeProposal()
	res := n.apply(p)
	res.Image = genesis(t)
	n.answer(p, Answer{Result: res})
	n.want(op, done) // it is committed, whatever else is wrong
	if n.core.phase == Open {
		t.Fatal("it goes on deciding on a tip that nobody else has")
	}
}
