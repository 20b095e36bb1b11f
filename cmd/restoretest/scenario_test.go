package restoretest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/verify"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

const (
	partitionsEach = 2
	deletedTopics  = 5
	newerTopics    = 10
	// perSecond is what each producer sends; many topics together are more than enough.
	perSecond = 50
)

// load is a producer of one topic, from the start until it is stopped.
type load struct {
	topic    string
	producer *verify.Producer
	stop     context.CancelFunc
	done     chan error
}

// disaster is the large test.
type disaster struct {
	t     *testing.T
	c     *proctest.Cluster
	seeds []string         // brokers that answer
	ids   map[int64]bool   // producer ids that were given out
	known map[string]*load // of the topics that the snapshot knows
	newer map[string]*load // of those that were created after it
}

// TestRestoreBringsBackEveryAcknowledgedRecord: topics are produced to without a pause, by idempotent producers with
// acks=all. A snapshot is saved; after it leaders and ISRs move, topics go and topics come. Then every disk of the quorum
// is destroyed and the snapshot restored, while the brokers and the producers run on.
func TestRestoreBringsBackEveryAcknowledgedRecord(t *testing.T) {
	d := begin(t)
	took := marks(t)
	file := filepath.Join(d.c.Dir(), "nightly.snapshot")
	before := save(t, d.c, file)
	d.change(before)
	took("change")
	last := save(t, d.c, filepath.Join(d.c.Dir(), "last.snapshot"))

	destroyQuorum(t, d.c)
	startEmpty(t, d.c)
	d.c.Resume("b2")
	restore(t, d.c, file, "--replace")
	took("restore")
	for _, b := range []string{"b1", "b2", "b3"} {
		awaitLineage(t, d.c, b, last.Lineage().ID.UUID.String())
	}
	t.Log(skiff(t, d.c, "quorum", "awaiting", "--wait", "--timeout", "60s"))
	took("elected")

	d.refusedUntilConfirmed()
	d.goOn()
	took("producers heard")
	d.checkKnown()
	took("known read")
	d.checkStrays(last)
	took("strays")
	skiff(t, d.c, "quorum", "confirm")
	d.checkUndelete()
	took("undeleted")
	d.checkNumbers(before, last)
	took("numbers")
}

// marks logs how long each part of a test took.
func marks(t *testing.T) func(what string) {
	last := time.Now()
	return func(what string) {
		now := time.Now()
		t.Logf("%-16s %s", what, now.Sub(last).Round(10*time.Millisecond))
		last = now
	}
}

// begin starts the cluster, the topics and the producers, and waits until each has been heard.
func begin(t *testing.T) *disaster {
	d := &disaster{t: t, ids: map[int64]bool{}, c: proctest.Start(t, proctest.Options{}), known: map[string]*load{}, newer: map[string]*load{}}
	d.seeds = d.c.BootstrapServers()
	for i := range *topicsFlag {
		d.known[fmt.Sprintf("known-%d", i)] = nil
	}
	d.create(d.known, 1)
	d.heard(d.known, 20)
	for _, seed := range d.seeds {
		d.takeProducerIDs(seed, 50)
	}
	return d
}

