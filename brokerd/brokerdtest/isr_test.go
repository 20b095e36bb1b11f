package brokerdtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skiffmq/skiff/brokerd/brokerdtest"
)

func TestALateFollowerLeavesTheISRAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		c.CreateTopic("t", 1, 3, nil)
		client := c.Client()
		want := produce(t, client, "t", 0, 3)
		leader := c.Leader("t", 0)
		late := c.Brokers[leader.ID%3]
		c.Quorum.Net.Partition(leader.Name, late.Name) // the controller still hears both
		start := time.Now()
		want = append(want, produce(t, client, "t", 3, 1)...) // waits until the late one is out
		if waited := time.Since(start); waited < 30*time.Second || waited > 50*time.Second {
			t.Fatalf("acknowledged after %s; replica.lag.time.max.ms is 30 s", waited)
		}
		third := 6 - leader.ID - late.ID
		c.AwaitISR("t", 0, leader.ID, third)
		want = append(want, produce(t, client, "t", 4, 3)...)
		c.Quorum.Net.Rejoin(leader.Name, late.Name)
		c.AwaitISR("t", 0, 1, 2, 3)
		c.Crash(leader)
		c.Crash(c.Broker(third))
		c.Await("the late follower to lead", func() bool { return c.Partition("t", 0).Leader == late.ID })
		same(t, want, consume(t, c, "t", len(want)))
	})
}

func TestAcksAllIsRefusedUnderMinISR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		two := "2"
		c.CreateTopic("t", 1, 3, map[string]*string{"min.insync.replicas": &two})
		want := produce(t, c.Client(), "t", 0, 3)
		leader := c.Leader("t", 0)
		for _, b := range c.Brokers {
			if b != leader {
				c.Crash(b)
			}
		}
		c.AwaitISR("t", 0, leader.ID)
		client := c.Client(kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
		err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("refused")}).FirstErr()
		if !errors.Is(err, kerr.NotEnoughReplicas) {
			t.Fatalf("I13: produce with ISR of one: %v", err)
		}
		one := c.Client(kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
		want = append(want, produce(t, one, "t", 3, 1)...)
		if n := readable(t, c, "t"); n != 3 {
			t.Fatalf("%d records are readable under min ISR, want the 3 of before (KIP-966)", n)
		}
		for _, b := range c.Brokers {
			if b != leader {
				c.Start(b)
			}
		}
		c.AwaitISR("t", 0, 1, 2, 3)
		same(t, want, consume(t, c, "t", len(want)))
	})
}

// readable counts the records that a consumer gets within ten seconds.
func readable(t *testing.T, c *brokerdtest.Cluster, topic string) int {
	t.Helper()
	client := c.Client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	n := 0
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(*kgo.Record) { n++ })
	}
	return n
}

// TestADeposedLeaderTruncates lets an isolated leader append records with acks=1 that nobody else gets. Its successor
// appends others at the same offsets; when the old leader comes back its own must go.
func TestADeposedLeaderTruncates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		c.CreateTopic("t", 1, 3, nil)
		want := produce(t, c.Client(), "t", 0, 5)
		old := c.Leader("t", 0)
		lonely := c.Client(kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.MetadataMinAge(time.Minute), kgo.MetadataMaxAge(time.Hour))
		if err := lonely.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("record 5")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		want = append(want, "record 5")
		consume(t, c, "t", len(want)) // it is replicated before the cut
		c.Isolate(old)
		for range 3 {
			if err := lonely.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("lost")}).FirstErr(); err != nil {
				t.Fatalf("acks=1 at the isolated leader: %v", err)
			}
		}
		c.Await("another leader", func() bool { l := c.Leader("t", 0); return l != nil && l != old })
		for _, b := range c.Brokers {
			if b != old {
				c.Quorum.Net.Partition("client", old.Name)
			}
		}
		want = append(want, produce(t, c.Client(), "t", 6, 4)...)
		c.Quorum.Net.Rejoin("client", old.Name)
		c.Heal(old)
		c.AwaitISR("t", 0, 1, 2, 3)
		if n := old.Status().Replicas.Truncations; n != 1 {
			t.Fatalf("the deposed leader truncated %d times", n)
		}
		for _, b := range c.Brokers {
			if b != old {
				c.Crash(b)
			}
		}
		c.Await("the old leader to lead again", func() bool { return c.Partition("t", 0).Leader == old.ID })
		same(t, want, consume(t, c, "t", len(want)))
	})
}
