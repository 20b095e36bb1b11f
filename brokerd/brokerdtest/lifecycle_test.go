package brokerdtest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/skiffmq/skiff/brokerd"
	"github.com/skiffmq/skiff/brokerd/brokerdtest"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// TestACleanStopHandsOverFirst stops a leader as SIGTERM does: another leads before it is gone, nobody waits for a
// session, and the next process starts as its clean successor.
func TestACleanStopHandsOverFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		c.CreateTopic("t", 3, 3, nil)
		client := c.Client()
		want := produce(t, client, "t", 0, 10)
		old := c.Leader("t", 0)
		start := time.Now()
		if err := c.Terminate(old); err != nil {
			t.Fatalf("stop: %v", err)
		}
		if took := time.Since(start); took > 4*time.Second {
			t.Fatalf("a controlled shutdown took %s", took)
		}
		for i := range int32(3) {
			if p := c.Partition("t", i); p.Leader == old.ID || p.Leader < 0 {
				t.Fatalf("partition %d is led by %d after the stop", i, p.Leader)
			}
		}
		if _, err := os.Stat(filepath.Join(old.Dir, "clean-stop")); err != nil {
			t.Fatalf("no clean marker: %v", err)
		}
		want = append(want, produce(t, client, "t", 10, 10)...)
		c.Start(old)
		c.AwaitReady()
		if _, err := os.Stat(filepath.Join(old.Dir, "clean-stop")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the clean marker speaks for one stop only: %v", err)
		}
		for i := range int32(3) {
			c.AwaitISR("t", i, 1, 2, 3)
		}
		if got := consume(t, c, "t", len(want)); len(got) != len(want) {
			t.Fatalf("%d records, want %d", len(got), len(want))
		}
	})
}

func TestEverythingStopsAndStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 3, 3, nil)
		c.CreateTopic("t", 1, 3, nil)
		c.CreateTopic("single", 1, 1, nil)
		want := produce(t, c.Client(), "t", 0, 10)
		single := produce(t, c.Client(), "single", 0, 10)
		for _, b := range c.Brokers {
			if err := c.Terminate(b); err != nil {
				t.Fatalf("stop %s: %v", b.Name, err)
			}
		}
		c.Quorum.Stop()
		for _, n := range c.Quorum.Nodes {
			c.Quorum.Start(n)
		}
		for _, b := range c.Brokers {
			c.Start(b)
		}
		c.AwaitReady()
		same(t, want, consume(t, c, "t", 10))
		same(t, single, consume(t, c, "single", 10))
		c.AwaitISR("t", 0, 1, 2, 3)
		c.AwaitSame()
	})
}

// TestBrokersFollowTheNextController kills the active controller: sessions go on at the next one and nobody is fenced.
func TestBrokersFollowTheNextController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 3, 3, nil)
		c.CreateTopic("t", 1, 3, nil)
		client := c.Client()
		want := produce(t, client, "t", 0, 5)
		before := c.Partition("t", 0)
		c.Quorum.Crash(c.Quorum.Active())
		want = append(want, produce(t, client, "t", 5, 5)...)
		c.Quorum.Await("the next controller", func() bool { return c.Quorum.Active() != nil })
		time.Sleep(30 * time.Second) // three sessions
		if after := c.Partition("t", 0); after.LeaderEpoch != before.LeaderEpoch || len(after.ISR) != 3 {
			t.Fatalf("partition was %+v, is %+v", before, after)
		}
		c.AwaitReady()
		c.CreateTopic("u", 1, 3, nil)
		same(t, want, consume(t, c, "t", 10))
	})
}

