package active

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

func TestClaimStandsAloneAndItsImageIsTheFirstTip(t *testing.T) {
	n := newNode(t)
	n.lead(5)
	p := n.takeProposal()
	env := n.envelope(p)
	if env.ControllerEpoch != nil || env.ClaimOffset != nil || env.FirstMetadataOffset != nil || env.DigestBefore != nil {
		t.Fatalf("the claim says where it lands: %v", env)
	}
	op := getOp("x")
	n.step(Submitted{op})
	n.wantUnanswered(op) // it waits for the claim
	// Somebody else's entry is applied before the claim: the first tip must have it.
	before := n.img
	n.anotherClaims(4)
	n.term = 5
	n.commit(p)
	tip := n.core.claim.renews
	if tip.claimOffset != n.img.ClaimOffset() || n.img.ClaimOffset() <= before.ClaimOffset()+1 {
		t.Fatalf("claim offset %d, image %d", tip.claimOffset, n.img.ClaimOffset())
	}
	n.wantUnanswered(op) // the claim was proposed before it was asked
	n.commit(n.takeProposal())
	n.want(op, done)
}

func TestNothingIsAnsweredBeforeItIsAppliedHere(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	write, read := putOp("a"), getOp("a")
	n.step(Submitted{write}, Submitted{read})
	refused := putOp("a")
	n.step(Submitted{refused})
	n.wantUnanswered(write, read, refused)
	p := n.takeProposal()
	n.wantUnanswered(write, read, refused)
	n.commit(p)
	out := n.want(write, done)
	if out.Reply != "put a" || out.MetadataOffset != n.img.AppliedOffset() {
		t.Fatalf("reply %+v at applied offset %d", out, n.img.AppliedOffset())
	}
	if n.want(read, done).Reply != true {
		t.Fatal("the read did not see the write that was decided before it")
	}
	n.wantUnanswered(refused) // it was asked when the entry was proposed already
	n.commit(n.takeProposal())
	n.want(refused, exists)
}

func TestRequestsThatArriveWhileAnEntryIsInFlightShareTheNext(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	first := putOp("first")
	n.step(Submitted{first})
	ops, events := putOps("k", 100)
	for _, ev := range events {
		n.step(ev)
	}
	if len(n.proposals) != 1 {
		t.Fatalf("%d entries in flight at depth 1", len(n.proposals))
	}
	n.commit(n.takeProposal())
	p := n.takeProposal()
	if got := len(n.envelope(p).GetBatches()); got != 100 {
		t.Fatalf("the next entry has %d batches, want 100", got)
	}
	n.commit(p)
	for _, op := range ops {
		n.want(op, done)
	}
}

func TestEntryIsBounded(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	big := func(img *fsm.Image, env *controller.Env, i int) controller.Decision[string] {
		b := setBatch(img, env, fmt.Sprintf("k%d", i))
		b.Reason.Text = strings.Repeat("x", 300<<10)
		return controller.Decision[string]{Batches: []*metadatav1.Batch{b}}
	}
	var ops []*Op
	var events []Event
	for i := range 8 {
		ops = append(ops, NewOp(big, i, nil, fsm.UUID{}))
		events = append(events, Submitted{ops[i]})
	}
	n.step(events...)
	entries := 0
	for len(n.proposals) > 0 {
		p := n.takeProposal()
		if len(p.Entry) > fsm.MaxEntryBytes {
			t.Fatalf("an entry has %d bytes", len(p.Entry))
		}
		entries++
		n.commit(p)
	}
	if entries != 3 { // three batches fit one entry
		t.Fatalf("%d entries, want 3", entries)
	}
	for _, op := range ops {
		n.want(op, done)
	}
}

func TestBatchThatNoEntryHoldsIsRefused(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	huge := func(img *fsm.Image, env *controller.Env, _ int) controller.Decision[string] {
		b := setBatch(img, env, "k")
		b.Reason.Text = strings.Repeat("x", fsm.MaxEntryBytes)
		return controller.Decision[string]{Batches: []*metadatav1.Batch{b}}
	}
	op := NewOp(huge, 0, nil, fsm.UUID{})
	n.step(Submitted{op})
	if len(n.proposals) != 1 || !n.proposals[0].Claim {
		t.Fatal("it was proposed")
	}
	n.commit(n.takeProposal())
	n.want(op, controllerv1.ErrorCode_ERROR_CODE_POLICY_VIOLATION)
}

