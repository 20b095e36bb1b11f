package kafka

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/wire"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// metadataFor asks for topics by name.
func metadataFor(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	return req
}

func TestMetadataNamesBrokersAndLeaders(t *testing.T) {
	eachVersion(t, metadataAPI.served, func(t *testing.T, version int16) {
		resp := ask[*kmsg.MetadataResponse](t, newTestServer(t, nil), metadataFor("foo"), version)
		if len(resp.Brokers) != 2 || resp.Brokers[0].Host != "one.example" || resp.Brokers[1].Port != 9192 {
			t.Fatalf("brokers %+v", resp.Brokers)
		}
		if version >= 1 && (resp.ControllerID != 1 || resp.Brokers[0].Rack == nil || *resp.Brokers[0].Rack != "a" || resp.Brokers[1].Rack != nil) {
			t.Fatalf("controller %d, brokers %+v", resp.ControllerID, resp.Brokers)
		}
		if version >= 2 && (resp.ClusterID == nil || *resp.ClusterID != uuid(0xc1).String()) {
			t.Fatalf("cluster id %v", resp.ClusterID)
		}
		if len(resp.Topics) != 1 || *resp.Topics[0].Topic != "foo" || len(resp.Topics[0].Partitions) != 2 {
			t.Fatalf("topics %+v", resp.Topics)
		}
		p := resp.Topics[0].Partitions[1]
		if p.ErrorCode != 0 || p.Leader != 2 || !slices.Equal(p.Replicas, []int32{2, 1}) || !slices.Equal(p.ISR, []int32{2}) {
			t.Fatalf("partition %+v", p)
		}
	})
}

// TestMetadataSpeaksOfTheListener: each listener is answered in its own addresses.
func TestMetadataSpeaksOfTheListener(t *testing.T) {
	ts := newTestServer(t, nil)
	c := wire.NewConn(ts.pipe("INSIDE"), wire.Options{})
	defer c.Close()
	req := metadataFor("foo")
	req.SetVersion(9)
	resp, err := c.Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.(*kmsg.MetadataResponse).Brokers; len(got) != 2 || got[0].Host != "one.inside" || got[1].Port != 19192 {
		t.Fatalf("brokers %+v", got)
	}
}

func TestMetadataOfWhatClientsCannotReach(t *testing.T) {
	tests := map[string]struct {
		version     int16
		leader      int32
		wantErr     int16
		wantOffline []int32
	}{
		"fenced replica is offline":           {9, 1, 0, []int32{3, 4}},
		"leader without the listener":         {9, 4, kerr.ListenerNotFound.Code, []int32{3, 4}},
		"leader without the listener, old":    {5, 4, kerr.LeaderNotAvailable.Code, []int32{3, 4}},
		"no leader":                           {9, -1, kerr.LeaderNotAvailable.Code, []int32{3, 4}},
		"no leader, before offline was added": {4, -1, kerr.LeaderNotAvailable.Code, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ts := newTestServer(t, nil)
			img := withBrokers(t, ts.image(),
				testBroker{id: 3, fenced: true, listeners: []*metadatav1.Listener{listenerAt("PLAINTEXT", "three.example", 9292)}},
				testBroker{id: 4, listeners: []*metadatav1.Listener{listenerAt("INSIDE", "four.inside", 9392)}})
			p := testPartition{replicas: []int32{1, 3, 4}, isr: []int32{1, 4}, leader: tt.leader}
			ts.setImage(withTopic(t, img, "bar", 8, p))
			resp := ask[*kmsg.MetadataResponse](t, ts, metadataFor("bar"), tt.version)
			if len(resp.Brokers) != 2 {
				t.Fatalf("brokers %+v", resp.Brokers)
			}
			got := resp.Topics[0].Partitions[0]
			if got.ErrorCode != tt.wantErr || !slices.Equal(got.OfflineReplicas, tt.wantOffline) {
				t.Fatalf("partition %+v", got)
			}
			if wantLeader := map[bool]int32{true: tt.leader, false: -1}[tt.wantErr == 0]; got.Leader != wantLeader {
				t.Fatalf("leader %d, want %d", got.Leader, wantLeader)
			}
		})
	}
}

