package active

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/controller"
)

// answerProbes answers every probe in flight.
func (n *node) answerProbes(result controller.ProbeResult) (answered int) {
	n.t.Helper()
	for len(n.probes) > 0 {
		p := n.probes[0]
		n.probes = n.probes[1:]
		answered++
		n.step(ProbeAnswered{ID: p.ID, BrokerID: p.BrokerID, Result: result, Remote: p.Address})
	}
	return answered
}

// pass lets time pass until the Core wants a tick, at most d.
func (n *node) pass(d time.Duration) {
	n.t.Helper()
	end := n.now.Add(d)
	for next := n.core.NextTick(); !next.IsZero() && !next.After(end); next = n.core.NextTick() {
		n.now = next
		n.step(Tick{})
	}
	n.now = end
}

func (n *node) closes(b *fsm.Broker) {
	n.t.Helper()
	n.step(Closings{[]Closing{{BrokerID: b.ID, BrokerEpoch: b.Epoch, At: n.now}}})
}

func (n *node) fenced(id int32) bool {
	b, ok := n.img.Broker(id)
	return ok && b.Fenced
}

// watched is an active node that has connected to three brokers.
func watched(t *testing.T) (*node, []*fsm.Broker) {
	n := newNode(t)
	n.claimed(1)
	brokers := []*fsm.Broker{n.registerBroker(1), n.registerBroker(2), n.registerBroker(3)}
	n.step(BrokersChanged{})
	if got := n.answerProbes(controller.ProbeAccepted); got != 3 {
		t.Fatalf("%d brokers were connected to", got)
	}
	return n, brokers
}

func TestAClosedSessionIsProbedAndARefusalFences(t *testing.T) {
	n, brokers := watched(t)
	n.now = n.now.Add(time.Millisecond)
	n.closes(brokers[1])
	if len(n.probes) != 0 {
		t.Fatal("the probe did not wait for the others of a herd")
	}
	n.pass(100 * time.Millisecond)
	if len(n.probes) != 1 || n.probes[0].BrokerID != 2 || n.probes[0].Timeout != probeTimeout {
		t.Fatalf("probes %+v", n.probes)
	}
	n.answerProbes(controller.ProbeRefused)
	env := n.envelope(n.proposals[0])
	if code := env.GetBatches()[0].GetReason().GetCode(); code != "probe_refused" {
		t.Fatalf("reason %s", code)
	}
	n.commit(n.takeProposal())
	if !n.fenced(2) || n.fenced(1) || n.fenced(3) {
		t.Fatal("broker 2 alone should be fenced")
	}
	if c := n.core.Status().Counts; c.Probes != [controller.NumProbeResults]uint64{controller.ProbeAccepted: 3, controller.ProbeRefused: 1} || c.Fencings[FencedProbeRefused] != 1 {
		t.Fatalf("counts %+v", c)
	}
}

func TestAFollowerConnectsToBrokersSoThatItKnowsThemWhenItClaims(t *testing.T) {
	first, brokers := watched(t)
	n := newNode(t)
	n.img, n.now, n.term = first.img, first.now, 1
	n.step(BrokersChanged{})
	if got := n.answerProbes(controller.ProbeAccepted); got != 3 {
		t.Fatalf("a node that does not lead connected to %d brokers", got)
	}
	n.now = n.now.Add(time.Minute)
	n.claimed(2)
	n.now = n.now.Add(10 * time.Millisecond)
	n.step(Contacts{[]Contact{{BrokerID: 1, BrokerEpoch: brokers[0].Epoch, At: n.now}, {BrokerID: 3, BrokerEpoch: brokers[2].Epoch, At: n.now}}})
	n.pass(900 * time.Millisecond)
	if len(n.probes) != 0 {
		t.Fatalf("probes %+v within a second after the claim", n.probes)
	}
	n.pass(200 * time.Millisecond)
	if got := n.answerProbes(controller.ProbeRefused); got != 1 {
		t.Fatalf("%d silent brokers were probed", got)
	}
	n.commit(n.takeProposal())
	if !n.fenced(2) || n.fenced(1) || n.fenced(3) {
		t.Fatal("broker 2 alone should be fenced")
	}
}

func TestABarrierLosesNoClosing(t *testing.T) {
	n, brokers := watched(t)
	n.now = n.now.Add(time.Millisecond)
	n.step(Submitted{NewBarrier()})
	if s := n.core.Status(); s.Phase != Claiming {
		t.Fatalf("phase %s", s.Phase)
	}
	n.closes(brokers[1])
	n.commit(n.takeProposal())
	n.pass(100 * time.Millisecond)
	n.step(Submitted{NewBarrier()})
	n.answerProbes(controller.ProbeRefused) // while another barrier's claim is in flight
	n.commit(n.takeProposal())
	n.commit(n.takeProposal())
	if !n.fenced(2) {
		t.Fatal("broker 2 is not fenced")
	}
}

func TestALostClaimSuspectsNobody(t *testing.T) {
	n, brokers := watched(t)
	n.now = n.now.Add(time.Millisecond)
	n.closes(brokers[1])
	n.pass(100 * time.Millisecond)
	n.step(LeadershipHint{Term: 2})
	n.answerProbes(controller.ProbeRefused)
	n.pass(time.Second)
	n.claimed(3)
	n.answerProbes(controller.ProbeRefused)
	if len(n.proposals) != 0 {
		t.Fatalf("a suspicion of an earlier claim led to %v", n.envelope(n.proposals[0]))
	}
}

func TestAnAnswerIsTakenOnce(t *testing.T) {
	n, brokers := watched(t)
	n.now = n.now.Add(time.Millisecond)
	n.closes(brokers[1])
	n.pass(100 * time.Millisecond)
	p := n.probes[0]
	n.answerProbes(controller.ProbeTimedOut)
	n.step(ProbeAnswered{ID: p.ID, BrokerID: 2, Result: controller.ProbeRefused}, ProbeAnswered{ID: 99, BrokerID: 7, Result: -1})
	if len(n.proposals) != 0 {
		t.Fatal("the second answer was taken")
	}
}

func TestResultsOfADial(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, tc := range []struct {
		err  error
		want controller.ProbeResult
	}{
		{nil, controller.ProbeAccepted},
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), controller.ProbeRefused},
		{dial(os.NewSyscallError("connect", syscall.ETIMEDOUT)), controller.ProbeTimedOut},
		{dial(os.ErrDeadlineExceeded), controller.ProbeTimedOut},
		{fmt.Errorf("dial: %w", context.DeadlineExceeded), controller.ProbeTimedOut},
		{dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), controller.ProbeFailed},
		{dial(os.NewSyscallError("connect", syscall.ECONNRESET)), controller.ProbeFailed},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, controller.ProbeFailed},
		{errors.New("else"), controller.ProbeFailed},
	} {
		if got := probeResult(tc.err); got != tc.want {
			t.Errorf("%v is %s, want %s", tc.err, got, tc.want)
		}
	}
}
