package bench

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skiffmq/skiff/cmd/skiff/up"
)

// lossPartitions are the partitions of the topic that a lost broker led a share of.
const lossPartitions = 60

// BrokerLoss signals a broker and measures until every partition that it led has another live leader in the metadata of
// every other broker. The n-th run takes the n-th broker in turn, so that each has led since its last loss.
func (c *Cluster) BrokerLoss(ctx context.Context, n int, s syscall.Signal) (time.Duration, error) {
	brokers, err := c.nodes(ctx, up.Broker)
	if err != nil {
		return 0, err
	}
	if len(brokers) < 2 {
		return 0, fmt.Errorf("a lost broker needs another to lead: there is %d", len(brokers))
	}
	victim := brokers[n%len(brokers)]
	watch, err := watchAll(brokers)
	if err != nil {
		return 0, err
	}
	defer watch.close()
	topic, led, err := watch.lead(ctx, victim)
	if err != nil {
		return 0, err
	}
	sent, err := c.signal(ctx, victim, s)
	if err != nil {
		return 0, err
	}
	err = until(ctx, readyWithin, func() error { return watch.relieved(ctx, victim, topic, led) })
	took := time.Since(sent)
	err = errors.Join(err, c.revive(ctx, victim, s))
	return took, errors.Join(err, watch.drop(ctx, topic))
}

// watchers hold one client for each broker, so that each is asked for its own view.
type watchers map[int32]*kadm.Client

func watchAll(brokers []up.Node) (watchers, error) {
	w := watchers{}
	for _, b := range brokers {
		client, err := kgo.NewClient(kgo.SeedBrokers(b.Addresses[0]), kgo.MetadataMinAge(10*time.Millisecond))
		if err != nil {
			w.close()
			return nil, err
		}
		w[b.ID] = kadm.NewClient(client)
	}
	return w, nil
}

func (w watchers) close() {
	for _, admin := range w {
		admin.Close()
	}
}

// lead makes a topic and tells which of its partitions the victim leads, as every broker sees it.
func (w watchers) lead(ctx context.Context, victim up.Node) (topic string, led []int32, err error) {
	topic = fmt.Sprintf("bench-loss-%d", time.Now().UnixNano())
	replicas := int16(min(3, len(w)))
	if _, err := w[victim.ID].CreateTopic(ctx, lossPartitions, replicas, nil, topic); err != nil {
		return topic, nil, err
	}
	err = until(ctx, readyWithin, func() error {
		for id, admin := range w {
			detail, err := describe(ctx, admin, topic)
			if err != nil {
				return fmt.Errorf("broker %d: %w", id, err)
			}
			led = led[:0]
			for _, p := range detail.Partitions {
				if p.Leader == victim.ID {
					led = append(led, p.Partition)
				}
			}
		}
		if len(led) == 0 {
			return fmt.Errorf("%s leads none of %d partitions", victim.Name, lossPartitions)
		}
		return nil
	})
	return topic, led, err
}

// relieved says which broker does not yet tell of another leader for every partition.
func (w watchers) relieved(ctx context.Context, victim up.Node, topic string, led []int32) error {
	for id, admin := range w {
		if id == victim.ID {
			continue
		}
		detail, err := describe(ctx, admin, topic)
		if err != nil {
			return fmt.Errorf("broker %d: %w", id, err)
		}
		for _, n := range led {
			if p := detail.Partitions[n]; p.Err != nil || p.Leader < 0 || p.Leader == victim.ID {
				return fmt.Errorf("broker %d: partition %d has leader %d: %w", id, n, p.Leader, p.Err)
			}
		}
	}
	return nil
}

func (w watchers) drop(ctx context.Context, topic string) error {
	for _, admin := range w {
		_, err := admin.DeleteTopic(ctx, topic)
		return err
	}
	return nil
}

func describe(ctx context.Context, admin *kadm.Client, topic string) (kadm.TopicDetail, error) {
	topics, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	detail := topics[topic]
	return detail, detail.Err
}
