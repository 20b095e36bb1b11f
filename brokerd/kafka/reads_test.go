package kafka

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// offsetsOf is a ListOffsets request of one partition.
func offsetsOf(topic string, partition int32, timestamp int64) *kmsg.ListOffsetsRequest {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, timestamp, 3
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = topic, []kmsg.ListOffsetsRequestTopicPartition{p}
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = []kmsg.ListOffsetsRequestTopic{t}
	return req
}

func TestListOffsetsAnswers(t *testing.T) {
	eachVersion(t, listOffsetsAPI.served, func(t *testing.T, version int16) {
		ts := newTestServer(t, nil)
		var asked replica.ListOffsetQuery
		ts.replicas.listOffset = func(id fsm.PartitionID, q replica.ListOffsetQuery) (replica.ListOffsetResult, error) {
			asked = q
			return replica.ListOffsetResult{Offset: 42, Timestamp: 7777, LeaderEpoch: 3}, nil
		}
		req := offsetsOf("foo", 0, 7000)
		req.IsolationLevel = 1
		got := ask[*kmsg.ListOffsetsResponse](t, ts, req, version).Topics[0].Partitions[0]
		wantEpoch := map[bool]int32{true: 3, false: -1}[version >= 4]
		if got.ErrorCode != 0 || got.Offset != 42 || got.Timestamp != 7777 || got.LeaderEpoch != wantEpoch {
			t.Fatalf("%+v", got)
		}
		want := replica.ListOffsetQuery{CurrentLeaderEpoch: wantEpoch, Timestamp: 7000, ReadCommitted: version >= 2}
		if asked != want {
			t.Fatalf("asked %+v, want %+v", asked, want)
		}
	})
}

func TestListOffsetsErrors(t *testing.T) {
	tests := map[string]struct {
		req     *kmsg.ListOffsetsRequest
		version int16
		err     error
		want    int16
	}{
		"unknown topic":              {offsetsOf("nope", 0, -1), 7, nil, 3},
		"unknown partition":          {offsetsOf("foo", 2, -1), 7, nil, 3},
		"latest":                     {offsetsOf("foo", 0, -1), 1, nil, 0},
		"earliest":                   {offsetsOf("foo", 0, -2), 1, nil, 0},
		"greatest time":              {offsetsOf("foo", 0, -3), 7, nil, 0},
		"greatest time, too early":   {offsetsOf("foo", 0, -3), 6, nil, 35},
		"earliest local":             {offsetsOf("foo", 0, -4), 7, nil, 35},
		"latest tiered":              {offsetsOf("foo", 0, -5), 7, nil, 35},
		"new leader":                 {offsetsOf("foo", 0, -1), 5, replica.ErrOffsetNotAvailable, 78},
		"new leader, for old client": {offsetsOf("foo", 0, -1), 4, replica.ErrOffsetNotAvailable, 5},
		"not the leader":             {offsetsOf("foo", 0, -1), 7, replica.ErrNotLeaderOrFollower, 6},
		"unknown replica":            {offsetsOf("foo", 0, -1), 7, replica.ErrUnknownPartition, 6},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ts := newTestServer(t, nil)
			ts.replicas.listOffset = func(fsm.PartitionID, replica.ListOffsetQuery) (replica.ListOffsetResult, error) {
				return replica.ListOffsetResult{}, tt.err
			}
			got := ask[*kmsg.ListOffsetsResponse](t, ts, tt.req, tt.version).Topics[0].Partitions[0]
			if got.ErrorCode != tt.want {
				t.Fatalf("error %v, want %v", kerr.ErrorForCode(got.ErrorCode), kerr.ErrorForCode(tt.want))
			}
			if tt.want != 0 && (got.Offset != -1 || got.Timestamp != -1) {
				t.Fatalf("%+v", got)
			}
		})
	}
}

