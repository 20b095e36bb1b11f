package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
	"github.com/skiffmq/skiff/quorum/feed"
	"github.com/skiffmq/skiff/quorum/rpc/rpctest"
)

func TestFollowThroughSnapshotAndSuffix(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b := register(t, c, 1)
		f := &follower{t: t}
		stop := follow(c, f.config("broker 1"))
		eventually(t, time.Second, "has a snapshot", func() bool { return f.image() != nil })
		reserve(t, c, b, 5)
		synctest.Wait()
		f.wantSame(q.Node(0))
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		reserve(t, c, b, 5)
		stop = follow(c, f.config("broker 1")) // goes on where it was
		eventually(t, 3*time.Second, "caught up", func() bool { return f.image().NextOffset() == q.Node(0).Image().NextOffset() })
		f.wantSame(q.Node(0))
		if snapshots, entries := f.counts(); snapshots != 1 || entries != 10 {
			t.Fatalf("%d snapshots and %d entries, want 1 and 10", snapshots, entries)
		}
		eventually(t, time.Second, "beats", func() bool { return f.lastBeat() != nil })
		if beat := f.lastBeat(); beat.GetLeaderContactAgeMs() != 0 || beat.GetActiveController() != q.Node(0).Addr {
			t.Fatalf("beat %v", beat)
		}
		_ = stop()
	})
}

func TestFollowerThatIsTooOldTakesASnapshot(t *testing.T) {
	bubble(t, rpctest.Options{Feed: feed.Options{MaxEntries: 4}}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b := register(t, c, 1)
		f := &follower{t: t}
		stop := follow(c, f.config("broker 1"))
		eventually(t, time.Second, "has a snapshot", func() bool { return f.image() != nil })
		_ = stop()
		reserve(t, c, b, 20)
		stop = follow(c, f.config("broker 1"))
		eventually(t, 3*time.Second, "caught up", func() bool { return f.image().NextOffset() == q.Node(0).Image().NextOffset() })
		if snapshots, _ := f.counts(); snapshots != 2 {
			t.Fatalf("%d snapshots, want 2", snapshots)
		}
		f.wantSame(q.Node(0))
		_ = stop()
	})
}

func TestFollowMovesToTheActiveControllerAfterAFailover(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b := register(t, c, 1)
		f := &follower{t: t}
		stop := follow(c, f.config("broker 1"))
		eventually(t, time.Second, "has a snapshot", func() bool { return f.image() != nil })
		q.Node(0).Kill()
		q.Lead(1)
		eventually(t, 2*time.Second, "sees the new claim", func() bool { return f.image().ControllerEpoch() == q.Node(1).Image().ControllerEpoch() })
		reserve(t, c, b, 3)
		eventually(t, 5*time.Second, "hears the active controller itself", func() bool {
			return f.lastBeat() != nil && f.lastBeat().GetLeaderContactAgeMs() == 0 && f.image().NextOffset() == q.Node(1).Image().NextOffset()
		})
		f.wantSame(q.Node(1))
		if snapshots, _ := f.counts(); snapshots != 1 {
			t.Fatalf("%d snapshots were needed", snapshots)
		}
		_ = stop()
	})
}

func TestFollowLeavesASilentSource(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		register(t, c, 1)
		f := &follower{t: t}
		stop := follow(c, f.config("broker 1"))
		eventually(t, time.Second, "has a snapshot", func() bool { return f.image() != nil })
		q.Node(0).Blackhole(true)
		q.Lead(1)
		took := eventually(t, 10*time.Second, "follows the other", func() bool { return f.image().ControllerEpoch() == q.Node(1).Image().ControllerEpoch() })
		t.Logf("the silent source was left after %s", took)
		_ = stop()
		q.Node(0).Blackhole(false)
	})
}

