package kafka

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// createRequest asks for topics of three partitions and two replicas.
func createRequest(names ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	for _, n := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = n, 3, 2
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = "retention.ms", kmsg.StringPtr("1000")
		t.Configs = append(t.Configs, c)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// creates is a controller that creates what is asked for, at a metadata offset.
func creates(offset int64) func(context.Context, *controllerv1.CreateTopicsRequest) (*controllerv1.CreateTopicsResponse, error) {
	return func(_ context.Context, req *controllerv1.CreateTopicsRequest) (*controllerv1.CreateTopicsResponse, error) {
		resp := &controllerv1.CreateTopicsResponse{MetadataOffset: offset}
		for _, t := range req.GetTopics() {
			resp.Topics = append(resp.Topics, &controllerv1.CreateTopicResult{
				Name: t.GetName(), TopicId: uuid(8).Bytes(), NumPartitions: t.GetNumPartitions(), ReplicationFactor: t.GetReplicationFactor(), Configs: t.GetConfigs(),
			})
		}
		return resp, nil
	}
}

// wantCreatedConfigs: the config that createRequest sets is the topic's, every other one a default.
func wantCreatedConfigs(t *testing.T, configs []kmsg.CreateTopicsResponseTopicConfig) {
	t.Helper()
	if len(configs) < 2 {
		t.Fatalf("%d configs, want those by default, too", len(configs))
	}
	for _, c := range configs {
		own := c.Source == int8(kmsg.ConfigSourceDynamicTopicConfig)
		if set := c.Name == "retention.ms"; own != set || set && *c.Value != "1000" {
			t.Errorf("%s = %s from source %d", c.Name, *c.Value, c.Source)
		}
	}
}

func TestCreateTopicsAsksTheController(t *testing.T) {
	eachVersion(t, createTopicsAPI.served, func(t *testing.T, version int16) {
		ts := newTestServer(t, nil)
		var asked *controllerv1.CreateTopicsRequest
		ts.controller.create = func(ctx context.Context, req *controllerv1.CreateTopicsRequest) (*controllerv1.CreateTopicsResponse, error) {
			asked = req
			return creates(0)(ctx, req)
		}
		req := createRequest("bar")
		assigned := kmsg.NewCreateTopicsRequestTopic()
		assigned.Topic, assigned.NumPartitions, assigned.ReplicationFactor = "baz", -1, -1
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = 0, []int32{2, 1}
		assigned.ReplicaAssignment = append(assigned.ReplicaAssignment, a)
		req.Topics = append(req.Topics, assigned)

		resp := ask[*kmsg.CreateTopicsResponse](t, ts, req, version)
		if len(resp.Topics) != 2 || resp.Topics[0].Topic != "bar" || resp.Topics[0].ErrorCode != 0 || resp.Topics[1].Topic != "baz" {
			t.Fatalf("%+v", resp.Topics)
		}
		got := resp.Topics[0]
		if version >= 5 && (got.NumPartitions != 3 || got.ReplicationFactor != 2) {
			t.Fatalf("%+v", got)
		}
		if version >= 5 {
			wantCreatedConfigs(t, got.Configs)
		}
		if version >= 7 && got.TopicID != uuid(8) {
			t.Fatalf("topic id %x", got.TopicID)
		}
		bar, baz, cause := asked.Topics[0], asked.Topics[1], asked.GetContext().GetCause()
		if bar.GetNumPartitions() != 3 || bar.GetReplicationFactor() != 2 || bar.GetConfigs()[0].GetValue() != "1000" || asked.GetValidateOnly() {
			t.Fatalf("asked for %v", bar)
		}
		if baz.GetNumPartitions() != -1 || baz.GetAssignments()[0].GetBrokerIds()[0] != 2 {
			t.Fatalf("asked for %v", baz)
		}
		if len(asked.GetContext().GetRequestId()) != 16 || cause.GetPrincipal() != "User:ANONYMOUS" || cause.GetRequestKind() != "CreateTopics" || cause.GetClientAddress() != "pipe" {
			t.Fatalf("context %v", asked.GetContext())
		}
	})
}

func TestCreateTopicsTranslatesRefusals(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.controller.create = func(_ context.Context, req *controllerv1.CreateTopicsRequest) (*controllerv1.CreateTopicsResponse, error) {
		return &controllerv1.CreateTopicsResponse{Topics: []*controllerv1.CreateTopicResult{
			{Name: "a", Error: &controllerv1.Error{Code: controllerv1.ErrorCode_ERROR_CODE_TOPIC_ALREADY_EXISTS, Message: "there is one"}},
			{Name: "b", Error: &controllerv1.Error{Code: controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN}},
		}}, nil
	}
	got := ask[*kmsg.CreateTopicsResponse](t, ts, createRequest("a", "b"), 7).Topics
	if got[0].ErrorCode != kerr.TopicAlreadyExists.Code || *got[0].ErrorMessage != "there is one" || got[1].ErrorCode != kerr.RequestTimedOut.Code || got[1].ErrorMessage != nil {
		t.Fatalf("%+v", got)
	}
}

func TestCreateTopicsWithoutAController(t *testing.T) {
	for err, want := range map[error]int16{
		context.DeadlineExceeded: 7,
		&client.Error{Code: controllerv1.ErrorCode_ERROR_CODE_POLICY_VIOLATION}: 44,
		&client.Error{Code: controllerv1.ErrorCode_ERROR_CODE_OVERLOADED}:       41,
		fmt.Errorf("create: %w", client.ErrClosed):                              41,
		errors.New("surprise"): -1,
	} {
		ts := newTestServer(t, nil)
		ts.controller.create = func(context.Context, *controllerv1.CreateTopicsRequest) (*controllerv1.CreateTopicsResponse, error) {
			return nil, err
		}
		got := ask[*kmsg.CreateTopicsResponse](t, ts, createRequest("a", "b"), 7).Topics
		if len(got) != 2 || got[0].ErrorCode != want || got[1].ErrorCode != want {
			t.Errorf("%v: %+v", err, got)
		}
	}
}

func TestCreateTopicsRefusesRepeatedNames(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.controller.create = creates(0)
	got := ask[*kmsg.CreateTopicsResponse](t, ts, createRequest("a", "b", "a", "a"), 7).Topics
	if len(got) != 2 || got[0].Topic != "a" || got[0].ErrorCode != kerr.InvalidRequest.Code || got[1].Topic != "b" || got[1].ErrorCode != 0 {
		t.Fatalf("%+v", got)
	}
	if got := ask[*kmsg.CreateTopicsResponse](t, ts, createRequest("a", "a"), 7).Topics; len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	if got := ask[*kmsg.CreateTopicsResponse](t, ts, createRequest(), 7).Topics; len(got) != 0 {
		t.Fatalf("%+v", got)
	}
}

// TestCreatorReadsItsOwnWrite: the answer comes when this broker's image has the topic, or at the deadline.
func TestCreatorReadsItsOwnWrite(t *testing.T) {
	tests := map[string]struct {
		visibleAfter, want time.Duration
		validateOnly       bool
	}{
		"at once":             {0, 0, false},
		"later":               {3 * time.Second, 3 * time.Second, false},
		"not by the deadline": {time.Hour, 10 * time.Second, false},
		"validate only":       {time.Hour, 0, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, nil)
				next := withTopic(t, ts.image(), "bar", 8, testPartition{replicas: []int32{1}, isr: []int32{1}, leader: 1})
				ts.controller.create = creates(next.AppliedOffset())
				timer := time.AfterFunc(tt.visibleAfter, func() { ts.setImage(next) })
				defer timer.Stop()
				req := createRequest("bar")
				req.ValidateOnly = tt.validateOnly
				start := time.Now()
				got := ask[*kmsg.CreateTopicsResponse](t, ts, req, 7).Topics[0]
				if got.ErrorCode != 0 || time.Since(start) != tt.want {
					t.Fatalf("error %d after %s, want %s", got.ErrorCode, time.Since(start), tt.want)
				}
				wantCreatedConfigs(t, got.Configs)
			})
		})
	}
}

