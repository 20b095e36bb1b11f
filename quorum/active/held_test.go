package active

import (
	"fmt"
	"testing"
	"time"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// withKey makes a node that leads and whose image has a key.
func withKey(t *testing.T, key string, mutate ...func(*Config)) *node {
	t.Helper()
	n := newNode(t, mutate...)
	n.claimed(1)
	op := putOp(key)
	n.step(Submitted{op})
	n.commit(n.takeProposal())
	n.want(op, done)
	return n
}

// TestRefusalsOfAnIdleControllerShareOneRenewal: nothing is written, so one claim is repeated for all of them.
func TestRefusalsOfAnIdleControllerShareOneRenewal(t *testing.T) {
	n := withKey(t, "a")
	refused, read := putOp("a"), getOp("b")
	n.step(Submitted{refused}, Submitted{read})
	n.wantUnanswered(refused, read)
	if len(n.proposals) != 1 || !n.proposals[0].Claim {
		t.Fatalf("%d proposals, want one claim", len(n.proposals))
	}
	if s := n.core.Status(); !s.Active {
		t.Fatal("the node does not count as active while it renews its claim")
	}
	n.commit(n.takeProposal())
	n.want(refused, exists)
	if n.want(read, done).Reply != false {
		t.Fatal("the read saw what is not there")
	}
	if len(n.proposals) != 0 || n.core.counts.Claims != 1 || n.core.counts.Renewals != 1 {
		t.Fatalf("%d proposals left, %d claims, %d renewals", len(n.proposals), n.core.counts.Claims, n.core.counts.Renewals)
	}
}

// TestARefusalSharesTheNextEntry: where something is written there is no entry for the refusals. The one in flight is
// not enough, it may have been committed before they were asked.
func TestARefusalSharesTheNextEntry(t *testing.T) {
	for _, depth := range []int{1, 2} {
		t.Run(fmt.Sprintf("depth %d", depth), func(t *testing.T) {
			n := withKey(t, "a", withDepth(depth))
			first, refused, second := putOp("b"), putOp("a"), putOp("c")
			n.step(Submitted{first})
			n.step(Submitted{refused})
			n.step(Submitted{second})
			n.commit(n.takeProposal())
			n.want(first, done)
			n.wantUnanswered(refused, second)
			p := n.takeProposal()
			if p.Claim {
				t.Fatal("the claim is renewed though there is an entry to wait for")
			}
			n.commit(p)
			n.want(refused, exists)
			n.want(second, done)
			if len(n.proposals) != 0 {
				t.Fatal("an entry was made for nobody")
			}
		})
	}
}

func TestARefusalBehindAWriteOfTheSameStepWaitsForItsEntryOnly(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	write, refused := putOp("a"), putOp("a")
	n.step(Submitted{write}, Submitted{refused})
	n.commit(n.takeProposal())
	n.want(write, done)
	n.want(refused, exists)
	if len(n.proposals) != 0 {
		t.Fatal("an entry was made for nobody")
	}
}

func TestAPromptAnswerWaitsOnlyForWhatItWasDecidedOn(t *testing.T) {
	n := withKey(t, "a")
	idle := putOp("a").Prompt()
	n.step(Submitted{idle})
	n.want(idle, exists)
	write, busy := putOp("b"), putOp("b").Prompt()
	n.step(Submitted{write})
	n.step(Submitted{busy})
	n.wantUnanswered(busy)
	n.commit(n.takeProposal())
	n.want(busy, exists)
	if len(n.proposals) != 0 {
		t.Fatal("an entry was made for nobody")
	}
}

// TestADeposedControllerRefusesNothing: it was frozen, another node led and wrote, and now it answers what waited at its
// port (I21).
func TestADeposedControllerRefusesNothing(t *testing.T) {
	n := withKey(t, "a")
	refused := putOp("a")
	n.step(Submitted{refused})
	renewal := n.takeProposal()
	t.Run("another claim is seen", func(t *testing.T) {
		n.anotherClaims(2)
		n.want(refused, tryAgain)
		if n.core.Status().Active {
			t.Fatal("it takes itself for active under another node's claim")
		}
	})
	t.Run("and the renewal lands behind it", func(t *testing.T) {
		n.term = 3
		n.commit(renewal)
		if n.core.phase != Open || n.core.counts.Claims != 2 || n.core.counts.Renewals != 0 {
			t.Fatalf("phase %s, %d claims, %d renewals", n.core.phase, n.core.counts.Claims, n.core.counts.Renewals)
		}
	})
}

// TestARenewalThatLandsBehindAnotherClaimIsANewClaim: its answer comes before the other claim was seen to be applied.
func TestARenewalThatLandsBehindAnotherClaimIsANewClaim(t *testing.T) {
	n := withKey(t, "a")
	b := n.registerBroker(1)
	n.run(8*time.Second, b)
	id := fsm.UUID{7}
	first := NewOp(put, "b", nil, id)
	n.step(Submitted{first})
	n.commit(n.takeProposal())
	refused := putOp("a")
	n.step(Submitted{refused})
	renewal := n.takeProposal()
	n.term = 2
	other := fsm.Apply(n.img, fsm.Entry{Envelope: foreignClaim(n.img, 1), ControllerEpoch: n.img.EpochBase() + 2})
	n.img = other.Image
	n.term = 3
	res := fsm.Apply(n.img, fsm.Entry{Envelope: n.envelope(renewal), ControllerEpoch: n.img.EpochBase() + 3})
	n.img = res.Image
	n.answer(renewal, Answer{Result: res})
	n.want(refused, tryAgain)
	retry := NewOp(put, "b", nil, id)
	n.step(Submitted{retry})
	n.commit(n.takeProposal())
	n.want(retry, exists) // what it knew of the first attempt ended with the claim
	n.run(8*time.Second, b)
	if now, _ := n.img.Broker(1); now.Fenced {
		t.Fatal("a broker was fenced for silence before the claim")
	}
}

// TestARetryOverARenewalGetsTheFirstAnswer: what others ask must not make a retry look like a second request.
func TestARetryOverARenewalGetsTheFirstAnswer(t *testing.T) {
	n := newNode(t)
	n.claimed(1)
	id := fsm.UUID{7}
	first := NewOp(put, "a", nil, id)
	n.step(Submitted{first})
	n.commit(n.takeProposal())
	refused := putOp("a")
	n.step(Submitted{refused})
	n.commit(n.takeProposal())
	n.want(refused, exists)
	retry := NewOp(put, "a", nil, id)
	n.step(Submitted{retry})
	if got, want := n.want(retry, done), n.want(first, done); got.Reply != want.Reply {
		t.Fatalf("the retry got %v, the first attempt %v", got.Reply, want.Reply)
	}
}

func TestHeldAnswersOfAClaimThatEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*node)
	}{
		{"leadership is lost", func(n *node) { n.step(LeadershipHint{Term: 2}) }},
		{"the renewal is refused", func(n *node) { n.answer(n.takeProposal(), Answer{Err: ErrNotAppended}) }},
		{"the renewal is lost", func(n *node) { n.answer(n.takeProposal(), Answer{Err: ErrUnknown}) }},
		{"the image is restored", func(n *node) { n.step(Restored{}) }},
		{"the node stops", func(n *node) {
			for _, e := range n.core.Shutdown() {
				s := e.(Settle)
				n.answers[s.Op] = s.Outcome
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := withKey(t, "a")
			renewing := putOp("a")
			n.step(Submitted{renewing})
			c.end(n)
			n.want(renewing, tryAgain)
		})
		t.Run(c.name+", with an entry in flight", func(t *testing.T) {
			n := withKey(t, "a", withDepth(2))
			write, held := putOp("b"), putOp("a")
			n.step(Submitted{write})
			n.step(Submitted{held})
			n.wantUnanswered(held)
			c.end(n)
			n.want(held, tryAgain)
		})
	}
}