func TestMetadataOfAllTopics(t *testing.T) {
	eachVersion(t, metadataAPI.served, func(t *testing.T, version int16) {
		ts := newTestServer(t, nil)
		ts.setImage(withTopic(t, ts.image(), "bar", 8, testPartition{replicas: []int32{1}, isr: []int32{1}, leader: 1}))
		all := kmsg.NewPtrMetadataRequest() // null topics; in version 0 an empty list
		resp := ask[*kmsg.MetadataResponse](t, ts, all, version)
		if len(resp.Topics) != 2 || *resp.Topics[0].Topic != "bar" || *resp.Topics[1].Topic != "foo" {
			t.Fatalf("topics %+v", resp.Topics)
		}
		if version == 0 {
			return
		}
		if none := ask[*kmsg.MetadataResponse](t, ts, metadataFor(), version); len(none.Topics) != 0 {
			t.Fatalf("an empty list is answered with %+v", none.Topics)
		}
	})
}

func TestMetadataOfUnknownTopics(t *testing.T) {
	resp := ask[*kmsg.MetadataResponse](t, newTestServer(t, nil), metadataFor("nope", "bad/name", "", "nope", "__consumer_offsets"), 9)
	want := []int16{3, 17, 17, 3}
	if len(resp.Topics) != len(want) {
		t.Fatalf("%d topics: %+v", len(resp.Topics), resp.Topics)
	}
	for i, topic := range resp.Topics {
		if topic.ErrorCode != want[i] || len(topic.Partitions) != 0 {
			t.Errorf("%s: error %d, want %d", *topic.Topic, topic.ErrorCode, want[i])
		}
	}
	if !resp.Topics[3].IsInternal {
		t.Error("__consumer_offsets is not internal")
	}
}

// TestMetadataByTopicID: from version 12 on (KIP-516); an unknown id is answered without a name.
func TestMetadataByTopicID(t *testing.T) {
	ts := newTestServer(t, nil)
	foo, ok := ts.image().TopicByName("foo")
	if !ok {
		t.Fatal("the test server has no topic foo")
	}
	req := metadataFor()
	for _, id := range []fsm.UUID{foo.ID(), uuid(0xee), foo.ID()} {
		topic := kmsg.NewMetadataRequestTopic()
		topic.TopicID = id
		req.Topics = append(req.Topics, topic)
	}
	resp := ask[*kmsg.MetadataResponse](t, ts, req, 12)
	if len(resp.Topics) != 2 {
		t.Fatalf("topics %+v", resp.Topics)
	}
	if got := resp.Topics[0]; got.ErrorCode != 0 || got.Topic == nil || *got.Topic != "foo" || got.TopicID != foo.ID() || len(got.Partitions) != 2 {
		t.Errorf("known id: %+v", got)
	}
	if got := resp.Topics[1]; got.ErrorCode != kerr.UnknownTopicID.Code || got.Topic != nil || got.TopicID != uuid(0xee) {
		t.Errorf("unknown id: %+v", got)
	}
	for _, version := range []int16{10, 11} {
		named := metadataFor("foo")
		if got := ask[*kmsg.MetadataResponse](t, ts, named, version).Topics; len(got) != 1 || got[0].TopicID != foo.ID() {
			t.Errorf("version %d by name: %+v", version, got)
		}
		named.Topics[0].TopicID = foo.ID()
		if got := ask[*kmsg.MetadataResponse](t, ts, named, version).Topics; len(got) != 1 || got[0].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("version %d by id: %+v", version, got)
		}
	}
}