// create creates the topics and starts a producer of each.
func (d *disaster) create(loads map[string]*load, firstProducer uint32) {
	d.t.Helper()
	var names []string
	for name := range loads {
		names = append(names, name)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(d.seeds...))
	if err != nil {
		d.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	answers, err := kadm.NewClient(client).CreateTopics(ctx, partitionsEach, 3, nil, names...)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	for i, name := range names {
		loads[name] = d.produce(name, firstProducer+uint32(i))
	}
}

func (d *disaster) produce(topic string, number uint32) *load {
	d.t.Helper()
	p, err := verify.NewProducer(verify.ProducerOptions{
		Seeds: d.seeds, Topic: topic, Producer: number, InFlight: 32, PerSecond: perSecond, ValueBytes: 64,
		Client: []kgo.Opt{ // a request to a frozen broker is given up, and repeated, soon
			kgo.UnknownTopicRetries(-1), kgo.ProduceRequestTimeout(2 * time.Second), kgo.RequestTimeoutOverhead(time.Second), kgo.MetadataMinAge(200 * time.Millisecond),
		},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(p.Close)
	ctx, stop := context.WithCancel(context.Background())
	d.t.Cleanup(stop)
	l := &load{topic: topic, producer: p, stop: stop, done: make(chan error, 1)}
	go func() { l.done <- p.Run(ctx, context.Background()) }()
	return l
}

// end stops a producer and waits for its last answers.
func (d *disaster) end(l *load) {
	d.t.Helper()
	l.stop()
	select {
	case err := <-l.done:
		if err != nil {
			d.t.Errorf("producer of %s: %v", l.topic, err)
		}
		l.done <- nil // it may be ended again
	case <-time.After(patience):
		d.t.Fatalf("producer of %s: records are not answered: %d of %d acknowledged", l.topic, len(l.producer.Acked()), l.producer.Sent())
	}
}

// heard waits until each producer has n more records acknowledged.
func (d *disaster) heard(loads map[string]*load, n int) {
	d.t.Helper()
	goal := map[string]int{}
	for name, l := range loads {
		goal[name] = len(l.producer.Acked()) + n
	}
	proctest.Eventually(d.t, patience, "every producer is heard", func() error {
		for name, l := range loads {
			if got := len(l.producer.Acked()); got < goal[name] {
				return fmt.Errorf("%s: %d of %d: %w", name, got, goal[name], l.producer.Err())
			}
		}
		return nil
	})
}

// change makes the snapshot old: broker 2 freezes, so that leaders move and ISRs shrink, and misses all that follows.
func (d *disaster) change(before *fsm.Image) {
	d.t.Helper()
	d.c.Pause("b2")
	d.seeds = nil
	for _, n := range d.c.Nodes() {
		if n.Name == "b1" || n.Name == "b3" {
			d.seeds = append(d.seeds, n.Addresses[0])
		}
	}
	proctest.Eventually(d.t, patience, "broker 2 leads nothing", func() error {
		img := save(d.t, d.c, filepath.Join(d.c.Dir(), "look.snapshot"))
		if n := img.NumLedBy(2); n > 0 {
			return fmt.Errorf("it leads %d partitions", n)
		}
		if img.NumLeaderless() > 0 {
			return errors.New("partitions have no leader")
		}
		return nil
	})
	if before.NumLedBy(2) == 0 {
		d.t.Error("broker 2 led nothing in the snapshot, so no leader moved")
	}
	for i := range deletedTopics {
		name := fmt.Sprintf("known-%d", i)
		d.end(d.known[name])
		skiff(d.t, d.c, "topic", "delete", name, "--yes", "--bootstrap-server", strings.Join(d.seeds, ","))
	}
	for i := range newerTopics {
		d.newer[fmt.Sprintf("newer-%d", i)] = nil
	}
	d.create(d.newer, 10_000)
	d.heard(d.newer, 20)
	d.heard(d.living(), 50)
	for _, l := range d.newer {
		d.end(l)
	}
}

// living are the known topics that were not deleted.
func (d *disaster) living() map[string]*load {
	out := map[string]*load{}
	for name, l := range d.known {
		out[name] = l
	}
	for i := range deletedTopics {
		delete(out, fmt.Sprintf("known-%d", i))
	}
	return out
}

// refusedUntilConfirmed: nobody changes the metadata before somebody has looked, and the brokers serve meanwhile.
func (d *disaster) refusedUntilConfirmed() {
	d.t.Helper()
	if out, err := d.c.Skiff("topic", "create", "too-early"); err == nil || !strings.Contains(err.Error(), "skiff quorum confirm") {
		d.t.Errorf("a topic was created before the restore was confirmed: %s, %v", out, err)
	}
	s, err := d.c.Status(d.c.ActiveController())
	if err != nil || !s.Ready || !s.Unconfirmed {
		d.t.Errorf("the active controller is ready %t and unconfirmed %t: %v", s.Ready, s.Unconfirmed, err)
	}
}

// goOn: the producers, which know nothing of all this, are heard again, with everything that they had sent.
func (d *disaster) goOn() {
	d.t.Helper()
	d.heard(d.living(), 50)
	for _, l := range d.living() {
		d.end(l)
	}
}

// checkKnown reads every topic that the snapshot knows, the deleted ones among them.
func (d *disaster) checkKnown() {
	d.t.Helper()
	records := 0
	for name, l := range d.known {
		records += len(l.producer.Acked())
		d.checkTopic(name, l.producer.Acked())
	}
	d.t.Logf("%d acknowledged records in %d topics are all there", records, len(d.known))
}

func (d *disaster) checkTopic(name string, acked []verify.Acked) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	read, err := verify.ReadAll(ctx, d.c.BootstrapServers(), name)
	if err != nil {
		d.t.Error(err)
		return
	}
	for _, v := range verify.Check(acked, read) {
		d.t.Errorf("%s: %v", name, v)
	}
}

// checkStrays: what the restored metadata does not know is put away, on each broker that had it.
func (d *disaster) checkStrays(last *fsm.Image) {
	d.t.Helper()
	for name := range d.newer {
		topic, ok := last.TopicByName(name)
		if !ok {
			d.t.Fatalf("%s is not in the last snapshot of the lost quorum", name)
		}
		for i, p := range topic.Partitions() {
			for _, broker := range p.ISR {
				d.awaitStray(broker, fmt.Sprintf("%s-%d@*", topic.ID(), i))
			}
		}
	}
}

func (d *disaster) awaitStray(broker int32, pattern string) {
	d.t.Helper()
	dir := filepath.Join(d.c.Dir(), d.c.BrokerNode(broker), "stray")
	proctest.Eventually(d.t, patience, pattern+" is a stray", func() error {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("%v in %s: %w", found, dir, err)
		}
		return nil
	})
}

// checkUndelete brings back one of the newer topics, with all its records.
func (d *disaster) checkUndelete() {
	d.t.Helper()
	c, err := client.New(client.Config{Controllers: d.c.Controllers()})
	if err != nil {
		d.t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	answer, err := c.UndeleteTopic(ctx, &controllerv1.UndeleteTopicRequest{Name: "newer-3"})
	if err != nil || answer.GetError() != nil || len(answer.GetEmptyPartitions()) > 0 {
		d.t.Fatalf("undelete: %v, %v", answer, err)
	}
	d.checkTopic("newer-3", d.newer["newer-3"].producer.Acked())
}

// checkNumbers: nothing that the lost lineage gave out is given out again.
func (d *disaster) checkNumbers(before, last *fsm.Image) {
	t := d.t
	t.Helper()
	skiff(t, d.c, "topic", "create", "after", "--partitions", "2")
	if newest := d.takeProducerIDs(d.seeds[0], idBlock+1); newest < last.NextProducerID() {
		t.Errorf("producer id %d, and the lost lineage was at %d", newest, last.NextProducerID())
	}
	now := save(t, d.c, filepath.Join(d.c.Dir(), "after.snapshot"))
	for _, old := range []*fsm.Image{before, last} {
		if now.NextOffset() <= old.NextOffset() || now.ClaimOffset() < old.NextOffset() {
			t.Errorf("metadata offset %d after %d, claim at %d", now.NextOffset(), old.NextOffset(), now.ClaimOffset())
		}
		if now.ControllerEpoch() <= old.ControllerEpoch() {
			t.Errorf("controller epoch %d after %d", now.ControllerEpoch(), old.ControllerEpoch())
		}
		for b := range old.Brokers() {
			if n, ok := now.Broker(b.ID); !ok || n.Epoch < old.NextOffset() {
				t.Errorf("broker %d: %+v after epoch %d", b.ID, n, b.Epoch)
			}
		}
		checkTopics(t, old, now)
	}
}

// checkTopics compares leader and partition epochs, and that no id has another name.
func checkTopics(t *testing.T, old, now *fsm.Image) {
	t.Helper()
	if fresh, ok := now.TopicByName("after"); !ok {
		t.Error("the new topic is missing")
	} else if _, twice := old.Topic(fresh.ID()); twice {
		t.Errorf("topic id %s is given out twice", fresh.ID())
	}
	for topic := range old.Topics() {
		is, ok := now.Topic(topic.ID())
		if !ok {
			continue
		}
		if is.Name() != topic.Name() {
			t.Errorf("topic id %s is %s now, was %s", topic.ID(), is.Name(), topic.Name())
		}
		for i, p := range topic.Partitions() {
			if n, ok := is.Partition(i); !ok || n.LeaderEpoch <= p.LeaderEpoch || n.PartitionEpoch <= p.PartitionEpoch {
				t.Errorf("%s/%d: leader epoch %d after %d, partition epoch %d after %d", topic.Name(), i, n.LeaderEpoch, p.LeaderEpoch, n.PartitionEpoch, p.PartitionEpoch)
			}
		}
	}
}

// idBlock is how many producer ids a broker reserves at a time: one that it reserved in the lost lineage it may use up.
const idBlock = 1000

// takeProducerIDs has a broker give out producer ids, each of which must be new, and returns the last.
func (d *disaster) takeProducerIDs(seed string, n int) (last int64) {
	d.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(seed))
	if err != nil {
		d.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	for range n {
		request := kmsg.NewPtrInitProducerIDRequest()
		request.TransactionTimeoutMillis = 1000
		response, err := client.SeedBrokers()[0].Request(ctx, request)
		if err != nil {
			d.t.Fatal(err)
		}
		answer := response.(*kmsg.InitProducerIDResponse)
		if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
			d.t.Fatal(err)
		}
		if last = answer.ProducerID; d.ids[last] {
			d.t.Fatalf("producer id %d is given out twice", last)
		}
		d.ids[last] = true
	}
	return last
}
