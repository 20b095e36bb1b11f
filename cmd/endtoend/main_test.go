package endtoend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/verify"
)

func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

// patience bounds a wait for something that takes seconds on a machine that does nothing else.
const patience = 60 * time.Second

// adminClient speaks Kafka's admin protocol to the given brokers.
func adminClient(t *testing.T, seeds ...string) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// createTopic creates a topic through any of the brokers and returns its id. A controller may lose its lease on a machine that is
// starved of time; who asked it is told that the outcome is unknown, and asks again.
func createTopic(t *testing.T, c *proctest.Cluster, name string, partitions int32, replicas int16) (id kadm.TopicID) {
	t.Helper()
	admin, unknown := adminClient(t, c.BootstrapServers()...), false
	proctest.Eventually(t, patience, "topic "+name+" is created", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		created, err := admin.CreateTopic(ctx, partitions, replicas, nil, name)
		switch id = created.ID; {
		case errors.Is(err, kerr.RequestTimedOut):
			unknown = true
		case errors.Is(err, kerr.TopicAlreadyExists) && unknown:
			var detail kadm.TopicDetail
			detail, err = topicDetail(ctx, admin, name)
			id = detail.ID
		case err != nil:
			t.Fatalf("create topic %s: %v", name, err)
		}
		return err
	})
	return id
}

// viewOf asks one broker for its own metadata.
func viewOf(t *testing.T, address string) *verify.View {
	t.Helper()
	view, err := verify.NewView(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(view.Close)
	return view
}

// awaitVisible waits until every broker by itself tells of the topic; a client may ask any of them first.
func awaitVisible(t *testing.T, c *proctest.Cluster, topic string) {
	t.Helper()
	for _, seed := range c.BootstrapServers() {
		view := viewOf(t, seed)
		proctest.Eventually(t, patience, topic+" is visible on "+seed, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := view.Topic(ctx, topic)
			return err
		})
	}
}

// topicDetail is one topic as the brokers tell it.
func topicDetail(ctx context.Context, admin *kadm.Client, topic string) (kadm.TopicDetail, error) {
	topics, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	detail := topics[topic]
	return detail, detail.Err
}

// awaitFullISR waits until every partition of the topic has a leader and all its replicas in the ISR.
func awaitFullISR(t *testing.T, c *proctest.Cluster, topic string) {
	t.Helper()
	admin := adminClient(t, c.BootstrapServers()...)
	proctest.Eventually(t, patience, "every ISR of "+topic+" is full", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		detail, err := topicDetail(ctx, admin, topic)
		if err != nil {
			return err
		}
		for _, p := range detail.Partitions {
			if p.Err != nil || p.Leader < 0 || len(p.ISR) != len(p.Replicas) {
				return fmt.Errorf("partition %d: leader %d, ISR %v of replicas %v: %w", p.Partition, p.Leader, p.ISR, p.Replicas, p.Err)
			}
		}
		return nil
	})
}