func TestFollowLeavesASourceThatIsBehind(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b := register(t, c, 1)
		q.Node(1).Hold(true)
		q.Node(2).Hold(true)
		reserve(t, c, b, 5)
		f := &follower{t: t}
		stop := follow(c, f.config("broker 1"))
		eventually(t, time.Second, "has a snapshot", func() bool { return f.image() != nil })
		_ = stop()
		before := f.image().NextOffset()

		// A client that knows nobody else but a node that is behind: it holds, and never takes the old snapshot.
		behind, err := client.New(client.Config{Controllers: []string{q.Node(1).Addr}, Dial: q.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer behind.Close()
		q.Lead(-1)
		stop = follow(behind, f.config("broker 1"))
		eventually(t, 2*time.Second, "hears that the source is behind", func() bool { return f.lastBeat().GetBehind() })
		if got := f.image().NextOffset(); got != before {
			t.Fatalf("it went from %d to %d", before, got)
		}
		// Now the node with everything leads, and the beats of the one behind name it.
		q.Lead(0)
		eventually(t, 5*time.Second, "found the one that has everything", func() bool {
			return f.image().NextOffset() == q.Node(0).Image().NextOffset() && !f.lastBeat().GetBehind()
		})
		_ = stop()
		if snapshots, _ := f.counts(); snapshots != 1 {
			t.Fatalf("%d snapshots", snapshots)
		}
	})
}

func TestFollowLeavesASourceThatIsCutOffFromTheLeader(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b := register(t, c, 1)
		only, err := client.New(client.Config{Controllers: []string{q.Node(1).Addr, q.Node(2).Addr}, Dial: q.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer only.Close()
		q.Node(0).Kill() // unreachable for the client, and still leading
		f := &follower{t: t}
		stop := follow(only, f.config("broker 1"))
		eventually(t, 3*time.Second, "has a snapshot", func() bool { return f.image() != nil })
		for i := 1; i <= 2; i++ {
			q.Node(i).Hold(true)
			q.Node(i).SetContactAge(10 * time.Second)
		}
		q.Node(0).Start()
		reserve(t, c, b, 3)
		q.Node(0).Kill()
		q.Node(2).SetContactAge(0)
		q.Node(2).Hold(false)
		eventually(t, 10*time.Second, "follows the one that hears the leader", func() bool { return f.image().NextOffset() == q.Node(2).Image().NextOffset() })
		_ = stop()
	})
}

func TestUnclaimedAndFaultyNodesServeNoMetadata(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		f := &follower{t: t}
		stop := follow(c, f.config("broker 1"))
		time.Sleep(5 * time.Second)
		if f.image() != nil {
			t.Fatal("a node without a claim served its image")
		}
		for i := range 2 {
			q.Node(i).SetFault("digest differs")
		}
		q.Lead(2)
		eventually(t, 3*time.Second, "follows the sound node", func() bool { return f.image() != nil })
		q.Node(2).SetFault("digest differs")
		time.Sleep(time.Second)
		before := f.lastBeat()
		time.Sleep(3 * time.Second)
		if f.lastBeat() != before {
			t.Fatal("a faulty node goes on serving")
		}
		_ = stop()
	})
}

func TestForeignLineageIsRefusedByEverybody(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		f := &follower{t: t}
		cfg := f.config("broker 1")
		cfg.Position = func() (fsm.LineageID, int64) { return fsm.LineageID{Number: 9, UUID: fsm.UUID{9}}, 5 }
		err := c.Follow(within(t, time.Minute), cfg)
		if e := asError(t, err); e.Code != controllerv1.ErrorCode_ERROR_CODE_LINEAGE_BEHIND {
			t.Fatalf("got %v", e)
		}
	})
}

func TestSlowFollowerIsCutAndCatchesUpLater(t *testing.T) {
	bubble(t, rpctest.Options{Feed: feed.Options{MaxEntries: 64}}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b := register(t, c, 1)
		slow, fast := &follower{t: t}, &follower{t: t}
		asleep := true
		slow.slow = func() {
			if asleep {
				time.Sleep(time.Minute)
			}
		}
		stopSlow, stopFast := follow(c, slow.config("slow")), follow(c, fast.config("fast"))
		eventually(t, time.Second, "both have a snapshot", func() bool { return slow.image() != nil && fast.image() != nil })
		begin := time.Now()
		reserve(t, c, b, 2000)
		if took := time.Since(begin); took > time.Second {
			t.Fatalf("a slow follower held the others up for %s", took)
		}
		synctest.Wait()
		fast.wantSame(q.Node(0))
		time.Sleep(30 * time.Second)
		asleep = false
		eventually(t, 2*time.Minute, "caught up", func() bool { return slow.image().NextOffset() == q.Node(0).Image().NextOffset() })
		slow.wantSame(q.Node(0))
		if snapshots, entries := slow.counts(); snapshots < 2 || entries > 1500 {
			t.Fatalf("the slow follower was not cut off: %d snapshots, %d entries", snapshots, entries)
		}
		_ = stopSlow()
		_ = stopFast()
	})
}
