package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// Config is what a server needs. All fields must be set but those that name a default.
type Config struct {
	// NodeID is the broker id of this broker.
	NodeID int32
	// BrokerEpoch returns the epoch of this broker's registration, -1 before it is registered.
	BrokerEpoch func() int64
	// Image returns the metadata as this broker has applied it, nil before the first. A handler asks once per request.
	Image func() *fsm.Image
	// Await waits until the image has applied a metadata offset, or ctx ends.
	Await func(ctx context.Context, metadataOffset int64) error
	// Replicas are the partitions that this broker holds.
	Replicas Replicas
	// Controller is the active controller, wherever it is.
	Controller Controller
	// AutoCreateTopics lets clients create topics by asking for their metadata (Kafka's auto.create.topics.enable).
	AutoCreateTopics bool
	// Static is the static configuration of this process, as far as it concerns topics.
	Static topicconfig.Static
	// Limits on what peers can make us hold; zero values are defaults.
	Limits Limits
	// Logger of the server.
	Logger hclog.Logger
}

// Replicas is what the server needs of brokerd/replica's Manager. It is called from any number of goroutines.
type Replicas interface {
	// Append appends one record batch to a partition that this broker leads. It may keep records only while it runs.
	Append(id fsm.PartitionID, records []byte, opts replica.AppendOptions) (replica.Appended, error)
	// AwaitReplicated waits until the ISR has what was appended; one error or nil for each. It returns when ctx ends.
	AwaitReplicated(ctx context.Context, appended []replica.Appended) []error
	// Fetch reads partitions, waiting for records as the request says; one result for each partition, in order. When ctx
	// ends it returns at once with what there is.
	Fetch(ctx context.Context, req replica.FetchRequest) []replica.FetchResult
	// ListOffset finds an offset by time.
	ListOffset(id fsm.PartitionID, query replica.ListOffsetQuery) (replica.ListOffsetResult, error)
	// EpochEnd finds where the records of a leader epoch end.
	EpochEnd(id fsm.PartitionID, currentLeaderEpoch, leaderEpoch int32) (replica.EpochEnd, error)
	// LogDir describes what this broker holds.
	LogDir() (replica.LogDir, error)
}

// Controller is what the server asks of the active controller; quorum/client's Client finds it and retries what is
// certainly not done, until ctx ends.
type Controller interface {
	CreateTopics(ctx context.Context, req *controllerv1.CreateTopicsRequest) (*controllerv1.CreateTopicsResponse, error)
	DeleteTopics(ctx context.Context, req *controllerv1.DeleteTopicsRequest) (*controllerv1.DeleteTopicsResponse, error)
	AlterConfigs(ctx context.Context, req *controllerv1.AlterConfigsRequest) (*controllerv1.AlterConfigsResponse, error)
	CreatePartitions(ctx context.Context, req *controllerv1.CreatePartitionsRequest) (*controllerv1.CreatePartitionsResponse, error)
	ElectLeaders(ctx context.Context, req *controllerv1.ElectLeadersRequest) (*controllerv1.ElectLeadersResponse, error)
	AlterReassignments(ctx context.Context, req *controllerv1.AlterReassignmentsRequest) (*controllerv1.AlterReassignmentsResponse, error)
	AlterClientQuotas(ctx context.Context, req *controllerv1.AlterClientQuotasRequest) (*controllerv1.AlterClientQuotasResponse, error)
	UpdateFeatures(ctx context.Context, req *controllerv1.UpdateFeaturesRequest) (*controllerv1.UpdateFeaturesResponse, error)
	UnregisterBroker(ctx context.Context, req *controllerv1.UnregisterBrokerRequest) (*controllerv1.UnregisterBrokerResponse, error)
	// QuorumStatus asks the quorum node at an address.
	QuorumStatus(ctx context.Context, address string) (*quorumv1.StatusResponse, error)
	ReserveProducerIDs(ctx context.Context, req *controllerv1.ReserveProducerIDsRequest) (*controllerv1.ReserveProducerIDsResponse, error)
}

// check refuses a config that a handler would trip over later.
func (c *Config) check() error {
	missing := ""
	switch {
	case c.BrokerEpoch == nil:
		missing = "BrokerEpoch"
	case c.Image == nil:
		missing = "Image"
	case c.Await == nil:
		missing = "Await"
	case c.Replicas == nil:
		missing = "Replicas"
	case c.Controller == nil:
		missing = "Controller"
	case c.Logger == nil:
		missing = "Logger"
	}
	if missing != "" {
		return fmt.Errorf("kafka: config has no %s", missing)
	}
	if c.NodeID < 0 {
		return errors.New("kafka: node id is negative")
	}
	return nil
}
