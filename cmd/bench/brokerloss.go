package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skiffmq/skiff/cmd/skiff/up"
	"github.com/skiffmq/skiff/cmd/verify"
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
	topic := fmt.Sprintf("bench-loss-%d", time.Now().UnixNano())
	admin, err := adminOf(brokers)
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	if _, err := admin.CreateTopic(ctx, lossPartitions, int16(min(3, len(brokers))), nil, topic); err != nil {
		return 0, err
	}
	led, err := watch.lead(ctx, victim, topic)
	if err != nil {
		return 0, err
	}
	sent, err := c.signal(ctx, victim, s)
	if err != nil {
		return 0, err
	}
	err = until(ctx, func() error { return watch.relieved(ctx, victim, topic, led) })
	took := time.Since(sent)
	err = errors.Join(err, c.revive(ctx, victim, s))
	_, dropErr := admin.DeleteTopic(ctx, topic)
	return took, errors.Join(err, dropErr)
}

func adminOf(brokers []up.Node) (*kadm.Client, error) {
	var seeds []string
	for _, b := range brokers {
		seeds = append(seeds, b.Addresses[0])
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(client), nil
}

// watchers hold one view for each broker, so that each is asked for what it knows itself.
type watchers map[int32]*verify.View

func watchAll(brokers []up.Node) (watchers, error) {
	w := watchers{}
	for _, b := range brokers {
		view, err := verify.NewView(b.Addresses[0])
		if err != nil {
			w.close()
			return nil, err
		}
		w[b.ID] = view
	}
	return w, nil
}

func (w watchers) close() {
	for _, view := range w {
		view.Close()
	}
}

// lead tells which partitions of the topic the victim leads, once every broker knows them all.
func (w watchers) lead(ctx context.Context, victim up.Node, topic string) (led []int32, err error) {
	err = until(ctx, func() error {
		for id, view := range w {
			t, err := view.Topic(ctx, topic)
			if err != nil {
				return fmt.Errorf("broker %d: %w", id, err)
			}
			led = led[:0]
			for _, p := range t.Partitions {
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
	return led, err
}

// relieved says which broker does not yet tell of another leader for every partition.
func (w watchers) relieved(ctx context.Context, victim up.Node, topic string, led []int32) error {
	for id, view := range w {
		if id == victim.ID {
			continue
		}
		t, err := view.Topic(ctx, topic)
		if err != nil {
			return fmt.Errorf("broker %d: %w", id, err)
		}
		for _, p := range t.Partitions {
			if slices.Contains(led, p.Partition) && (p.ErrorCode != 0 || p.Leader < 0 || p.Leader == victim.ID) {
				return fmt.Errorf("broker %d: partition %d has leader %d, error %d", id, p.Partition, p.Leader, p.ErrorCode)
			}
		}
	}
	return nil
}
