package endtoend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/skiff/up"
	"github.com/skiffmq/skiff/cmd/verify"
)

// others are all nodes but some.
func others(cluster *proctest.Cluster, but ...string) []string {
	var names []string
	for _, n := range cluster.Nodes() {
		if !slices.Contains(but, n.Name) {
			names = append(names, n.Name)
		}
	}
	return names
}

// epochWatch asks every node of a cluster again and again what it holds, and judges it: epochs and offsets only grow, equal
// offsets have equal digests (I1, I6), and a partition has one leader in one leader epoch (I9, I14).
type epochWatch struct {
	running sync.WaitGroup
	// mu guards watch.
	mu    sync.Mutex
	watch *verify.Watch
}

func watchEpochs(ctx context.Context, t *testing.T, cluster *proctest.Cluster, topic string) *epochWatch {
	w := &epochWatch{watch: verify.NewWatch()}
	for _, n := range cluster.Nodes() {
		var view *verify.View
		if n.Role == up.Broker {
			view = viewOf(t, n.Addresses[0])
		}
		w.running.Go(func() {
			ticker := time.NewTicker(100 * time.Millisecond)
			defer ticker.Stop()
			for ctx.Err() == nil {
				w.look(ctx, cluster, n, view, topic)
				select {
				case <-ticker.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return w
}

func (w *epochWatch) look(ctx context.Context, cluster *proctest.Cluster, n up.Node, view *verify.View, topic string) {
	status, err := cluster.Status(n.Name)
	if err != nil {
		return // the next look comes soon
	}
	w.mu.Lock()
	w.watch.See(verify.Sighting{
		Node: n.Name, PID: status.PID, Lineage: status.Lineage.Number, LineageUUID: status.Lineage.UUID, Offset: status.MetadataOffset,
		ControllerEpoch: status.ControllerEpoch, Digest: status.Digest, BrokerEpoch: -1,
	})
	w.mu.Unlock()
	if view == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	told, err := view.Topic(ctx, topic)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range told.Partitions {
		w.watch.SeeLeader(verify.Leadership{
			Broker: n.Name, PID: status.PID, Topic: told.TopicID, Partition: p.Partition, LeaderEpoch: p.LeaderEpoch, Leader: p.Leader,
		})
	}
}

// judge waits for the last look.
func (w *epochWatch) judge(t *testing.T) {
	t.Helper()
	w.running.Wait()
	for _, v := range w.watch.Violations() {
		t.Error(v)
	}
	if w.watch.Sightings() == 0 {
		t.Error("nothing was seen")
	}
}

// awaitSuccessor waits until another quorum node is active with a later epoch, and the one before is not any more.
func awaitSuccessor(t *testing.T, cluster *proctest.Cluster, before string, epoch int64) (successor string) {
	t.Helper()
	proctest.Eventually(t, patience, "another controller is active", func() error {
		successor = ""
		for _, n := range cluster.Nodes() {
			status, err := cluster.Status(n.Name)
			switch {
			case n.Role != up.Quorum || err == nil && !status.Active:
			case err != nil:
				return err
			case n.Name == before:
				return fmt.Errorf("%s still says that it is active", before)
			case status.ControllerEpoch > epoch:
				successor = n.Name
			}
		}
		if successor == "" {
			return errors.New("none is active")
		}
		return nil
	})
	return successor
}

// awaitOtherLeaders waits until every other broker says that a partition is led, and not by this one.
func awaitOtherLeaders(t *testing.T, cluster *proctest.Cluster, topic, broker string) {
	t.Helper()
	id := cluster.Node(broker).ID
	for _, n := range cluster.Nodes() {
		if n.Role != up.Broker || n.Name == broker {
			continue
		}
		view := viewOf(t, n.Addresses[0])
		proctest.Eventually(t, patience, "others lead in the eyes of "+n.Name, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			told, err := view.Topic(ctx, topic)
			if err != nil {
				return err
			}
			for _, p := range told.Partitions {
				if p.Leader == id || p.Leader < 0 {
					return fmt.Errorf("partition %d is led by %d", p.Partition, p.Leader)
				}
			}
			return nil
		})
	}
}

// awaitProgressEverywhere waits until every partition has acknowledged records that it had not when it was called.
func awaitProgressEverywhere(t *testing.T, producer *verify.Producer, partitions int32) {
	t.Helper()
	before := producer.Reached()
	proctest.Eventually(t, patience, "every partition takes records", func() error {
		now := producer.Reached()
		for p := range partitions {
			if now[p] <= before[p] {
				return fmt.Errorf("partition %d has acknowledged %d and no more", p, now[p])
			}
		}
		return nil
	})
}

// createThrough creates topics through the first of these nodes that is a broker until one is created, see createNext.
func createThrough(t *testing.T, cluster *proctest.Cluster, names []string, prefix string) {
	t.Helper()
	i := slices.IndexFunc(names, func(name string) bool { return cluster.Node(name).Role == up.Broker })
	view, asked := viewOf(t, cluster.Node(names[i]).Addresses[0]), 0
	proctest.Eventually(t, patience, names[i]+" creates a topic", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		asked++
		return view.CreateTopic(ctx, fmt.Sprintf("%s-%d", prefix, asked), 1, 2)
	})
}

// TestACutOffControllerAndLeaderAreReplacedAndComeBack cuts the active controller and the leader of a partition off from all
// other nodes and from each other. Clients still reach both. Another controller leads, other brokers lead the partitions; a
// record that only the lonely leader has is not acknowledged. When the wires are healed nothing that was acknowledged is
// lost, no old epoch was to be seen, and all six processes agree.
func TestACutOffControllerAndLeaderAreReplacedAndComeBack(t *testing.T) {
	t.Parallel()
	proctest.NeedNamespaces(t)
	const topic = "kept"
	cluster := proctest.Start(t, proctest.Options{Namespaces: true})
	createTopic(t, cluster, topic, 6, 3)
	awaitFullISR(t, cluster, topic)
	producer, err := verify.NewProducer(verify.ProducerOptions{
		Seeds: cluster.BootstrapServers(), Topic: topic, InFlight: 256, PerSecond: 3000, ValueBytes: 128,
		// The lonely leader can answer nothing; a client that asks for patience with it only waits.
		Client: []kgo.Opt{kgo.ProduceRequestTimeout(2 * time.Second)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	working, endWork := context.WithTimeout(t.Context(), 4*patience)
	defer endWork()
	sending, endSending := context.WithCancel(working)
	defer endSending()
	produced := make(chan error, 1)
	go func() { produced <- producer.Run(sending, working) }()
	watch := watchEpochs(sending, t, cluster, topic)
	awaitProgress(t, producer)

	controller, leader := cluster.ActiveController(), leaderNode(t, cluster, topic, 0)
	first, err := cluster.Status(controller)
	if err != nil {
		t.Fatal(err)
	}
	cut := time.Now()
	cluster.Sever(controller, others(cluster, controller)...)
	cluster.Sever(leader, others(cluster, controller, leader)...)
	second := awaitSuccessor(t, cluster, controller, first.ControllerEpoch)
	t.Logf("%s is active %v after %s was cut off", second, time.Since(cut).Round(time.Millisecond), controller)
	awaitOtherLeaders(t, cluster, topic, leader)
	t.Logf("%s leads nothing in the eyes of the others after %v", leader, time.Since(cut).Round(time.Millisecond))
	awaitProgressEverywhere(t, producer, 6)
	t.Logf("every partition takes records after %v", time.Since(cut).Round(time.Millisecond))
	createThrough(t, cluster, others(cluster, leader), "meanwhile")

	cluster.Heal(controller)
	cluster.Heal(leader)
	healed := time.Now()
	cluster.AwaitReady(controller)
	cluster.AwaitReady(leader)
	t.Logf("both are ready %v after the wires were healed", time.Since(healed).Round(time.Millisecond))
	awaitProgressEverywhere(t, producer, 6)
	t.Logf("every partition takes records %v after the wires were healed", time.Since(healed).Round(time.Millisecond))
	endSending()
	if err := <-produced; err != nil {
		t.Errorf("the producer was told of errors: %v", err)
	}
	watch.judge(t)
	awaitFullISR(t, cluster, topic)
	checkKept(t, cluster, topic, producer.Acked())
	quiet := cluster.AwaitAgreement(patience)
	t.Logf("%d records sent, %d acknowledged; six processes at metadata offset %d, digest %s",
		producer.Sent(), len(producer.Acked()), quiet.MetadataOffset, quiet.Digest)
}
