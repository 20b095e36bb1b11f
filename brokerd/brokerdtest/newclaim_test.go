package brokerdtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/skiffmq/skiff/brokerd/brokerdtest"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

// awaitHeard returns when the next controller opened its claim, and how long after that it had answered a heartbeat of
// every broker.
func awaitHeard(t *testing.T, c *brokerdtest.Cluster, old *quorumtest.Node, oldEpoch int64) time.Duration {
	t.Helper()
	var claimed time.Time
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(time.Millisecond) {
		next := c.Quorum.Active()
		if claimed.IsZero() && next != nil && next != old && next.Loop().Status().ControllerEpoch > oldEpoch {
			claimed = time.Now()
		}
		heard := !claimed.IsZero()
		for _, b := range c.Running() {
			heard = heard && b.Status().HeardBy > oldEpoch
		}
		if heard {
			return time.Since(claimed)
		}
	}
	t.Fatalf("not every broker was heard\n%s", c.Describe())
	return 0
}

// TestANewClaimIsHeardByEveryBrokerAtOnce loses the active controller in three ways. Killed or leaving, it closes its
// connections; frozen, it is only silent, and brokers look for another one as soon as a beat is late.
func TestANewClaimIsHeardByEveryBrokerAtOnce(t *testing.T) {
	ways := []struct {
		name   string
		lose   func(*brokerdtest.Cluster, *quorumtest.Node)
		within time.Duration
	}{
		{"killed", func(c *brokerdtest.Cluster, n *quorumtest.Node) { c.Quorum.Crash(n) }, 50 * time.Millisecond},
		{"leaving", func(c *brokerdtest.Cluster, n *quorumtest.Node) { _ = c.Quorum.Terminate(n) }, 50 * time.Millisecond},
		{"frozen", freeze, time.Second},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := brokerdtest.New(t, 3, 3, nil)
				time.Sleep(3 * time.Second)
				old := c.Quorum.Active()
				epoch := old.Loop().Status().ControllerEpoch
				way.lose(c, old)
				took := awaitHeard(t, c, old, epoch)
				t.Logf("every broker was heard %s after the claim", took)
				if took > way.within {
					t.Fatalf("every broker was heard %s after the claim", took)
				}
			})
		})
	}
}

// freeze cuts a quorum node from everybody: nothing is closed and nothing is answered.
func freeze(c *brokerdtest.Cluster, n *quorumtest.Node) {
	c.Quorum.Isolate(n)
	for _, b := range c.Brokers {
		c.Quorum.Net.Partition(b.Name, n.Name)
	}
}