func TestAdminTimeouts(t *testing.T) {
	for millis, want := range map[int32]time.Duration{-1: adminTimeoutDefault, 0: adminTimeoutDefault, 1500: 1500 * time.Millisecond, 1<<31 - 1: adminTimeoutMax} {
		if got := adminTimeout(millis); got != want {
			t.Errorf("%d: %s, want %s", millis, got, want)
		}
	}
}

func TestDeleteTopicsAsksTheController(t *testing.T) {
	eachVersion(t, deleteTopicsAPI.served, func(t *testing.T, version int16) {
		ts := newTestServer(t, nil)
		next := withoutTopic(t, ts.image(), uuid(7))
		ts.controller.remove = func(_ context.Context, req *controllerv1.DeleteTopicsRequest) (*controllerv1.DeleteTopicsResponse, error) {
			ts.setImage(next)
			resp := &controllerv1.DeleteTopicsResponse{MetadataOffset: next.AppliedOffset()}
			for _, topic := range req.GetTopics() {
				r := &controllerv1.DeleteTopicResult{Name: topic.GetName(), TopicId: topic.GetTopicId()}
				if topic.GetName() == "nope" {
					r.Error = &controllerv1.Error{Code: controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, Message: "no such topic"}
				}
				resp.Topics = append(resp.Topics, r)
			}
			return resp, nil
		}
		req := kmsg.NewPtrDeleteTopicsRequest()
		for _, name := range []string{"foo", "nope", "twice", "twice"} {
			topic := kmsg.NewDeleteTopicsRequestTopic()
			topic.Topic = kmsg.StringPtr(name)
			req.TopicNames, req.Topics = append(req.TopicNames, name), append(req.Topics, topic)
		}
		byID := kmsg.NewDeleteTopicsRequestTopic()
		byID.TopicID = uuid(7)
		req.Topics = append(req.Topics, byID)
		got := ask[*kmsg.DeleteTopicsResponse](t, ts, req, version).Topics
		if *got[0].Topic != "twice" || got[0].ErrorCode != 42 || *got[1].Topic != "foo" || got[1].ErrorCode != 0 || *got[2].Topic != "nope" || got[2].ErrorCode != 3 {
			t.Fatalf("%+v", got)
		}
		if version >= 6 && (len(got) != 4 || got[3].Topic != nil || got[3].TopicID != uuid(7) || got[3].ErrorCode != 0) {
			t.Fatalf("%+v", got)
		}
	})
}

func TestDeleteTopicsWithoutAController(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.controller.remove = func(ctx context.Context, _ *controllerv1.DeleteTopicsRequest) (*controllerv1.DeleteTopicsResponse, error) {
		return nil, &client.Error{Code: controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN}
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{"foo"}
	if got := ask[*kmsg.DeleteTopicsResponse](t, ts, req, 5).Topics; len(got) != 1 || got[0].ErrorCode != kerr.RequestTimedOut.Code || *got[0].Topic != "foo" {
		t.Fatalf("%+v", got)
	}
}