func TestBytesInFlightAreBounded(t *testing.T) {
	n := newNode(t, withDepth(1000))
	n.claimed(1)
	big := func(img *fsm.Image, env *controller.Env, i int) controller.Decision[string] {
		b := setBatch(img, env, fmt.Sprintf("k%d", i))
		b.Reason.Text = strings.Repeat("x", 900<<10)
		return controller.Decision[string]{Batches: []*metadatav1.Batch{b}}
	}
	for i := range 40 {
		n.step(Submitted{NewOp(big, i, nil, fsm.UUID{})})
	}
	total := 0
	for _, p := range n.proposals {
		total += len(p.Entry)
	}
	if total > MaxInFlightBytes || len(n.proposals) < 10 {
		t.Fatalf("%d entries of %d bytes in flight", len(n.proposals), total)
	}
	for len(n.proposals) > 0 {
		n.commit(n.takeProposal())
	}
	if len(n.answers) != 40 {
		t.Fatalf("%d of 40 answered", len(n.answers))
	}
}

func TestWrongDecisionFailsOneRequestOnly(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	misfit := NewOp(func(img *fsm.Image, env *controller.Env, _ int) controller.Decision[string] {
		b := setBatch(img, env, "")
		return controller.Decision[string]{Batches: []*metadatav1.Batch{setBatch(img, env, "half"), b}}
	}, 0, nil, fsm.UUID{})
	panics := NewOp(func(*fsm.Image, *controller.Env, int) controller.Decision[string] { panic("a bug") }, 0, nil, fsm.UUID{})
	good := putOp("good")
	n.step(Submitted{misfit}, Submitted{panics}, Submitted{good})
	env := n.envelope(n.proposals[0])
	if len(env.GetBatches()) != 1 {
		t.Fatalf("%d batches were proposed, want the good one", len(env.GetBatches()))
	}
	n.commit(n.takeProposal())
	n.want(misfit, ourFault)
	n.want(panics, ourFault)
	n.want(good, done)
	if n.has("half") {
		t.Fatal("half of the misfit took effect")
	}
	if n.core.counts.Misfits != 2 || len(n.notes) < 3 {
		t.Fatalf("misfits %d, notes %v", n.core.counts.Misfits, n.notes)
	}
}

func TestDepthKeepsOrder(t *testing.T) {
	n := newNode(t, withDepth(4))
	n.claimed(1)
	ops, events := putOps("k", 6)
	for _, ev := range events {
		n.step(ev)
	}
	if len(n.proposals) != 4 {
		t.Fatalf("%d entries in flight, want 4", len(n.proposals))
	}
	last := n.img.NextOffset()
	for len(n.proposals) > 0 {
		p := n.takeProposal()
		if first := n.envelope(p).GetFirstMetadataOffset(); first != last {
			t.Fatalf("entry begins at %d, want %d", first, last)
		}
		res := n.commit(p)
		last = res.Image.NextOffset()
	}
	for _, op := range ops {
		n.want(op, done)
	}
}

func TestAnswersMayArriveOutOfOrder(t *testing.T) {
	n := newNode(t, withDepth(3))
	n.claimed(1)
	ops, events := putOps("k", 3)
	for _, ev := range events {
		n.step(ev)
	}
	var results []fsm.Result
	var taken []Propose
	for len(n.proposals) > 0 {
		p := n.takeProposal()
		taken = append(taken, p)
		results = append(results, n.apply(p))
	}
	n.answer(taken[2], Answer{Result: results[2]})
	for _, op := range ops { // what stands before an applied entry was applied
		n.want(op, done)
	}
	n.answer(taken[0], Answer{Result: results[0]})
	n.answer(taken[1], Answer{Result: results[1]})
	if n.core.phase != Open {
		t.Fatal("late answers ended the claim")
	}
}

func TestDeadlineInTheQueueLeavesNothing(t *testing.T) {
	n := newNode(t)
	n.lead(1) // the claim is under way, so requests wait
	op := putOp("a")
	n.step(Submitted{op})
	if !op.withdraw() {
		t.Fatal("it was decided without a claim")
	}
	n.step(OpDeadline{op})
	n.commit(n.takeProposal())
	if len(n.proposals) != 0 {
		t.Fatal("a withdrawn request was decided")
	}
	if ops, bytes := n.core.QueueLen(); ops != 0 || bytes != 0 {
		t.Fatalf("queue holds %d requests of %d bytes", ops, bytes)
	}
}