func TestListOffsetsRefusesRepeatedPartitions(t *testing.T) {
	req := offsetsOf("foo", 0, -1)
	req.Topics = append(req.Topics, offsetsOf("foo", 0, -2).Topics...)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, offsetsOf("foo", 1, -1).Topics[0].Partitions...)
	resp := ask[*kmsg.ListOffsetsResponse](t, newTestServer(t, nil), req, 7)
	got := []int16{resp.Topics[0].Partitions[0].ErrorCode, resp.Topics[0].Partitions[1].ErrorCode, resp.Topics[1].Partitions[0].ErrorCode}
	if want := []int16{42, 0, 42}; !slices.Equal(got, want) {
		t.Fatalf("errors %v, want %v", got, want)
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	eachVersion(t, offsetForLeaderEpochAPI.served, func(t *testing.T, version int16) {
		ts := newTestServer(t, nil)
		ts.replicas.epochEnd = func(id fsm.PartitionID, current, epoch int32) (replica.EpochEnd, error) {
			if id.Partition == 1 {
				return replica.EpochEnd{}, replica.ErrFencedLeaderEpoch
			}
			if current != 9 || epoch != 5 {
				t.Errorf("asked for %d in %d", epoch, current)
			}
			return replica.EpochEnd{Epoch: 4, EndOffset: 99}, nil
		}
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
		topic.Topic = "foo"
		for i := range int32(3) {
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = i, 9, 5
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
		got := ask[*kmsg.OffsetForLeaderEpochResponse](t, ts, req, version).Topics[0].Partitions
		if got[0].ErrorCode != 0 || got[0].LeaderEpoch != 4 || got[0].EndOffset != 99 {
			t.Errorf("%+v", got[0])
		}
		if got[1].ErrorCode != 74 || got[1].LeaderEpoch != -1 || got[1].EndOffset != -1 {
			t.Errorf("%+v", got[1])
		}
		if got[2].ErrorCode != 3 {
			t.Errorf("%+v", got[2])
		}
	})
}

func TestInitProducerIDGivesEachIDOnce(t *testing.T) {
	eachVersion(t, initProducerIDAPI.served, func(t *testing.T, version int16) {
		ts := newTestServer(t, nil)
		blocks := int64(0)
		ts.controller.reserve = func(_ context.Context, req *controllerv1.ReserveProducerIDsRequest) (*controllerv1.ReserveProducerIDsResponse, error) {
			if req.GetBrokerId() != 1 || req.GetBrokerEpoch() != 1 {
				t.Errorf("reserved by %v", req)
			}
			blocks++
			return &controllerv1.ReserveProducerIDsResponse{FirstProducerId: 1000 * blocks, Count: 2}, nil
		}
		for _, want := range []int64{1000, 1001, 2000} {
			got := ask[*kmsg.InitProducerIDResponse](t, ts, kmsg.NewPtrInitProducerIDRequest(), version)
			if got.ErrorCode != 0 || got.ProducerID != want || got.ProducerEpoch != 0 {
				t.Fatalf("%+v, want id %d", got, want)
			}
		}
	})
}

func TestInitProducerIDRefuses(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.controller.reserve = func(context.Context, *controllerv1.ReserveProducerIDsRequest) (*controllerv1.ReserveProducerIDsResponse, error) {
		return nil, errors.New("no active controller")
	}
	if got := ask[*kmsg.InitProducerIDResponse](t, ts, kmsg.NewPtrInitProducerIDRequest(), 4); got.ErrorCode != kerr.CoordinatorLoadInProgress.Code || got.ProducerID != -1 {
		t.Errorf("without a controller: %+v", got)
	}
	transactional := kmsg.NewPtrInitProducerIDRequest()
	transactional.TransactionalID = kmsg.StringPtr("tx")
	if got := ask[*kmsg.InitProducerIDResponse](t, ts, transactional, 4); got.ErrorCode != kerr.TransactionalIDAuthorizationFailed.Code {
		t.Errorf("transactional: %+v", got)
	}
	half := kmsg.NewPtrInitProducerIDRequest()
	half.ProducerID = 5
	if got := ask[*kmsg.InitProducerIDResponse](t, ts, half, 3); got.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("id without epoch: %+v", got)
	}
	bad := newProducerIDs(func(context.Context) (int64, int32, error) { return 0, 0, nil })
	if _, err := bad.next(t.Context()); err == nil {
		t.Error("an empty block was taken")
	}
}

