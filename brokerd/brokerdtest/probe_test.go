package brokerdtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/skiffmq/skiff/brokerd/brokerdtest"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
)

// soon is how long a killed broker may lead on: what settles a closed session, and a commit.
const soon = 200 * time.Millisecond

// fenced tells whether the quorum has a broker fenced.
func fenced(c *brokerdtest.Cluster, b *brokerdtest.Broker) bool {
	r, ok := c.Image().Broker(b.ID)
	return ok && r.Fenced
}

// awaitFenced returns how long it took until a broker was fenced.
func awaitFenced(c *brokerdtest.Cluster, b *brokerdtest.Broker) time.Duration {
	start := time.Now()
	c.Await(b.Name+" to be fenced", func() bool { return fenced(c, b) })
	return time.Since(start)
}

// counts are what the active controller has counted.
func counts(c *brokerdtest.Cluster) active.Counts {
	return c.Quorum.Active().Loop().Status().Counts
}

func TestAKilledBrokerIsFencedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 3, 3, nil)
		c.CreateTopic("t", 3, 3, nil)
		b := c.Brokers[1]
		c.Crash(b)
		if took := awaitFenced(c, b); took > soon {
			t.Fatalf("a killed broker was fenced after %s", took)
		}
		for i := range int32(3) {
			if p := c.Partition("t", i); p.Leader == b.ID || p.Leader < 0 {
				t.Fatalf("partition %d is led by %d", i, p.Leader)
			}
		}
		if n := counts(c).Fencings[active.FencedProbeRefused]; n != 1 {
			t.Fatalf("%d brokers were fenced by a probe", n)
		}
		c.Start(b)
		c.AwaitReady()
	})
}

// TestABrokerThatCannotBeReachedWaitsForItsSession loses the whole host: its connections end, and nobody answers.
func TestABrokerThatCannotBeReachedWaitsForItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		b := c.Brokers[1]
		c.Isolate(b)
		c.Crash(b)
		if took := awaitFenced(c, b); took < 7*time.Second {
			t.Fatalf("a broker that nobody could ask was fenced after %s", took)
		}
		if n := counts(c); n.Probes[controller.ProbeTimedOut] != 1 || n.Fencings[active.FencedSessionExpired] != 1 {
			t.Fatalf("counts %+v", n)
		}
	})
}

// TestABlackholedBrokerWaitsForItsSession: no connection ends, so there is nothing to probe before the session is over.
func TestABlackholedBrokerWaitsForItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		b := c.Brokers[1]
		c.Isolate(b)
		if took := awaitFenced(c, b); took < 7*time.Second {
			t.Fatalf("a silent broker was fenced after %s", took)
		}
		c.Heal(b)
		c.AwaitReady()
	})
}

// TestALostConnectionFencesNobody: the process lives and listens, and comes back on another stream.
func TestALostConnectionFencesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		b := c.Brokers[1]
		for range 10 {
			c.Quorum.Net.Reset(b.Name)
			for range 50 {
				time.Sleep(20 * time.Millisecond)
				if fenced(c, b) {
					t.Fatal("a broker that lost its connection was fenced")
				}
			}
		}
		if n := counts(c); n.Probes[controller.ProbeRefused] != 0 {
			t.Fatalf("counts %+v", n)
		}
	})
}

func TestAHerdOfBrokersWaitsForItsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		c.CreateTopic("t", 3, 3, nil)
		c.Crash(c.Brokers[0])
		c.Crash(c.Brokers[1])
		took := awaitFenced(c, c.Brokers[0])
		if took < 7*time.Second {
			t.Fatalf("two of three brokers closed at once, and one was fenced after %s", took)
		}
		c.Await("the other to be fenced", func() bool { return fenced(c, c.Brokers[1]) })
		if n := counts(c); n.Herds == 0 || n.Fencings[active.FencedProbeRefused] != 0 || n.Fencings[active.FencedSessionExpired] != 2 {
			t.Fatalf("counts %+v", n)
		}
	})
}

// TestABrokerThatRestartsAtOnceIsNotFencedForItsPast: by the time of the probe another process listens on the port.
func TestABrokerThatRestartsAtOnceIsNotFencedForItsPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		b := c.Brokers[1]
		before := b.Status().BrokerEpoch
		c.Crash(b)
		c.Start(b)
		c.AwaitReady()
		time.Sleep(15 * time.Second)
		if now := b.Status(); !now.Ready || now.BrokerEpoch <= before {
			t.Fatalf("broker epoch was %d, is %d; not ready: %s", before, now.BrokerEpoch, now.NotReady)
		}
		n := counts(c)
		if n.Fencings[active.FencedProbeRefused] != 0 || n.Fencings[active.FencedSessionExpired] != 0 || n.Fencings[active.FencedRegistered] != 1 {
			t.Fatalf("counts %+v", n)
		}
	})
}

func TestAGoodbyeIsNeverProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		time.Sleep(time.Second)
		before := counts(c).Probes
		if err := c.Terminate(c.Brokers[1]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if !fenced(c, c.Brokers[1]) {
			t.Fatal("a broker that said goodbye is not fenced")
		}
		if after := counts(c).Probes; after != before {
			t.Fatalf("probes were %v, are %v", before, after)
		}
	})
}

// TestABrokerThatDiesWithTheControllerIsFencedAfterTheNextClaim: the next controller has connected to it itself, long
// before it had to know.
func TestABrokerThatDiesWithTheControllerIsFencedAfterTheNextClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 3, 3, nil)
		time.Sleep(time.Second)
		b := c.Brokers[1]
		c.Crash(b)
		c.Quorum.Crash(c.Quorum.Active())
		c.Quorum.Await("the next controller", func() bool { return c.Quorum.Active() != nil })
		if took := awaitFenced(c, b); took > time.Second+soon {
			t.Fatalf("fenced %s after the claim", took)
		}
		time.Sleep(15 * time.Second)
		for _, other := range c.Running() {
			if fenced(c, other) {
				t.Fatalf("%s lives and is fenced", other.Name)
			}
		}
		if n := counts(c); n.Fencings[active.FencedProbeRefused] != 1 {
			t.Fatalf("counts %+v", n)
		}
	})
}
