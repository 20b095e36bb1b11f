package active

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

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
	if n.core.tip.claimOffset != n.img.ClaimOffset() || n.img.ClaimOffset() <= before.ClaimOffset()+1 {
		t.Fatalf("claim offset %d, image %d", n.core.tip.claimOffset, n.img.ClaimOffset())
	}
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
	n.want(op, controllerv1.ErrorCode_ERROR_CODE_POLICY_VIOLATION)
	if len(n.proposals) != 0 {
		t.Fatal("it was proposed")
	}
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

// registerBroker makes broker id known and unfenced, by the controller's own decisions.
func (n *node) registerBroker(id int32) *fsm.Broker {
	n.t.Helper()
	reg := NewOp(controller.RegisterBroker, &controllerv1.RegisterRequest{
		BrokerId: id, IncarnationId: fsm.UUID{byte(id), 1}.Bytes(), PreviousBrokerEpoch: -1,
		Directories: [][]byte{fsm.UUID{byte(id), 2}.Bytes()},
		Listeners:   []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "localhost", Port: 9092}},
	}, nil, fsm.UUID{})
	n.step(Submitted{reg})
	n.commit(n.takeProposal())
	n.want(reg, done)
	b, _ := n.img.Broker(id)
	n.step(Contacts{[]Contact{{BrokerID: id, BrokerEpoch: b.Epoch, MetadataOffset: n.img.AppliedOffset(), At: n.now}}})
	beat := NewOp(controller.Heartbeat, &controllerv1.SessionRequest{BrokerId: id, BrokerEpoch: b.Epoch, MetadataOffset: n.img.AppliedOffset()}, nil, fsm.UUID{})
	n.step(Submitted{beat})
	n.commit(n.takeProposal())
	n.want(beat, done)
	b, _ = n.img.Broker(id)
	if b.Fenced {
		n.t.Fatalf("broker %d is fenced", id)
	}
	return b
}

// run lets time pass in ticks; brokers that live heartbeat at each.
func (n *node) run(d time.Duration, alive ...*fsm.Broker) {
	n.t.Helper()
	for end := n.now.Add(d); n.now.Before(end); {
		n.now = n.core.NextTick()
		var contacts []Contact
		for _, b := range alive {
			contacts = append(contacts, Contact{BrokerID: b.ID, BrokerEpoch: b.Epoch, MetadataOffset: n.img.AppliedOffset(), At: n.now})
		}
		n.step(Contacts{contacts}, Tick{})
		for len(n.proposals) > 0 {
			n.commit(n.takeProposal())
		}
	}
}

func TestSilentBrokersAreFencedTogether(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	alive, silent1, silent2 := n.registerBroker(1), n.registerBroker(2), n.registerBroker(3)
	n.run(8*time.Second, alive)
	for _, b := range []*fsm.Broker{silent1, silent2} {
		if now, _ := n.img.Broker(b.ID); now.Fenced {
			t.Fatalf("broker %d was fenced before its session was over", b.ID)
		}
	}
	entries := n.core.counts.Entries
	n.run(3*time.Second, alive)
	for _, b := range []*fsm.Broker{silent1, silent2} {
		if now, _ := n.img.Broker(b.ID); !now.Fenced {
			t.Fatalf("broker %d is not fenced", b.ID)
		}
	}
	if b, _ := n.img.Broker(alive.ID); b.Fenced {
		t.Fatal("a broker that heartbeats was fenced")
	}
	if got := n.core.counts.Entries - entries; got != 1 {
		t.Fatalf("%d entries to fence those who expired at one tick", got)
	}
}

func TestNewClaimGrantsAFullSession(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	b := n.registerBroker(1)
	n.run(8 * time.Second)
	n.claimed(2)
	n.run(8 * time.Second)
	if now, _ := n.img.Broker(b.ID); now.Fenced {
		t.Fatal("the session was counted from before the claim")
	}
	n.run(3 * time.Second)
	if now, _ := n.img.Broker(b.ID); !now.Fenced {
		t.Fatal("the silent broker is not fenced")
	}
}

func TestStallOfTheProcessGrantsAFullSession(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	b := n.registerBroker(1)
	n.now = n.now.Add(time.Minute) // nothing ran, so no heartbeat was read either
	n.step(Tick{})
	for len(n.proposals) > 0 {
		n.commit(n.takeProposal())
	}
	if now, _ := n.img.Broker(b.ID); now.Fenced {
		t.Fatal("a broker was fenced for our own stall")
	}
}

func TestClaimRegistersItsNode(t *testing.T) {
	reg := &metadatav1.ControllerRegistered{
		NodeId: 101, DirectoryId: fsm.UUID{3}.Bytes(), IncarnationId: fsm.UUID{4}.Bytes(),
		Listeners: []*metadatav1.Listener{{Name: "CONTROLLER", Host: "localhost", Port: 9093}},
	}
	n := newNode(t, func(c *Config) { c.Registration = proto.CloneOf(reg) })
	n.claimed(1)
	n.commit(n.takeProposal())
	if _, ok := n.img.Controller(101); !ok {
		t.Fatal("the node is not registered")
	}
	n.claimed(2)
	if len(n.proposals) != 0 {
		t.Fatal("it was registered twice")
	}
}
