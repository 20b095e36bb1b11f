package brokerdtest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skiffmq/skiff/brokerd/brokerdtest"
)

// produce sends records to one partition with acks=all, one after another, and returns what was acknowledged.
func produce(t *testing.T, client *kgo.Client, topic string, from, n int) []string {
	t.Helper()
	var acked []string
	for i := from; i < from+n; i++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		value := fmt.Sprintf("record %d", i)
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatalf("produce %s: %v", value, err)
		}
		cancel()
		acked = append(acked, value)
	}
	return acked
}

// consume reads a topic from its beginning until it has n records.
func consume(t *testing.T, c *brokerdtest.Cluster, topic string, n int) []string {
	t.Helper()
	client := c.Client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	for len(got) < n {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("consumed %d of %d records: %v\n%s", len(got), n, err, c.Describe())
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	return got
}

func same(t *testing.T, want, got []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("record %d is %q, want %q", i, got[i], want[i])
		}
	}
}

func TestProduceAndConsumeOnOneBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 1, nil)
		c.CreateTopic("t", 1, 1, nil)
		same(t, produce(t, c.Client(), "t", 0, 10), consume(t, c, "t", 10))
	})
}

func TestAcknowledgedRecordsSurviveTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, nil)
		c.CreateTopic("t", 1, 3, nil)
		client := c.Client()
		want := produce(t, client, "t", 0, 10)
		old := c.Leader("t", 0)
		c.Crash(old)
		want = append(want, produce(t, client, "t", 10, 10)...)
		if now := c.Leader("t", 0); now == old || now == nil {
			t.Fatalf("leader is still %v", now)
		}
		same(t, want, consume(t, c, "t", 20))
		c.Start(old)
		c.AwaitISR("t", 0, 1, 2, 3)
		want = append(want, produce(t, client, "t", 20, 5)...)
		same(t, want, consume(t, c, "t", 25))
		c.AwaitSame()
	})
}
