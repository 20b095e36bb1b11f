package quorum_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

// newOnDisks gives a quorum of three, each on a disk of its own.
func newOnDisks(t *testing.T) (*quorumtest.Cluster, map[int32]*quorum.Disk) {
	t.Helper()
	disks := map[int32]*quorum.Disk{}
	c := quorumtest.New(t, 3, func(cfg *quorum.Config) {
		if disks[cfg.NodeID] == nil {
			disks[cfg.NodeID] = &quorum.Disk{}
		}
		disks[cfg.NodeID].Under(cfg)
	})
	c.AwaitSame()
	return c, disks
}

// TestLeaderWhoseDiskHangsEnds: it would go on with its heartbeats and commit nothing for ever. It says why, ends with
// 70, and the others go on.
func TestLeaderWhoseDiskHangsEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, disks := newOnDisks(t)
		leader := c.Active()
		release := disks[leader.ID].Hang()
		defer release()
		answered, loop, start := make(chan error, 1), leader.Loop(), time.Now()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			answered <- register(ctx, loop, 7)
		}()
		var stop *quorum.StopError
		if err := c.Ended(leader); !errors.As(err, &stop) || stop.Code != quorum.ExitBroken {
			t.Fatalf("ended with %v, want exit code 70", err)
		}
		if !strings.Contains(stop.Cause, "a write of entries") || !strings.Contains(stop.Fix, leader.Dir) {
			t.Errorf("%q, fix %q: want what hangs, and where", stop.Cause, stop.Fix)
		}
		if err := <-answered; err == nil {
			t.Error("what was never written was answered as done")
		}
		c.Await("another claim", func() bool { return c.Active() != nil })
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("it took %s to another claim", took)
		}
		mustRegister(t, c, 1)
		release()
		c.Await("the end of the last write", func() bool { return c.TryStart(leader) == nil })
		c.AwaitSame()
	})
}

// TestFollowerWhoseDiskHangsIsNotReady: it says why, and comes back when the disk does. The others do without it.
func TestFollowerWhoseDiskHangsIsNotReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, disks := newOnDisks(t)
		leader := c.Active()
		slow := c.Others(leader)[0]
		release := disks[slow.ID].Hang()
		defer release()
		mustRegister(t, c, 1)
		c.Await("the reason", func() bool { return strings.HasPrefix(slow.Status().NotReady, "disk: a write of") })
		mustRegister(t, c, 2)
		if s := leader.Status(); !s.Ready || c.Active() != leader {
			t.Errorf("the leader is disturbed: %s", s.NotReady)
		}
		release()
		c.Await("being ready", func() bool { return slow.Status().Ready })
		c.AwaitSame()
	})
}

// TestNodeWhoseDiskHangsStopsInTime: SIGTERM ends a follower whose store does not answer.
func TestNodeWhoseDiskHangsStopsInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, disks := newOnDisks(t)
		slow := c.Others(c.Active())[0]
		release := disks[slow.ID].Hang()
		defer release()
		mustRegister(t, c, 1)
		c.Await("the stall", func() bool { return strings.HasPrefix(slow.Status().NotReady, "disk:") })
		start := time.Now()
		if err := c.Terminate(slow); err == nil {
			t.Error("it says that its store is closed")
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// TestSlowDiskIsNoStall: each write takes long, but none too long. Nobody ends, and the metadata goes on.
func TestSlowDiskIsNoStall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, disks := newOnDisks(t)
		for _, d := range disks {
			d.Slow(200 * time.Millisecond)
		}
		for broker := range int32(20) {
			mustRegister(t, c, broker)
		}
		for _, n := range c.Nodes {
			select {
			case err := <-n.Done():
				t.Errorf("%s ended: %v", n.Name, err)
			default:
			}
		}
		c.AwaitSame()
	})
}

// TestVerySlowDiskKeepsItsLeaderAndElectsAnother: a write takes longer than the lease, and two of them longer than an
// election on a good disk. The leader stays, and when it is cut off there is another.
func TestVerySlowDiskKeepsItsLeaderAndElectsAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, disks := newOnDisks(t)
		for _, d := range disks {
			d.Slow(700 * time.Millisecond)
		}
		leader := c.Active()
		term := leader.Status().Term
		for broker := range int32(10) {
			mustRegister(t, c, broker)
		}
		if got := c.Active(); got != leader || got.Status().Term != term {
			t.Errorf("%s led in term %d, now %s does in term %d", leader.Name, term, got.Name, got.Status().Term)
		}
		c.Isolate(leader)
		start := time.Now()
		c.Await("another claim", func() bool { a := c.Active(); return a != nil && a != leader })
		t.Logf("another claim after %s", time.Since(start))
		mustRegister(t, c, 11)
		c.Heal(leader)
		c.AwaitSame()
	})
}