// TestDutiesAreDoneBetweenRenewals: refusals without end must not keep the controller from its clock.
func TestDutiesAreDoneBetweenRenewals(t *testing.T) {
	n := withKey(t, "a")
	b := n.registerBroker(1)
	refused := putOp("a")
	n.step(Submitted{refused})
	for range 200 {
		n.now = n.now.Add(100 * time.Millisecond)
		next := putOp("a")
		n.step(Submitted{next}) // it waits for the claim in flight, and then has it renewed
		if at := n.core.NextTick(); at.IsZero() {
			t.Fatal("no tick is wanted while the claim is renewed")
		} else if !n.now.Before(at) {
			n.step(Tick{})
		}
		n.commit(n.takeProposal())
		n.want(refused, exists)
		refused = next
	}
	if now, _ := n.img.Broker(b.ID); !now.Fenced {
		t.Fatal("a broker that was silent for 20 s is not fenced")
	}
}

// TestHeldAnswersCountAsQueued: the queue's bound holds for them too (I20).
func TestHeldAnswersCountAsQueued(t *testing.T) {
	n := withKey(t, "a", withDepth(2))
	n.step(Submitted{putOp("b")})
	sized := func() *Op {
		return NewOp(func(*fsm.Image, *controller.Env, *metadatav1.Batch) controller.Decision[string] {
			return controller.Decision[string]{}
		}, &metadatav1.Batch{RequestId: make([]byte, 100)}, nil, fsm.UUID{})
	}
	for range 10 {
		n.step(Submitted{sized()})
	}
	if ops, bytes := n.core.QueueLen(); ops != 10 || bytes < 1000 {
		t.Fatalf("%d requests of %d bytes are queued", ops, bytes)
	}
	n.commit(n.takeProposal())
	if ops, bytes := n.core.QueueLen(); n.core.phase != Claiming || ops != 10 || bytes < 1000 {
		t.Fatalf("%d requests of %d bytes are queued while the claim is renewed", ops, bytes)
	}
	n.commit(n.takeProposal())
	if ops, bytes := n.core.QueueLen(); ops != 0 || bytes != 0 {
		t.Fatalf("%d requests of %d bytes are queued", ops, bytes)
	}
}