func TestRetryWithTheSameRequestIDGetsTheFirstAnswer(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	id := fsm.UUID{7}
	retry := func() *Op { return NewOp(put, "a", nil, id) }
	first, second, third := retry(), retry(), retry()
	n.step(Submitted{first})
	n.step(Submitted{second}) // while the first is in flight
	n.commit(n.takeProposal())
	n.step(Submitted{third}) // after it was answered
	want := n.want(first, done)
	for _, op := range []*Op{second, third} {
		if got := n.want(op, done); got.Reply != want.Reply || got.MetadataOffset != want.MetadataOffset {
			t.Fatalf("retry got %+v, first attempt %+v", got, want)
		}
	}
	if len(n.proposals) != 0 {
		t.Fatal("the retry was decided again")
	}
	type question string // the same id in another kind of request is another request
	other := NewOp(func(img *fsm.Image, env *controller.Env, q question) controller.Decision[bool] {
		return get(img, env, string(q))
	}, question("a"), nil, id)
	n.step(Submitted{other})
	n.commit(n.takeProposal())
	if n.want(other, done).Reply != true {
		t.Fatal("a request got another one's answer")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	var m memory
	for i := range 2*maxRemembered + 10 {
		m.add(opKey{id: fsm.UUID{byte(i), byte(i >> 8), byte(i >> 16), 1}}, &decided{})
	}
	if len(m.byKey) != maxRemembered || len(m.order) != maxRemembered {
		t.Fatalf("%d requests are remembered, want %d", len(m.byKey), maxRemembered)
	}
}

func TestBarriersShareOneEntry(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	a, b := NewBarrier(), NewBarrier()
	n.step(Submitted{a}, Submitted{b})
	n.wantUnanswered(a, b)
	late := NewBarrier()
	n.step(Submitted{late}) // after the entry was proposed
	n.commit(n.takeProposal())
	for _, op := range []*Op{a, b} {
		if n.want(op, done).Image == nil {
			t.Fatal("no image")
		}
	}
	n.wantUnanswered(late)
	n.commit(n.takeProposal())
	n.want(late, done)

	write, with := putOp("a"), NewBarrier()
	n.step(Submitted{with}, Submitted{write})
	if len(n.proposals) != 1 || n.proposals[0].Claim {
		t.Fatal("the barrier does not share the entry of the write")
	}
	n.commit(n.takeProposal())
	if _, ok := n.want(with, done).Image.ConfigValue(brokerDefaults, "a"); !ok {
		t.Fatal("the barrier's image is not that of its entry")
	}
}

func TestBarrierOfALostClaim(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	op := NewBarrier()
	n.step(Submitted{op})
	n.answer(n.takeProposal(), Answer{Err: ErrUnknown})
	n.want(op, tryAgain)
}

func TestFailedClaimsAreSpaced(t *testing.T) {
	n := newNode(t)
	n.lead(1)
	var last time.Duration
	for i := range 12 {
		n.answer(n.takeProposal(), Answer{Err: ErrNotAppended})
		wait := time.Duration(0)
		if n.core.phase == Idle {
			wait = n.core.NextTick().Sub(n.now)
		}
		if i == 0 && wait > 0 {
			t.Fatalf("the first repetition waits %s", wait)
		}
		if wait < last || wait > claimBackoffMax {
			t.Fatalf("pause %s after %s", wait, last)
		}
		last = wait
		if wait > 0 && len(n.proposals) > 0 {
			t.Fatal("claimed before the pause was over")
		}
		n.now = n.now.Add(wait)
		n.step(Tick{})
	}
	if last != claimBackoffMax {
		t.Fatalf("pause grew to %s", last)
	}
}

func TestShutdownAnswersEverybody(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	inFlight, queued, barrier := putOp("a"), putOp("b"), NewBarrier()
	n.step(Submitted{inFlight})
	n.step(Submitted{queued}, Submitted{barrier})
	for _, e := range n.core.Shutdown() {
		s := e.(Settle)
		n.answers[s.Op] = s.Outcome
	}
	n.want(inFlight, unknown)
	n.want(queued, tryAgain)
	n.want(barrier, tryAgain)
}

// TestAnEntryOfAnotherLineageIsNobodys: a dropped entry that happens to have the claim and the offset of one of ours does
// not tell what became of ours (I21).
func TestAnEntryOfAnotherLineageIsNobodys(t *testing.T) {
	n := newNode(t)
	n.claimed(5)
	op := putOp("a")
	n.step(Submitted{op})
	ours := n.takeProposal()
	n.answer(ours, Answer{Err: ErrUnknown})
	foreign := n.envelope(ours)
	foreign.Lineage = fsm.LineageID{Number: 1, UUID: fsm.UUID{0xff}}.Proto()
	if res := n.applyEnvelope(foreign); res.Outcome != fsm.Dropped {
		t.Fatalf("an entry of another lineage is %s", res.Outcome)
	}
	n.wantUnanswered(op)
	n.apply(ours)
	n.want(op, done)
}