// TestABrokerCutFromTheControllerComesBack lets a session expire while the process lives: the broker is fenced, and
// unfenced when the cut heals, under the registration it has.
func TestABrokerCutFromTheControllerComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		c.CreateTopic("t", 3, 3, nil)
		b := c.Brokers[1]
		epoch := b.Status().BrokerEpoch
		c.Isolate(b)
		c.Await("the broker to be fenced", func() bool { r, ok := c.Image().Broker(b.ID); return ok && r.Fenced })
		c.Heal(b)
		c.AwaitReady()
		if now := b.Status().BrokerEpoch; now != epoch {
			t.Fatalf("broker epoch %d, was %d: it registered again", now, epoch)
		}
		for i := range int32(3) {
			c.AwaitISR("t", i, 1, 2, 3)
		}
	})
}

// TestAnUnregisteredBrokerRegistersAgain takes a live broker's registration away: its heartbeats are stale, and it
// registers again under its incarnation instead of beating in vain.
func TestAnUnregisteredBrokerRegistersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		c.CreateTopic("t", 1, 3, nil)
		b := c.Brokers[2]
		epoch := b.Status().BrokerEpoch
		unregister(t, c, b.ID)
		c.Await("a new registration", func() bool { s := b.Status(); return s.BrokerEpoch > epoch && s.Ready })
		c.AwaitISR("t", 0, 1, 2, 3)
		want := produce(t, c.Client(), "t", 0, 3)
		same(t, want, consume(t, c, "t", 3))
	})
}

func TestADeletedTopicIsPutAwayAndItsNameIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		c.CreateTopic("t", 2, 3, nil)
		client := c.Client()
		produce(t, client, "t", 0, 10)
		if _, err := kadm.NewClient(client).DeleteTopics(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		c.AwaitSame()
		for _, b := range c.Brokers {
			if names := list(t, b, "partitions"); len(names) != 0 {
				t.Fatalf("%s still has %v", b.Name, names)
			}
			if names := list(t, b, "stray"); len(names) != 2 || !strings.Contains(names[0], "@1.") {
				t.Fatalf("%s put away %v", b.Name, names)
			}
		}
		c.CreateTopic("t", 1, 3, nil)
		want := produce(t, c.Client(), "t", 100, 3)
		same(t, want, consume(t, c, "t", 3))
	})
}

func unregister(t *testing.T, c *brokerdtest.Cluster, id int32) {
	t.Helper()
	if _, err := c.Controller().UnregisterBroker(t.Context(), &controllerv1.UnregisterBrokerRequest{BrokerId: id}); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, b *brokerdtest.Broker, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(b.Dir, dir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestABrokerIDThatIsAliveElsewhereIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 2, nil)
		c.CreateTopic("t", 1, 2, nil)
		twin := c.Twin(c.Brokers[0])
		c.Start(twin)
		err := c.Ended(twin)
		var refused *brokerd.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Cause, "broker id 1 is alive elsewhere") || refused.Fix == "" {
			t.Fatalf("the second holder of an id ends with %v", err)
		}
		c.AwaitReady()
		same(t, produce(t, c.Client(), "t", 0, 3), consume(t, c, "t", 3))
	})
}

func TestWrongIdentityIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 2, nil)
		b := c.Brokers[0]
		if err := c.TryStart(&brokerdtest.Broker{ID: 9, Name: b.Name, Dir: b.Dir}); err == nil || !strings.Contains(err.Error(), "belongs to broker 1, this process is configured as broker 9") {
			t.Fatalf("another id on the directory of broker 1: %v", err)
		}
		other := brokerdtest.New(t, 1, 1, nil)
		c.Crash(b)
		moved := other.Adopt(b)
		other.Start(moved)
		err := other.Ended(moved)
		var refused *brokerd.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Cause, c.Image().ClusterID()) || !strings.Contains(refused.Cause, other.Image().ClusterID()) {
			t.Fatalf("a broker of another cluster ends with %v", err)
		}
	})
}

func TestOneDirectoryHasOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 1, nil)
		err := c.TryStart(&brokerdtest.Broker{ID: 1, Name: "b1", Dir: c.Brokers[0].Dir})
		if err == nil || !strings.Contains(err.Error(), "another process uses") {
			t.Fatalf("a second process on the directory: %v", err)
		}
	})
}
