package endtoend

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/proctest"
)

// TestACreatedTopicIsVisibleWhereItWasAskedForWhenTheAnswerArrives asks each broker in turn to create topics. The broker
// that was asked tells of the topic at once; every other one as soon as its own status has reached the answer's offset.
func TestACreatedTopicIsVisibleWhereItWasAskedForWhenTheAnswerArrives(t *testing.T) {
	const each = 20
	cluster := proctest.Start(t, proctest.Options{})
	seeds := cluster.BootstrapServers()
	delays := make([]time.Duration, 0, each*len(seeds)*(len(seeds)-1))
	for asked, seed := range seeds {
		name := cluster.BrokerNode(int32(asked + 1))
		for n := range each {
			topic := fmt.Sprintf("through-%s-%d", name, n)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if err := viewOf(t, seed).CreateTopic(ctx, topic, 1, 3); err != nil {
				t.Fatalf("create %s through %s: %v", topic, seed, err)
			}
			answered := time.Now()
			if _, err := viewOf(t, seed).Topic(ctx, topic); err != nil {
				t.Fatalf("%s was created through %s, and is not visible there: %v", topic, seed, err)
			}
			status, err := cluster.Status(name)
			if err != nil {
				t.Fatal(err)
			}
			delays = append(delays, visibleElsewhere(ctx, t, cluster, name, topic, status.MetadataOffset, answered)...)
			cancel()
		}
	}
	slices.Sort(delays)
	t.Logf("from the answer to the other brokers having the offset, %d times: median %v, worst %v; each poll takes some ms",
		len(delays), delays[len(delays)/2], delays[len(delays)-1])
}

// visibleElsewhere waits for each other broker's status to reach offset, and then asks it for the topic: once.
func visibleElsewhere(ctx context.Context, t *testing.T, cluster *proctest.Cluster, asked, topic string, offset int64, answered time.Time) []time.Duration {
	t.Helper()
	var delays []time.Duration
	for i, seed := range cluster.BootstrapServers() {
		name := cluster.BrokerNode(int32(i + 1))
		if name == asked {
			continue
		}
		proctest.Eventually(t, patience, fmt.Sprintf("%s reaches metadata offset %d", name, offset), func() error {
			status, err := cluster.Status(name)
			if err == nil && status.MetadataOffset < offset {
				err = fmt.Errorf("it is at %d", status.MetadataOffset)
			}
			return err
		})
		delays = append(delays, time.Since(answered))
		if _, err := viewOf(t, seed).Topic(ctx, topic); err != nil {
			t.Fatalf("%s has reached metadata offset %d, and does not tell of %s: %v", name, offset, topic, err)
		}
	}
	return delays
}
