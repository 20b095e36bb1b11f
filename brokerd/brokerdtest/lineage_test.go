package brokerdtest_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skiffmq/skiff/brokerd"
	"github.com/skiffmq/skiff/brokerd/brokerdtest"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// TestABrokerThatIsAwayIsWaitedFor restores while one broker is down. Its partitions wait for it; without it an operator
// elects, and what it had beyond the others is written down when it comes back.
func TestABrokerThatIsAwayIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 2, nil)
		c.CreateTopic("both", 1, 2, nil)
		c.CreateTopic("waits", 1, 2, nil)
		client := c.Client()
		want := produce(t, client, "both", 0, 5)
		produce(t, client, "waits", 0, 5)
		saved := c.Image()
		short, long := c.Brokers[0], c.Brokers[1]
		c.Crash(short)
		c.AwaitISR("waits", 0, long.ID)
		produce(t, client, "waits", 5, 3)
		want = append(want, produce(t, client, "both", 5, 3)...)
		c.Crash(long)
		c.DestroyQuorum()
		c.Restore(saved)
		c.Start(short)
		c.AwaitReady()
		time.Sleep(5 * time.Minute)
		if n := c.Image().NumAwaiting(); n != 2 {
			t.Fatalf("%d partitions await inventories, want both: one of two replicas is away", n)
		}
		resp, err := c.Controller().ElectAwaiting(t.Context(), &controllerv1.ElectAwaitingRequest{Partitions: []*controllerv1.TopicPartition{{Topic: "waits"}}})
		if err != nil || len(resp.GetElections()) != 1 || resp.GetElections()[0].GetLogEndOffset() != 5 {
			t.Fatalf("elect: %v, %v", resp, err)
		}
		c.Start(long)
		c.AwaitElected()
		c.AwaitISR("both", 0, 1, 2)
		c.AwaitISR("waits", 0, 1, 2)
		same(t, want, consume(t, c, "both", len(want)))
		id := fsm.PartitionID{Topic: topicID(t, c, "waits")}
		if e, ok := c.Image().RecoveryElection(id); !ok || len(e.Late) != 1 || e.Late[0].Broker != long.ID || e.Late[0].LogEndOffset != 8 {
			t.Fatalf("what the election cost is %+v", e)
		}
		if got := consume(t, c, "waits", 5); len(got) != 5 {
			t.Fatalf("%d records", len(got))
		}
		if n := ends(t, c, "waits"); n != 5 {
			t.Fatalf("the longer log was not cut to the elected one: %d records", n)
		}
	})
}

func topicID(t *testing.T, c *brokerdtest.Cluster, name string) fsm.UUID {
	t.Helper()
	topic, ok := c.Image().TopicByName(name)
	if !ok {
		t.Fatalf("no topic %s", name)
	}
	return topic.ID()
}

// TestAForeignLineageIsAdoptedByHand restores one snapshot twice: brokers that followed the first do not follow the second
// by themselves. Adopted, they keep the logs that the second knows and put the others away.
func TestAForeignLineageIsAdoptedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 2, nil)
		c.CreateTopic("t", 1, 2, nil)
		client := c.Client()
		want := produce(t, client, "t", 0, 5)
		saved := c.Image()
		c.DestroyQuorum()
		c.Restore(saved)
		c.AwaitElected()
		c.AwaitReady()
		c.Confirm()
		want = append(want, produce(t, client, "t", 5, 5)...)
		c.CreateTopic("later", 1, 2, nil)
		later := produce(t, client, "later", 0, 4)
		first := c.Image()
		c.AwaitSame()
		c.DestroyQuorum()
		c.Restore(saved)
		second := c.Image()
		for _, b := range c.Brokers {
			err := c.Ended(b)
			var refused *brokerd.RefusedError
			if !errors.As(err, &refused) || !strings.Contains(refused.Cause, first.Lineage().ID.String()) || !strings.Contains(refused.Cause, second.Lineage().ID.String()) ||
				!strings.Contains(refused.Fix, "skiff broker adopt --data-dir "+b.Dir) {
				t.Fatalf("I19: a broker of another lineage ends with %v, %+v", err, refused)
			}
			adopt(t, b, second)
		}
		for _, b := range c.Brokers {
			c.Start(b)
		}
		c.AwaitElected()
		c.AwaitReady()
		c.AwaitISR("t", 0, 1, 2)
		same(t, want, consume(t, c, "t", len(want)))
		above(t, numbersOf(c.Image()), numbers{leaderEpochs: numbersOf(first).leaderEpochs})
		c.Confirm()
		undelete(t, c, "later")
		c.AwaitElected()
		same(t, later, consume(t, c, "later", len(later)))
		c.AwaitSame()
	})
}

// adopt plans, and checks the plan; then it does it, and finds nothing more to do.
func adopt(t *testing.T, b *brokerdtest.Broker, theirs *fsm.Image) {
	t.Helper()
	before := list(t, b, "partitions")
	for range 2 { // a plan changes nothing
		a, err := brokerd.PlanAdoption(brokerd.AdoptConfig{Dir: b.Dir, Theirs: theirs})
		if err != nil {
			t.Fatal(err)
		}
		if a.NodeID != b.ID || a.NotNeeded != "" || len(a.Kept) != 1 || len(a.Put) != 1 || a.Put[0].Topic.Name != "later" || a.Aside == "" || len(list(t, b, "partitions")) != len(before) {
			t.Fatalf("plan %+v", a)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	a, err := brokerd.PlanAdoption(brokerd.AdoptConfig{Dir: b.Dir, Theirs: theirs})
	if err == nil {
		err = errors.Join(a.Run(), a.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	again, err := brokerd.PlanAdoption(brokerd.AdoptConfig{Dir: b.Dir, Theirs: theirs})
	if err != nil || again.NotNeeded == "" {
		t.Fatalf("adopted, there is still something to do: %+v, %v", again, err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAnotherClusterIsNotAdoptedByTheWay needs the cluster's name.
func TestAnotherClusterIsNotAdoptedByTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 1, nil)
		c.CreateTopic("t", 1, 1, nil)
		want := produce(t, c.Client(), "t", 0, 5)
		b, saved, ours := c.Brokers[0], c.Image(), c.Image().ClusterID()
		if err := c.Terminate(b); err != nil {
			t.Fatal(err)
		}
		c.DestroyQuorum()
		theirs := c.RestoreElsewhere(saved).ClusterID
		_, err := brokerd.PlanAdoption(brokerd.AdoptConfig{Dir: b.Dir, Theirs: c.Image()})
		var refused *brokerd.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Cause, ours) || !strings.Contains(refused.Cause, theirs) || !strings.Contains(refused.Fix, "--cluster-id "+theirs) {
			t.Fatalf("%v, %+v", err, refused)
		}
		if _, err := brokerd.PlanAdoption(brokerd.AdoptConfig{Dir: b.Dir, Theirs: c.Image(), ClusterID: ours}); err == nil {
			t.Fatal("adopted under the wrong name")
		}
		a, err := brokerd.PlanAdoption(brokerd.AdoptConfig{Dir: b.Dir, Theirs: c.Image(), ClusterID: theirs})
		if err == nil {
			err = errors.Join(a.Run(), a.Close())
		}
		if err != nil || len(a.Kept) != 1 {
			t.Fatalf("%+v, %v", a, err)
		}
		c.Start(b)
		c.AwaitElected()
		c.AwaitReady()
		same(t, want, consume(t, c, "t", len(want)))
	})
}
