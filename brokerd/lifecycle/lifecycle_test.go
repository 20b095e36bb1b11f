package lifecycle

import "testing"

func TestBrokerWantsToBeFencedUntilItIsReady(t *testing.T) {
	l := New()
	if !l.MustRegister() {
		t.Fatal("a new process must register")
	}
	l = l.Registered(7)
	if l.MustRegister() || !l.Says().WantFence {
		t.Fatalf("registered: %+v says %+v", l, l.Says())
	}
	if l = l.CaughtUp(); l.State != StateRecovery || !l.Says().WantFence || l.Eager() {
		t.Fatalf("caught up: %+v says %+v", l, l.Says())
	}
	if l = l.NowReady(); l.Says().WantFence || !l.Eager() {
		t.Fatalf("ready: %+v says %+v", l, l.Says())
	}
	if l = l.Answered(true, false); l.State != StateRecovery {
		t.Fatalf("still fenced: %v", l.State)
	}
	if l = l.Answered(false, false); l.State != StateRunning || l.Eager() {
		t.Fatalf("unfenced: %+v", l)
	}
}

func TestReadyBeforeCaughtUpStaysFenced(t *testing.T) {
	l := New().Registered(7).NowReady()
	if !l.Says().WantFence {
		t.Fatal("asks to be unfenced before its image holds its registration")
	}
	if l = l.Answered(false, false); l.State != StateStarting {
		t.Fatalf("state %v", l.State)
	}
}

func TestStaleBrokerEpochRegistersAgain(t *testing.T) {
	l := New().Registered(7).CaughtUp().NowReady().Answered(false, false).Stale()
	if !l.MustRegister() || l.State != StateRecovery {
		t.Fatalf("%+v", l)
	}
	if l = l.Registered(9); l.MustRegister() || l.Says().WantFence {
		t.Fatalf("%+v says %+v", l, l.Says())
	}
}

func TestControlledShutdownWaitsForTheController(t *testing.T) {
	l := New().Registered(7).CaughtUp().NowReady().Answered(false, false).Stop()
	if l.State != StatePendingControlledShutdown || !l.Says().WantShutDown || l.Says().WantFence || !l.Eager() {
		t.Fatalf("%+v says %+v", l, l.Says())
	}
	if l = l.Answered(false, false); l.State != StatePendingControlledShutdown {
		t.Fatalf("let itself go: %v", l.State)
	}
	if l = l.Answered(true, true); l.State != StateShuttingDown || !l.Says().WantShutDown {
		t.Fatalf("%+v says %+v", l, l.Says())
	}
}

func TestStopOfAFencedBrokerWaitsForNobody(t *testing.T) {
	for _, l := range []Life{New(), New().Registered(7), New().Registered(7).CaughtUp().NowReady()} {
		if s := l.Stop(); s.State != StateShuttingDown || s.MustRegister() {
			t.Fatalf("%+v", s)
		}
	}
	if s := New().Registered(7).CaughtUp().NowReady().Answered(false, false).Stop().WaitedEnough(); s.State != StateShuttingDown {
		t.Fatalf("%+v", s)
	}
}
