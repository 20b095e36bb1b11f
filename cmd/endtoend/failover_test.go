package endtoend

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/verify"
)

// failoverSpan is how long the producer runs while nodes are killed.
const failoverSpan = 60 * time.Second

// TestNoAcknowledgedRecordIsLostWhenControllersAndLeadersAreKilled kills the active controller and a partition leader,
// twice each, under a producer with acks=all.
func TestNoAcknowledgedRecordIsLostWhenControllersAndLeadersAreKilled(t *testing.T) {
	t.Parallel()
	const topic = "kept"
	cluster := proctest.Start(t, proctest.Options{})
	createTopic(t, cluster, topic, 6, 3)
	producer, err := verify.NewProducer(verify.ProducerOptions{
		Seeds: cluster.BootstrapServers(), Topic: topic, InFlight: 256, PerSecond: 5000, ValueBytes: 256,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	produced := make(chan error, 1)
	span, endSpan := context.WithTimeout(t.Context(), failoverSpan)
	defer endSpan()
	drain, endDrain := context.WithTimeout(t.Context(), failoverSpan+2*patience)
	defer endDrain()
	go func() { produced <- producer.Run(span, drain) }()

	for range 2 {
		killAndRestart(t, cluster, cluster.ActiveController())
		awaitProgress(t, producer)
		killAndRestart(t, cluster, leaderNode(t, cluster, topic, 0))
		awaitProgress(t, producer)
	}
	<-span.Done() // the rest of the span is quiet
	if err := <-produced; err != nil {
		t.Errorf("the producer was told of errors: %v", err)
	}
	awaitFullISR(t, cluster, topic)
	checkKept(t, cluster, topic, producer.Acked())
	quiet := cluster.AwaitAgreement(patience)
	t.Logf("%d records sent, %d acknowledged; six processes at metadata offset %d, digest %s",
		producer.Sent(), len(producer.Acked()), quiet.MetadataOffset, quiet.Digest)
}

// killAndRestart ends a node with SIGKILL after its own status said that the pid is it, and waits until it is back.
func killAndRestart(t *testing.T, cluster *proctest.Cluster, name string) {
	t.Helper()
	t.Logf("kill %s, pid %d", name, cluster.Node(name).PID)
	cluster.Kill(name)
	cluster.Restart(name)
}

// awaitProgress waits until records are acknowledged that were not when it was called.
func awaitProgress(t *testing.T, producer *verify.Producer) {
	t.Helper()
	before := len(producer.Acked())
	proctest.Eventually(t, patience, "records are acknowledged again", func() error {
		if now := len(producer.Acked()); now <= before+1000 {
			return fmt.Errorf("%d acknowledged, %d before", now, before)
		}
		return nil
	})
}

// leaderNode is the node that leads a partition.
func leaderNode(t *testing.T, cluster *proctest.Cluster, topic string, partition int32) string {
	t.Helper()
	admin := adminClient(t, cluster.BootstrapServers()...)
	var leader int32
	proctest.Eventually(t, patience, "the partition has a leader", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		detail, err := topicDetail(ctx, admin, topic)
		if err != nil {
			return err
		}
		p, known := detail.Partitions[partition]
		if !known || p.Leader < 0 {
			return fmt.Errorf("partition %d: leader %d", partition, p.Leader)
		}
		leader = p.Leader
		return nil
	})
	return cluster.BrokerNode(leader)
}

// checkKept reads the topic back and holds it against what was acknowledged.
func checkKept(t *testing.T, cluster *proctest.Cluster, topic string, acked []verify.Acked) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if len(acked) == 0 {
		t.Fatal("nothing was acknowledged: there is nothing to check")
	}
	read, err := verify.ReadAll(ctx, cluster.BootstrapServers(), topic)
	if err != nil {
		t.Fatal(err)
	}
	violations := verify.Check(acked, read)
	if len(violations) == 0 {
		return
	}
	var lines strings.Builder
	for _, v := range violations[:min(len(violations), 20)] {
		fmt.Fprintln(&lines, v)
	}
	t.Fatalf("%d acknowledged, %d read, %d violations:\n%s", len(acked), len(read), len(violations), lines.String())
}
