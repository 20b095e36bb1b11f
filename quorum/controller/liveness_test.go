package controller

import (
	"math"
	"testing"
	"time"
)

// TestSessionsExpireStrictlyAfterTheTimeout, and never by a clock that goes back.
func TestSessionsExpireStrictlyAfterTheTimeout(t *testing.T) {
	w := newWorld(t)
	b := w.up(1)
	now := w.env.Now
	w.liveness.Touch(1, b.Epoch, 5, now)
	for _, step := range []struct {
		after   time.Duration
		expired bool
	}{{0, false}, {9 * time.Second, false}, {9*time.Second + 1, true}, {-time.Hour, false}} {
		at := now.Add(step.after)
		if got := len(w.liveness.Expired(w.img, at)) == 1; got != step.expired {
			t.Errorf("after %s: expired %t, want %t", step.after, got, step.expired)
		}
		if got := w.liveness.Alive(1, b.Epoch, at); got == step.expired {
			t.Errorf("after %s: alive %t, want %t", step.after, got, !step.expired)
		}
	}
	if w.liveness.Alive(1, b.Epoch+1, now) || w.liveness.Alive(2, b.Epoch, now) {
		t.Error("a session is alive that nobody opened")
	}
}

// TestAClaimGrantsEveryBrokerASession, and knows no reported offset.
func TestAClaimGrantsEveryBrokerASession(t *testing.T) {
	w := newWorld(t)
	w.up(1)
	fenced := w.up(2)
	tell(w, FenceBroker(w.img, w.env, 2, reason("test", "test")), nil)
	later := w.env.Now.Add(time.Hour)
	w.liveness.Reset(w.img, later)
	if got := w.liveness.Expired(w.img, later.Add(9*time.Second)); len(got) != 0 {
		t.Errorf("expired %v within a session of the claim", got)
	}
	if got := w.liveness.Expired(w.img, later.Add(10*time.Second)); len(got) != 1 || got[0] != 1 {
		t.Errorf("expired %v, want broker 1 alone: fenced ones are not tracked", got)
	}
	if w.liveness.Alive(2, fenced.Epoch, later) {
		t.Error("a claim opened a session for a fenced broker")
	}
	if got := w.liveness.LowestActiveOffset(w.img); got != unknownOffset {
		t.Errorf("lowest active offset %d, want unknown", got)
	}
}

// TestAStallOfTheControllerIsNotTheBrokersFault: after a pause of our own everybody gets a full session.
func TestAStallOfTheControllerIsNotTheBrokersFault(t *testing.T) {
	w := newWorld(t)
	w.up(1)
	resumed := w.env.Now.Add(time.Minute)
	w.liveness.Grant(resumed)
	if got := w.liveness.Expired(w.img, resumed.Add(9*time.Second)); len(got) != 0 {
		t.Errorf("expired %v", got)
	}
	if got := w.liveness.Expired(w.img, resumed.Add(10*time.Second)); len(got) != 1 {
		t.Errorf("expired %v, want broker 1", got)
	}
}

// TestABrokerNeverHeardExpiresASessionAfterTheClaim: an unfenced broker cannot hide from expiry.
func TestABrokerNeverHeardExpiresASessionAfterTheClaim(t *testing.T) {
	w := newWorld(t)
	w.liveness.Reset(w.img, w.env.Now)
	w.up(1)
	w.liveness.Forget(1)
	if got := w.liveness.Expired(w.img, w.env.Now.Add(9*time.Second)); len(got) != 0 {
		t.Errorf("expired %v within a session", got)
	}
	if got := w.liveness.Expired(w.img, w.env.Now.Add(10*time.Second)); len(got) != 1 {
		t.Errorf("expired %v, want broker 1", got)
	}
}

// TestControlledShutdownOffsetIsSetOnce, and lasts until the broker is fenced or starts again.
func TestControlledShutdownOffsetIsSetOnce(t *testing.T) {
	l := NewLiveness(time.Second)
	now := time.Unix(0, 0)
	l.SetControlledShutdownOffset(1, 5)
	if _, ok := l.ControlledShutdownOffset(1); ok {
		t.Error("an offset is kept for a broker that was never heard")
	}
	l.Touch(1, 10, 0, now)
	l.SetControlledShutdownOffset(1, 5)
	l.SetControlledShutdownOffset(1, 6)
	if got, ok := l.ControlledShutdownOffset(1); !ok || got != 5 {
		t.Errorf("offset %d %t, want 5", got, ok)
	}
	l.ClearControlledShutdownOffset(1)
	if _, ok := l.ControlledShutdownOffset(1); ok {
		t.Error("the offset outlives the fencing")
	}
	l.SetControlledShutdownOffset(1, 7)
	l.Touch(1, 11, 0, now)
	if _, ok := l.ControlledShutdownOffset(1); ok {
		t.Error("the offset outlives the incarnation")
	}
}

// TestLowestActiveOffsetLooksAtActiveBrokersOnly: neither fenced ones nor those that shut down count.
func TestLowestActiveOffsetLooksAtActiveBrokersOnly(t *testing.T) {
	w := newWorld(t)
	if got := w.liveness.LowestActiveOffset(w.img); got != math.MaxInt64 {
		t.Errorf("without brokers: %d", got)
	}
	for id := range int32(4) {
		w.up(id)
	}
	for id := range int32(4) {
		b, _ := w.img.Broker(id)
		w.liveness.Touch(id, b.Epoch, 100+int64(id), w.env.Now)
	}
	w.setState(0, stateFenced, false)
	w.setState(1, stateControlledShutdown, false)
	if got := w.liveness.LowestActiveOffset(w.img); got != 102 {
		t.Errorf("lowest active offset %d, want 102", got)
	}
	b, _ := w.img.Broker(3)
	w.liveness.Touch(3, b.Epoch, 50, w.env.Now)
	if got := w.liveness.LowestActiveOffset(w.img); got != 102 {
		t.Errorf("lowest active offset %d: an older report came late and counted", got)
	}
}

// TestCloneIsIndependent: a decision reads the copy while sessions write the original.
func TestCloneIsIndependent(t *testing.T) {
	l := NewLiveness(time.Second)
	now := time.Unix(0, 0)
	l.Touch(1, 1, 1, now)
	c := l.Clone()
	l.Touch(1, 1, 2, now.Add(time.Second))
	l.Touch(2, 1, 1, now)
	if last, ok := c.LastContact(1); !ok || !last.Equal(now) {
		t.Errorf("the copy changed to %v", last)
	}
	if _, ok := c.LastContact(2); ok {
		t.Error("the copy got a broker")
	}
}
