package golden

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Brokers is how many brokers a cluster that is asked has.
const Brokers = 3

// Answer is what a cluster said to a step.
type Answer struct {
	// Name of the step.
	Name string `json:"name"`
	// Version of the request.
	Version int16 `json:"version"`
	// Answer without what differs from cluster to cluster by right; what could not be asked is a text.
	Answer any `json:"answer"`
}

// Settle waits until every broker knows what the last step changed.
type Settle func(ctx context.Context) error

// Ask asks every step of one broker and returns the answers in the order of the steps.
func Ask(ctx context.Context, seeds []string, settle Settle) ([]Answer, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.MaxVersions(kversion.V4_1_0()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ids := make(map[string][16]byte)
	answers := make([]Answer, 0, len(Steps()))
	if err := settle(ctx); err != nil {
		return nil, fmt.Errorf("wait for %d brokers: %w", Brokers, err)
	}
	for _, step := range Steps() {
		request := step.Request(func(topic string) [16]byte { return ids[topic] })
		answer, err := askOne(ctx, client, request, ids)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.Name, err)
		}
		answers = append(answers, Answer{Name: step.Name, Version: request.GetVersion(), Answer: answer})
		if err := settle(ctx); err != nil {
			return nil, fmt.Errorf("after %q: %w", step.Name, err)
		}
	}
	return answers, nil
}

// askOne asks broker 1. The ids of created topics are kept, and the unknown ones of the answer are named after topics.
func askOne(ctx context.Context, client *kgo.Client, request kmsg.Request, ids map[string][16]byte) (any, error) {
	response, err := client.Broker(1).Request(ctx, request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return "no answer", nil
	}
	if created, ok := response.(*kmsg.CreateTopicsResponse); ok {
		for i, t := range created.Topics {
			if t.ErrorCode == 0 {
				ids[t.Topic] = t.TopicID
			}
			created.Topics[i].Configs = slices.DeleteFunc(t.Configs, isDefault)
		}
	}
	names := make(map[[16]byte]string, len(ids))
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		names[ids[name]] = name
	}
	return normal(response, names), nil
}

// isDefault: nobody set the config. Which configs a topic has by default is another question than what a request did.
func isDefault(c kmsg.CreateTopicsResponseTopicConfig) bool {
	return c.Source != int8(kmsg.ConfigSourceDynamicTopicConfig)
}

// pollInterval between two looks at the brokers. A broker that is starting refuses connections, which is no error yet.
const pollInterval = 50 * time.Millisecond

// Settled waits until all brokers answer the same metadata, in which every partition has a leader and a full ISR.
func Settled(seeds []string) (Settle, func(), error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) error {
		poll := time.NewTicker(pollInterval)
		defer poll.Stop()
		for {
			same, err := agree(ctx, client)
			if same {
				return nil
			}
			select {
			case <-ctx.Done():
				return errors.Join(ctx.Err(), err)
			case <-poll.C:
			}
		}
	}, client.Close, nil
}

// agree reports whether all brokers answer the same metadata, without a partition that is still moving.
func agree(ctx context.Context, client *kgo.Client) (bool, error) {
	all, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
	if err != nil || len(all.Brokers) < Brokers {
		return false, err
	}
	var first string
	for id := range Brokers {
		request := kmsg.NewPtrMetadataRequest()
		request.Topics = nil
		response, err := request.RequestWith(ctx, client.Broker(id+1))
		if err != nil {
			return false, err
		}
		text, steady := topicsText(response)
		if !steady || id > 0 && text != first {
			return false, nil
		}
		first = text
	}
	return true, nil
}

// topicsText is a text of all topics, and whether nothing in it is on its way.
func topicsText(response *kmsg.MetadataResponse) (string, bool) {
	lines := make([]string, 0, len(response.Topics))
	steady := true
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			steady = steady && p.ErrorCode == 0 && len(p.ISR) == len(p.Replicas)
			lines = append(lines, fmt.Sprint(t.TopicID, p.Partition, p.Leader, p.LeaderEpoch, p.Replicas))
		}
	}
	slices.Sort(lines)
	return fmt.Sprint(lines), steady
}
