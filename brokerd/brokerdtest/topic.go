package brokerdtest

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/client"
)

// dialTimeout bounds a client's wait for a broker that is cut off.
const dialTimeout = 3 * time.Second

// Client is a Kafka client on the host "client". It is closed with the test.
func (c *Cluster) Client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	var seeds []string
	for _, b := range c.Brokers {
		seeds = append(seeds, b.Name+":9092")
	}
	base := []kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.Dialer(func(ctx context.Context, _, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout) // kgo leaves that to a dialer that it is given
			defer cancel()
			return c.Quorum.Net.Host("client").Dial(ctx, addr)
		}),
	}
	kafka, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		c.t.Fatalf("make a client: %v", err)
	}
	c.t.Cleanup(kafka.Close)
	return kafka
}

// CreateTopic creates a topic through any broker and waits until every replica plays its role.
func (c *Cluster) CreateTopic(topic string, partitions int32, replicas int16, configs map[string]*string) {
	c.t.Helper()
	kafka := c.Client()
	defer kafka.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := kadm.NewClient(kafka).CreateTopic(ctx, partitions, replicas, configs, topic)
	if err == nil {
		err = resp.Err
	}
	if err != nil {
		c.t.Fatalf("create topic %s: %v", topic, err)
	}
	c.AwaitSame()
}

// Partition is a partition as the quorum has it.
func (c *Cluster) Partition(topic string, partition int32) fsm.Partition {
	c.t.Helper()
	t, ok := c.Image().TopicByName(topic)
	if !ok {
		c.t.Fatalf("topic %s does not exist", topic)
	}
	p, ok := t.Partition(partition)
	if !ok {
		c.t.Fatalf("topic %s has no partition %d", topic, partition)
	}
	return p
}

// Leader is the broker that leads a partition; nil if none does.
func (c *Cluster) Leader(topic string, partition int32) *Broker {
	c.t.Helper()
	return c.Broker(c.Partition(topic, partition).Leader)
}

// Broker is the one with that id, nil if there is none.
func (c *Cluster) Broker(id int32) *Broker {
	i := slices.IndexFunc(c.Brokers, func(b *Broker) bool { return b.ID == id })
	if i < 0 {
		return nil
	}
	return c.Brokers[i]
}

// AwaitISR waits until the ISR of a partition is exactly these brokers, in any order.
func (c *Cluster) AwaitISR(topic string, partition int32, ids ...int32) {
	c.t.Helper()
	slices.Sort(ids)
	c.Await("the ISR", func() bool {
		isr := slices.Clone(c.Partition(topic, partition).ISR)
		slices.Sort(isr)
		return slices.Equal(isr, ids)
	})
}

// Controller is a client of the quorum on the host "tool", closed with the test.
func (c *Cluster) Controller() *client.Client {
	c.t.Helper()
	var addrs []string
	for _, n := range c.Quorum.Nodes {
		addrs = append(addrs, n.Addr)
	}
	cl, err := client.New(client.Config{Controllers: addrs, Dial: c.Quorum.Net.Host("tool").Dial})
	if err != nil {
		c.t.Fatalf("make a client of the quorum: %v", err)
	}
	c.t.Cleanup(func() {
		if err := cl.Close(); err != nil {
			c.t.Errorf("close the client of the quorum: %v", err)
		}
	})
	return cl
}
