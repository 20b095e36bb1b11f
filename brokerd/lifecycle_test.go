package brokerd

import "testing"

func TestBrokerWantsToBeFencedUntilItIsReady(t *testing.T) {
	l := newLifecycle()
	if !l.mustRegister() {
		t.Fatal("a new process must register")
	}
	l = l.registered(7)
	if l.mustRegister() || !l.says().wantFence {
		t.Fatalf("registered: %+v says %+v", l, l.says())
	}
	if l = l.caughtUp(); l.state != StateRecovery || !l.says().wantFence || l.eager() {
		t.Fatalf("caught up: %+v says %+v", l, l.says())
	}
	if l = l.nowReady(); l.says().wantFence || !l.eager() {
		t.Fatalf("ready: %+v says %+v", l, l.says())
	}
	if l = l.answered(true, false); l.state != StateRecovery {
		t.Fatalf("still fenced: %v", l.state)
	}
	if l = l.answered(false, false); l.state != StateRunning || l.eager() {
		t.Fatalf("unfenced: %+v", l)
	}
}

func TestReadyBeforeCaughtUpStaysFenced(t *testing.T) {
	l := newLifecycle().registered(7).nowReady()
	if !l.says().wantFence {
		t.Fatal("asks to be unfenced before its image holds its registration")
	}
	if l = l.answered(false, false); l.state != StateStarting {
		t.Fatalf("state %v", l.state)
	}
}

func TestStaleBrokerEpochRegistersAgain(t *testing.T) {
	l := newLifecycle().registered(7).caughtUp().nowReady().answered(false, false).stale()
	if !l.mustRegister() || l.state != StateRecovery {
		t.Fatalf("%+v", l)
	}
	if l = l.registered(9); l.mustRegister() || l.says().wantFence {
		t.Fatalf("%+v says %+v", l, l.says())
	}
}

func TestControlledShutdownWaitsForTheController(t *testing.T) {
	l := newLifecycle().registered(7).caughtUp().nowReady().answered(false, false).stop()
	if l.state != StatePendingControlledShutdown || !l.says().wantShutDown || l.says().wantFence || !l.eager() {
		t.Fatalf("%+v says %+v", l, l.says())
	}
	if l = l.answered(false, false); l.state != StatePendingControlledShutdown {
		t.Fatalf("let itself go: %v", l.state)
	}
	if l = l.answered(true, true); l.state != StateShuttingDown || !l.says().wantShutDown {
		t.Fatalf("%+v says %+v", l, l.says())
	}
}

func TestStopOfAFencedBrokerWaitsForNobody(t *testing.T) {
	for _, l := range []lifecycle{newLifecycle(), newLifecycle().registered(7), newLifecycle().registered(7).caughtUp().nowReady()} {
		if s := l.stop(); s.state != StateShuttingDown || s.mustRegister() {
			t.Fatalf("%+v", s)
		}
	}
	if s := newLifecycle().registered(7).caughtUp().nowReady().answered(false, false).stop().waitedEnough(); s.state != StateShuttingDown {
		t.Fatalf("%+v", s)
	}
}
