package brokerdtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/skiffmq/skiff/brokerd/brokerdtest"
)

// TestAnUncleanElectionLosesOnlyWhatTheTopicAllows lets a replica that missed records lead where the topic allows it.
// Everybody then has that replica's history; where the topic does not allow it, the partition waits.
func TestAnUncleanElectionLosesOnlyWhatTheTopicAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 2, nil)
		allowed := "true"
		c.CreateTopic("loses", 1, 2, map[string]*string{"unclean.leader.election.enable": &allowed})
		c.CreateTopic("waits", 1, 2, nil)
		client := c.Client()
		kept := map[string][]string{"loses": produce(t, client, "loses", 0, 3), "waits": produce(t, client, "waits", 0, 3)}
		short, long := c.Brokers[0], c.Brokers[1]
		c.Crash(short)
		for topic := range kept {
			c.AwaitISR(topic, 0, long.ID)
		}
		produce(t, client, "loses", 3, 3)
		kept["waits"] = append(kept["waits"], produce(t, client, "waits", 3, 3)...)
		c.Crash(long)
		c.Await("no leader", func() bool { return c.Partition("waits", 0).Leader < 0 })
		c.Start(short)
		c.Await("an unclean leader", func() bool { return c.Partition("loses", 0).Leader == short.ID })
		time.Sleep(30 * time.Second)
		if p := c.Partition("waits", 0); p.Leader >= 0 {
			t.Fatalf("I17: %d leads without the ISR's records", p.Leader)
		}
		kept["loses"] = append(kept["loses"], produce(t, client, "loses", 10, 2)...)
		c.Start(long)
		c.AwaitISR("loses", 0, 1, 2)
		c.AwaitISR("waits", 0, 1, 2)
		if n := long.Status().Replicas.Truncations; n != 1 {
			t.Fatalf("the longer log was cut %d times", n)
		}
		same(t, kept["loses"], consume(t, c, "loses", 5))
		same(t, kept["waits"], consume(t, c, "waits", 6))
		c.Crash(short)
		c.Await("the other to lead", func() bool { return c.Partition("loses", 0).Leader == long.ID })
		same(t, kept["loses"], consume(t, c, "loses", 5))
	})
}

// TestANewPartitionDoesNotWaitForAParkedFetch creates a topic while every follower's fetch is parked at its leader.
func TestANewPartitionDoesNotWaitForAParkedFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		c.CreateTopic("t", 3, 3, nil)
		client := c.Client()
		produce(t, client, "t", 0, 5)
		time.Sleep(2 * time.Second)
		c.CreateTopic("u", 3, 3, nil)
		start := time.Now()
		produce(t, client, "u", 0, 1)
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Fatalf("the first record of a new topic took %s", took)
		}
	})
}

// TestFetchersGoOnAfterTheLeaderIsBack cuts a follower from its leader for less than the lag time.
func TestFetchersGoOnAfterTheLeaderIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 2, nil)
		c.CreateTopic("t", 1, 2, nil)
		client := c.Client()
		want := produce(t, client, "t", 0, 3)
		before := c.Partition("t", 0).PartitionEpoch
		c.Quorum.Net.Partition("b1", "b2")
		time.Sleep(15 * time.Second)
		c.Quorum.Net.Rejoin("b1", "b2")
		start := time.Now()
		want = append(want, produce(t, client, "t", 3, 3)...)
		if took := time.Since(start); took > 15*time.Second {
			t.Fatalf("replication took %s to go on", took)
		}
		if after := c.Partition("t", 0).PartitionEpoch; after != before {
			t.Fatalf("the ISR changed: partition epoch %d, was %d", after, before)
		}
		same(t, want, consume(t, c, "t", 6))
	})
}
