package verify

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// View asks one broker for its own metadata. A usual client asks whichever broker it likes, which hides what one of them
// does not know yet, and waits for those that are frozen.
type View struct {
	client *kgo.Client
}

// NewView returns the view of the broker at a host:port. It connects when it is asked.
func NewView(address string) (*View, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return nil, fmt.Errorf("view of %s: %w", address, err)
	}
	return &View{client: client}, nil
}

// Topic returns a topic as the broker tells it; an error of the topic is an error, those of partitions stand in them.
func (v *View) Topic(ctx context.Context, name string) (kmsg.MetadataResponseTopic, error) {
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(name)
	request.Topics = append(request.Topics, topic)
	response, err := v.client.SeedBrokers()[0].Request(ctx, request)
	if err != nil {
		return kmsg.MetadataResponseTopic{}, err
	}
	topics := response.(*kmsg.MetadataResponse).Topics
	if len(topics) != 1 {
		return kmsg.MetadataResponseTopic{}, fmt.Errorf("asked for topic %s, told of %d topics", name, len(topics))
	}
	return topics[0], kerr.ErrorForCode(topics[0].ErrorCode)
}

// CreateTopic creates a topic through this broker; the cluster's defaults stand for partitions or replicas of -1.
func (v *View) CreateTopic(ctx context.Context, name string, partitions int32, replicas int16) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, replicas
	request.Topics = append(request.Topics, topic)
	response, err := v.client.SeedBrokers()[0].Request(ctx, request)
	if err != nil {
		return err
	}
	topics := response.(*kmsg.CreateTopicsResponse).Topics
	if len(topics) != 1 {
		return fmt.Errorf("asked to create topic %s, told of %d topics", name, len(topics))
	}
	return kerr.ErrorForCode(topics[0].ErrorCode)
}

// Close ends the connection.
func (v *View) Close() { v.client.Close() }
