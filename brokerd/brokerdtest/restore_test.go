package brokerdtest_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skiffmq/skiff/brokerd"
	"github.com/skiffmq/skiff/brokerd/brokerdtest"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// produceAlong produces to a topic, one record after another, until it is told to stop; it then returns what was acknowledged.
func produceAlong(t *testing.T, client *kgo.Client, topic string) (stop func() []string) {
	t.Helper()
	ending, acked := make(chan struct{}), make(chan []string, 1)
	go func() {
		var all []string
		for i := 0; ; i++ {
			select {
			case <-ending:
				acked <- all
				return
			default:
			}
			all = append(all, produce(t, client, topic, i, 1)...)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return func() []string {
		close(ending)
		return <-acked
	}
}

// numbers are what must not be given out twice.
type numbers struct {
	leaderEpochs map[fsm.PartitionID]int32
	brokerEpochs map[int32]int64
	epoch, next  int64
}

func numbersOf(img *fsm.Image) numbers {
	n := numbers{leaderEpochs: map[fsm.PartitionID]int32{}, brokerEpochs: map[int32]int64{}, epoch: img.ControllerEpoch(), next: img.NextOffset()}
	for t := range img.Topics() {
		for i, p := range t.Partitions() {
			n.leaderEpochs[fsm.PartitionID{Topic: t.ID(), Partition: i}] = p.LeaderEpoch
		}
	}
	for b := range img.Brokers() {
		n.brokerEpochs[b.ID] = b.Epoch
	}
	return n
}

// above fails unless every number of a lineage is above what the one before had given out.
func above(t *testing.T, now, before numbers) {
	t.Helper()
	if now.epoch <= before.epoch || now.next <= before.next {
		t.Errorf("I6: controller epoch %d after %d, metadata offset %d after %d", now.epoch, before.epoch, now.next, before.next)
	}
	for id, epoch := range now.leaderEpochs {
		if epoch <= before.leaderEpochs[id] {
			t.Errorf("I9: %v has leader epoch %d after %d", id, epoch, before.leaderEpochs[id])
		}
	}
	for id, epoch := range now.brokerEpochs {
		if epoch <= before.brokerEpochs[id] {
			t.Errorf("I19: broker %d has broker epoch %d after %d", id, epoch, before.brokerEpochs[id])
		}
	}
}

// TestBrokersFollowARestoredQuorum loses the whole quorum and restores it from an older snapshot while the brokers run
// and a producer goes on. The ISR has shrunk since, leaders have moved, topics came and went.
func TestBrokersFollowARestoredQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := brokerdtest.New(t, 1, 3, func(cfg *brokerd.Config) { cfg.LagMax = 4 * time.Second })
		c.CreateTopic("t", 1, 3, nil)
		c.CreateTopic("gone", 1, 3, nil)
		client := c.Client()
		gone := produce(t, c.Client(), "gone", 0, 3)
		stop := produceAlong(t, client, "t")
		time.Sleep(time.Second)
		saved := c.Image()

		first := c.Leader("t", 0)
		away, second := c.Brokers[first.ID%3], c.Brokers[(first.ID+1)%3]
		c.Isolate(away)
		c.Await("the ISR to shrink", func() bool { b, _ := c.Image().Broker(away.ID); return len(c.Partition("t", 0).ISR) == 2 && b.Fenced })
		if _, err := c.Controller().CreateTopics(t.Context(), &controllerv1.CreateTopicsRequest{
			Topics: []*controllerv1.CreatableTopic{{Name: "newer", NumPartitions: 2, ReplicationFactor: 2}},
		}); err != nil {
			t.Fatal(err)
		}
		c.Await("the brokers to know the topic", func() bool {
			_, b1 := first.Status().Image.TopicByName("newer")
			_, b2 := second.Status().Image.TopicByName("newer")
			return b1 && b2
		})
		// A client that has never heard of the broker that is cut off: that one still serves what it knew.
		newer := produce(t, c.Client(kgo.SeedBrokers(first.Name+":9092", second.Name+":9092")), "newer", 0, 6)
		if _, err := c.Controller().DeleteTopics(t.Context(), &controllerv1.DeleteTopicsRequest{Topics: []*controllerv1.DeletableTopic{{Name: "gone"}}}); err != nil {
			t.Fatal(err)
		}
		c.Crash(first)
		c.Await("another leader", func() bool { p := c.Partition("t", 0); return p.Leader >= 0 && p.Leader != first.ID })
		c.Start(first)
		c.AwaitISR("t", 0, first.ID, c.Partition("t", 0).Leader)
		before := numbersOf(c.Image())
		c.DestroyQuorum()
		time.Sleep(3 * time.Second)
		c.Heal(away)
		c.Restore(saved)
		c.AwaitElected()
		c.AwaitReady()
		c.AwaitISR("t", 0, 1, 2, 3)
		time.Sleep(time.Second)
		acked := stop()
		same(t, acked, consume(t, c, "t", len(acked)))
		above(t, numbersOf(c.Image()), before)
		if n := ends(t, c, "t"); n != int64(len(acked)) {
			t.Fatalf("%d records for %d acknowledged ones: an idempotent producer wrote twice", n, len(acked))
		}
		same(t, gone, consume(t, c, "gone", len(gone)))
		putAway(t, c, "newer", saved)

		if resp, err := c.Controller().UndeleteTopic(t.Context(), &controllerv1.UndeleteTopicRequest{Name: "newer"}); err == nil {
			t.Fatalf("I22: an unconfirmed lineage changes: %v", resp)
		}
		c.Confirm()
		undelete(t, c, "newer")
		c.AwaitElected()
		got := consume(t, c, "newer", len(newer))
		slices.Sort(got)
		same(t, newer, got)
		for _, b := range c.Brokers {
			if names := list(t, b, "stray"); len(names) != 0 {
				t.Fatalf("%s still has strays %v", b.Name, names)
			}
		}
		c.AwaitSame()
	})
}