func TestFindCoordinatorHasNone(t *testing.T) {
	eachVersion(t, findCoordinatorAPI.served, func(t *testing.T, version int16) {
		for kind, want := range map[int8]int16{0: 15, 1: 53, 2: 42} {
			if version == 0 && kind != 0 {
				continue // version 0 asks for groups only
			}
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorKey, req.CoordinatorKeys, req.CoordinatorType = "g", []string{"g", "h"}, kind
			resp := ask[*kmsg.FindCoordinatorResponse](t, newTestServer(t, nil), req, version)
			if version < 4 {
				if resp.ErrorCode != want || resp.NodeID != -1 {
					t.Errorf("type %d: %+v", kind, resp)
				}
				continue
			}
			if len(resp.Coordinators) != 2 || resp.Coordinators[1].Key != "h" || resp.Coordinators[1].ErrorCode != want || resp.Coordinators[1].NodeID != -1 {
				t.Errorf("type %d: %+v", kind, resp.Coordinators)
			}
		}
	})
}

func TestDescribeCluster(t *testing.T) {
	eachVersion(t, describeClusterAPI.served, func(t *testing.T, version int16) {
		ts := newTestServer(t, nil)
		ts.setImage(withBrokers(t, ts.image(), testBroker{id: 3, fenced: true, listeners: []*metadatav1.Listener{listenerAt("PLAINTEXT", "three", 9292)}}))
		resp := ask[*kmsg.DescribeClusterResponse](t, ts, kmsg.NewPtrDescribeClusterRequest(), version)
		if resp.ErrorCode != 0 || resp.ClusterID != uuid(0xc1).String() || resp.ControllerID != 1 || resp.ClusterAuthorizedOperations != -1<<31 {
			t.Fatalf("%+v", resp)
		}
		if len(resp.Brokers) != 2 || resp.Brokers[1].Host != "two.example" || resp.Brokers[0].Rack == nil {
			t.Fatalf("%+v", resp.Brokers)
		}
	})
	req := kmsg.NewPtrDescribeClusterRequest()
	for endpoint, want := range map[int8]int16{2: 114, 3: 115} {
		req.EndpointType = endpoint
		if got := ask[*kmsg.DescribeClusterResponse](t, newTestServer(t, nil), req, 1); got.ErrorCode != want {
			t.Errorf("endpoint type %d: error %d", endpoint, got.ErrorCode)
		}
	}
}

// TestAdminBrokerIsSomeLiveBroker: this one if it can be, else another, else none.
func TestAdminBrokerIsSomeLiveBroker(t *testing.T) {
	ts := newTestServer(t, func(c *Config) { c.NodeID = 9 })
	if got := ts.adminBroker(ts.image(), "PLAINTEXT"); got != 1 {
		t.Errorf("an unregistered broker names %d", got)
	}
	if got := ts.adminBroker(ts.image(), "ELSEWHERE"); got != -1 {
		t.Errorf("on a listener nobody has: %d", got)
	}
}

func TestDescribeConfigs(t *testing.T) {
	eachVersion(t, describeConfigsAPI.served, func(t *testing.T, version int16) {
		ts := newTestServer(t, nil)
		value := "2"
		ts.setImage(fold(t, ts.image(), []*metadatav1.Record{{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
			ResourceType: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC, ResourceName: "foo", Key: "min.insync.replicas", Value: &value,
		}}}}))
		req := kmsg.NewPtrDescribeConfigsRequest()
		for _, r := range []struct {
			kind kmsg.ConfigResourceType
			name string
			keys []string
		}{{2, "foo", []string{"min.insync.replicas", "retention.ms"}}, {2, "foo", nil}, {2, "nope", nil}, {4, "1", nil}, {8, "1", nil}} {
			resource := kmsg.NewDescribeConfigsRequestResource()
			resource.ResourceType, resource.ResourceName, resource.ConfigNames = r.kind, r.name, r.keys
			req.Resources = append(req.Resources, resource)
		}
		got := ask[*kmsg.DescribeConfigsResponse](t, ts, req, version).Resources
		two := got[0].Configs
		if len(two) != 2 || two[0].Name != "min.insync.replicas" || *two[0].Value != "2" || two[1].Name != "retention.ms" || *two[1].Value != "604800000" {
			t.Fatalf("%+v", two)
		}
		if version >= 1 && (two[0].Source != kmsg.ConfigSourceDynamicTopicConfig || two[1].Source != kmsg.ConfigSourceDefaultConfig) {
			t.Fatalf("sources %v, %v", two[0].Source, two[1].Source)
		}
		if len(got[1].Configs) <= 2 || got[2].ErrorCode != 3 || got[3].ErrorCode != 0 || got[4].ErrorCode != 42 {
			t.Fatalf("%+v", got)
		}
	})
}