func TestMetadataTellsOperationsOnlyWhenAsked(t *testing.T) {
	ts := newTestServer(t, nil)
	req := metadataFor("foo")
	if resp := ask[*kmsg.MetadataResponse](t, ts, req, 8); resp.AuthorizedOperations != -1<<31 || resp.Topics[0].AuthorizedOperations != -1<<31 {
		t.Fatalf("not asked: %d, %d", resp.AuthorizedOperations, resp.Topics[0].AuthorizedOperations)
	}
	req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = true, true
	// What Apache Kafka answers without an authorizer.
	if resp := ask[*kmsg.MetadataResponse](t, ts, req, 8); resp.AuthorizedOperations != 8096 || resp.Topics[0].AuthorizedOperations != 3576 {
		t.Fatalf("asked: %d, %d", resp.AuthorizedOperations, resp.Topics[0].AuthorizedOperations)
	}
}

func TestMetadataAutoCreates(t *testing.T) {
	tests := map[string]struct {
		enabled, allowed bool
		version          int16
		want             int
	}{
		"allowed":            {true, true, 9, 1},
		"not by the broker":  {false, true, 9, 0},
		"not by the client":  {true, false, 4, 0},
		"an old client does": {true, false, 3, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, func(c *Config) { c.AutoCreateTopics = tt.enabled })
				created := make(chan *controllerv1.CreateTopicsRequest, 10)
				release := make(chan struct{})
				ts.controller.create = func(_ context.Context, req *controllerv1.CreateTopicsRequest) (*controllerv1.CreateTopicsResponse, error) {
					created <- req
					<-release
					return &controllerv1.CreateTopicsResponse{}, nil
				}
				c := ts.conn(t)
				for range 3 { // two of them while the first is in flight
					req := metadataFor("new", "bad/name", "foo")
					req.AllowAutoTopicCreation = tt.allowed
					req.SetVersion(tt.version)
					resp, err := c.Request(t.Context(), req)
					if err != nil {
						t.Fatal(err)
					}
					if got := resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode; got != kerr.UnknownTopicOrPartition.Code {
						t.Fatalf("error %d", got)
					}
				}
				synctest.Wait()
				if len(created) != tt.want {
					t.Fatalf("created %d times, want %d", len(created), tt.want)
				}
				if tt.want > 0 {
					req := <-created
					if len(req.Topics) != 1 || req.Topics[0].Name != "new" || req.Topics[0].NumPartitions != -1 || req.Topics[0].ReplicationFactor != -1 {
						t.Fatalf("asked for %v", req)
					}
				}
				close(release)
			})
		})
	}
}

// TestAllTopicsCreatesNothing: a list of everything is no wish for anything.
func TestAllTopicsCreatesNothing(t *testing.T) {
	ts := newTestServer(t, func(c *Config) { c.AutoCreateTopics = true })
	ts.controller.create = func(context.Context, *controllerv1.CreateTopicsRequest) (*controllerv1.CreateTopicsResponse, error) {
		t.Error("created something")
		return nil, context.Canceled
	}
	ask[*kmsg.MetadataResponse](t, ts, kmsg.NewPtrMetadataRequest(), 9)
	ask[*kmsg.MetadataResponse](t, ts, metadataFor("foo"), 9)
}

// TestAutoCreateIsBounded: names in flight have a limit (I20).
func TestAutoCreateIsBounded(t *testing.T) {
	ts := newTestServer(t, nil)
	names := make([]string, autoCreateNamesMax+10)
	for i := range names {
		names[i] = string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
	}
	if got := ts.autoCreate.take(names); len(got) != autoCreateNamesMax {
		t.Fatalf("%d names taken", len(got))
	}
	if got := ts.autoCreate.take([]string{"one-more"}); len(got) != 0 {
		t.Fatalf("took %v beyond the limit", got)
	}
	ts.autoCreate.give(names)
	ts.autoCreate.running.Done()
	if got := ts.autoCreate.take([]string{"one-more"}); len(got) != 1 {
		t.Fatalf("took %v with room", got)
	}
	ts.autoCreate.running.Done()
}