// undelete brings a topic back as soon as every broker has said what it holds.
func undelete(t *testing.T, c *brokerdtest.Cluster, topic string) {
	t.Helper()
	controller := c.Controller()
	c.Await("the topic to be brought back", func() bool {
		resp, err := controller.UndeleteTopic(t.Context(), &controllerv1.UndeleteTopicRequest{Name: topic})
		return err == nil && resp.GetError() == nil && len(resp.GetEmptyPartitions()) == 0
	})
}

// putAway fails unless every replica of a topic is a stray, and the restored metadata does not know the topic.
func putAway(t *testing.T, c *brokerdtest.Cluster, topic string, saved *fsm.Image) {
	t.Helper()
	if _, ok := c.Image().TopicByName(topic); ok {
		t.Fatalf("the restored metadata knows %s", topic)
	}
	replicas := 0
	for _, b := range c.Brokers {
		for _, name := range list(t, b, "stray") {
			replicas++
			if !strings.Contains(name, "@2.") {
				t.Errorf("%s: stray %s was not taken by the second lineage", b.Name, name)
			}
		}
		for _, name := range list(t, b, "partitions") {
			id, _, _ := strings.Cut(name, "@")
			if uuid, err := fsm.ParseUUID(id[:22]); err == nil {
				if _, ok := saved.Topic(uuid); !ok {
					t.Errorf("%s: %s is not a replica of the restored metadata", b.Name, name)
				}
			}
		}
	}
	if replicas != 4 {
		t.Fatalf("%d strays of a topic with 2 partitions on 2 brokers each", replicas)
	}
	resp, err := c.Controller().ListStrays(t.Context(), &controllerv1.ListStraysRequest{})
	if err != nil || len(resp.GetTopics()) != 1 || resp.GetTopics()[0].GetName() != topic || len(resp.GetTopics()[0].GetReplicas()) != 4 {
		t.Fatalf("the controller heard of %v, %v", resp, err)
	}
}

// ends is the number of records of a topic.
func ends(t *testing.T, c *brokerdtest.Cluster, topic string) (sum int64) {
	t.Helper()
	client := c.Client()
	defer client.Close()
	offsets, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	offsets.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		sum += o.Offset
	})
	return sum
}
