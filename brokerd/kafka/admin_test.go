package kafka

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// fakeAdmin keeps what was asked last and answers with what the test says.
type fakeAdmin struct {
	asked  proto.Message
	reply  proto.Message
	err    error
	status map[string]*quorumv1.StatusResponse
}

// told keeps the request and gives the reply a type; no reply is an empty one.
func told[Resp proto.Message](f *fakeAdmin, asked proto.Message) (Resp, error) {
	f.asked = asked
	var empty Resp
	if f.err != nil {
		return empty, f.err
	}
	if reply, ok := f.reply.(Resp); ok {
		return reply, nil
	}
	return empty.ProtoReflect().New().Interface().(Resp), nil
}

func (f *fakeAdmin) AlterConfigs(_ context.Context, req *controllerv1.AlterConfigsRequest) (*controllerv1.AlterConfigsResponse, error) {
	return told[*controllerv1.AlterConfigsResponse](f, req)
}

func (f *fakeAdmin) CreatePartitions(_ context.Context, req *controllerv1.CreatePartitionsRequest) (*controllerv1.CreatePartitionsResponse, error) {
	return told[*controllerv1.CreatePartitionsResponse](f, req)
}

func (f *fakeAdmin) ElectLeaders(_ context.Context, req *controllerv1.ElectLeadersRequest) (*controllerv1.ElectLeadersResponse, error) {
	return told[*controllerv1.ElectLeadersResponse](f, req)
}

func (f *fakeAdmin) AlterReassignments(_ context.Context, req *controllerv1.AlterReassignmentsRequest) (*controllerv1.AlterReassignmentsResponse, error) {
	return told[*controllerv1.AlterReassignmentsResponse](f, req)
}

func (f *fakeAdmin) AlterClientQuotas(_ context.Context, req *controllerv1.AlterClientQuotasRequest) (*controllerv1.AlterClientQuotasResponse, error) {
	return told[*controllerv1.AlterClientQuotasResponse](f, req)
}

func (f *fakeAdmin) UpdateFeatures(_ context.Context, req *controllerv1.UpdateFeaturesRequest) (*controllerv1.UpdateFeaturesResponse, error) {
	return told[*controllerv1.UpdateFeaturesResponse](f, req)
}

func (f *fakeAdmin) UnregisterBroker(_ context.Context, req *controllerv1.UnregisterBrokerRequest) (*controllerv1.UnregisterBrokerResponse, error) {
	return told[*controllerv1.UnregisterBrokerResponse](f, req)
}

func (f *fakeAdmin) QuorumStatus(_ context.Context, address string) (*quorumv1.StatusResponse, error) {
	if s := f.status[address]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("nobody at %s", address)
}

func (f *fakeReplicas) LogDir() (replica.LogDir, error) {
	dir := replica.LogDir{Path: "/data", TotalBytes: 100, UsableBytes: 40}
	for i := range int32(2) {
		dir.Replicas = append(dir.Replicas, replica.Held{ID: fsm.PartitionID{Topic: uuid(7), Partition: i}, Topic: "foo", SizeBytes: int64(10 + i), Lag: int64(i)})
	}
	return dir, nil
}

var refusedTopic = &controllerv1.Error{Code: controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, Message: "there is no topic"}

func TestIncrementalAlterConfigsForwardsEachOperation(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.controller.reply = &controllerv1.AlterConfigsResponse{Resources: []*controllerv1.AlterConfigsResult{
		{Type: 2, Name: "foo"}, {Type: 2, Name: "nope", Error: refusedTopic},
	}}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "foo"
	for op := range kmsg.IncrementalAlterConfigOp(4) {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = fmt.Sprint("k", op), op, kmsg.StringPtr("v")
		r.Configs = append(r.Configs, c)
	}
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{r}
	req.ValidateOnly = true
	resp := ask[*kmsg.IncrementalAlterConfigsResponse](t, ts, req, 1)
	asked := ts.controller.asked.(*controllerv1.AlterConfigsRequest)
	var ops []controllerv1.ConfigOperation
	for _, c := range asked.GetResources()[0].GetChanges() {
		ops = append(ops, c.GetOperation())
	}
	want := []controllerv1.ConfigOperation{
		controllerv1.ConfigOperation_CONFIG_OPERATION_SET, controllerv1.ConfigOperation_CONFIG_OPERATION_DELETE,
		controllerv1.ConfigOperation_CONFIG_OPERATION_APPEND, controllerv1.ConfigOperation_CONFIG_OPERATION_SUBTRACT,
	}
	if !slices.Equal(ops, want) || !asked.GetValidateOnly() || asked.GetResources()[0].GetReplace() || len(asked.GetContext().GetRequestId()) != 16 {
		t.Errorf("asked %v", asked)
	}
	if len(resp.Resources) != 2 || resp.Resources[0].ErrorCode != 0 || resp.Resources[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("answered %+v", resp.Resources)
	}
}

func TestAlterConfigsReplacesAndAnswersForEachResource(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.controller.err = &client.Error{Code: controllerv1.ErrorCode_ERROR_CODE_UNCONFIRMED, Message: "confirm first"}
	req := kmsg.NewPtrAlterConfigsRequest()
	for _, name := range []string{"1", ""} {
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, name
		req.Resources = append(req.Resources, r)
	}
	resp := ask[*kmsg.AlterConfigsResponse](t, ts, req, 2)
	asked := ts.controller.asked.(*controllerv1.AlterConfigsRequest)
	if !asked.GetResources()[0].GetReplace() || asked.GetResources()[1].GetName() != "" || asked.GetContext().GetCause().GetRequestKind() != "AlterConfigs" {
		t.Errorf("asked %v", asked)
	}
	for i, r := range resp.Resources {
		if r.ErrorCode != kerr.PolicyViolation.Code || r.ErrorMessage == nil || r.ResourceName != req.Resources[i].ResourceName {
			t.Errorf("answered %+v", r)
		}
	}
}

func TestDescribeConfigsTellsWhereAValueComesFrom(t *testing.T) {
	ts := newTestServer(t, nil)
	value := "1000"
	ts.setImage(fold(t, ts.image(), []*metadatav1.Record{{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
		ResourceType: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER, ResourceName: "1", Key: "message.max.bytes", Value: &value,
	}}}}))
	ts.config.Static = ts.config.Static.On(1)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms = true
	for _, r := range []struct {
		kind kmsg.ConfigResourceType
		name string
		key  string
	}{{kmsg.ConfigResourceTypeTopic, "foo", "max.message.bytes"}, {kmsg.ConfigResourceTypeBroker, "1", "message.max.bytes"}, {kmsg.ConfigResourceTypeBroker, "2", "x"}, {kmsg.ConfigResourceTypeBroker, "", "x"}} {
		m := kmsg.NewDescribeConfigsRequestResource()
		m.ResourceType, m.ResourceName, m.ConfigNames = r.kind, r.name, []string{r.key}
		req.Resources = append(req.Resources, m)
	}
	resp := ask[*kmsg.DescribeConfigsResponse](t, ts, req, 4)
	for i, name := range []string{"max.message.bytes", "message.max.bytes"} {
		c := resp.Resources[i].Configs
		if len(c) != 1 || c[0].Name != name || *c[0].Value != "1000" || c[0].Source != kmsg.ConfigSourceDynamicBrokerConfig || c[0].IsDefault {
			t.Fatalf("%s: %+v", name, c)
		}
		var sources []kmsg.ConfigSource
		for _, s := range c[0].ConfigSynonyms {
			sources = append(sources, s.Source)
		}
		if want := []kmsg.ConfigSource{kmsg.ConfigSourceDynamicBrokerConfig, kmsg.ConfigSourceDefaultConfig}; !slices.Equal(sources, want) {
			t.Errorf("%s: synonyms %v", name, sources)
		}
	}
	if resp.Resources[2].ErrorCode != kerr.InvalidRequest.Code || resp.Resources[3].ErrorCode != 0 || len(resp.Resources[3].Configs) != 0 {
		t.Errorf("another broker and the default: %+v", resp.Resources[2:])
	}
}

func TestCreatePartitionsTellsNoAssignmentFromAnEmptyOne(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.controller.reply = &controllerv1.CreatePartitionsResponse{Topics: []*controllerv1.CreatePartitionsResult{{Name: "foo"}, {Name: "nope", Error: refusedTopic}}}
	req := kmsg.NewPtrCreatePartitionsRequest()
	for _, assigned := range []bool{false, true} {
		m := kmsg.NewCreatePartitionsRequestTopic()
		m.Topic, m.Count = "foo", 3
		if assigned {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = []int32{2, 1}
			m.Assignment = append(m.Assignment, a)
		}
		req.Topics = append(req.Topics, m)
	}
	resp := ask[*kmsg.CreatePartitionsResponse](t, ts, req, 3)
	asked := ts.controller.asked.(*controllerv1.CreatePartitionsRequest).GetTopics()
	if asked[0].GetAssigned() || !asked[1].GetAssigned() || !slices.Equal(asked[1].GetAssignments()[0].GetIds(), []int32{2, 1}) || asked[0].GetCount() != 3 {
		t.Errorf("asked %v", asked)
	}
	if resp.Topics[0].ErrorCode != 0 || resp.Topics[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("answered %+v", resp.Topics)
	}
}

func TestElectLeadersOfAllOfSomeAndOfNone(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.controller.reply = &controllerv1.ElectLeadersResponse{Partitions: []*controllerv1.ElectLeaderResult{
		{Topic: "foo", PartitionId: 0}, {Topic: "foo", PartitionId: 1, Error: &controllerv1.Error{Code: controllerv1.ErrorCode_ERROR_CODE_ELECTION_NOT_NEEDED, Message: "leads"}},
	}}
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType = 1
	resp := ask[*kmsg.ElectLeadersResponse](t, ts, req, 2)
	asked := ts.controller.asked.(*controllerv1.ElectLeadersRequest)
	if asked.GetType() != controllerv1.ElectionType_ELECTION_TYPE_UNCLEAN || len(asked.GetPartitions()) != 0 {
		t.Errorf("asked %v", asked)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 || resp.Topics[0].Partitions[1].ErrorCode != kerr.ElectionNotNeeded.Code {
		t.Errorf("answered %+v", resp)
	}
	ts.controller.asked = nil
	req.Topics = []kmsg.ElectLeadersRequestTopic{}
	if resp = ask[*kmsg.ElectLeadersResponse](t, ts, req, 2); ts.controller.asked != nil || len(resp.Topics) != 0 {
		t.Error("no topic is not every topic")
	}
	m := kmsg.NewElectLeadersRequestTopic()
	m.Topic, m.Partitions = "foo", []int32{0}
	req.Topics, req.ElectionType = append(req.Topics, m), 7
	if resp = ask[*kmsg.ElectLeadersResponse](t, ts, req, 2); resp.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("an unknown type: %+v", resp)
	}
}

func TestReassignmentsAreStartedCancelledAndListed(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.controller.reply = &controllerv1.AlterReassignmentsResponse{Partitions: []*controllerv1.ReassignmentResult{
		{Topic: "foo", PartitionId: 0},
		{Topic: "foo", PartitionId: 1, Error: &controllerv1.Error{Code: controllerv1.ErrorCode_ERROR_CODE_NO_REASSIGNMENT_IN_PROGRESS, Message: "none"}},
	}}
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.AllowReplicationFactorChange = false
	m := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	m.Topic = "foo"
	for i, replicas := range [][]int32{{2}, nil} {
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition, p.Replicas = int32(i), replicas
		m.Partitions = append(m.Partitions, p)
	}
	req.Topics = append(req.Topics, m)
	for version, keep := range map[int16]bool{0: false, 1: true} {
		resp := ask[*kmsg.AlterPartitionAssignmentsResponse](t, ts, req, version)
		asked := ts.controller.asked.(*controllerv1.AlterReassignmentsRequest)
		if asked.GetKeepReplicationFactor() != keep || asked.GetPartitions()[1].Replicas != nil || !slices.Equal(asked.GetPartitions()[0].GetReplicas().GetIds(), []int32{2}) {
			t.Errorf("version %d asked %v", version, asked)
		}
		if p := resp.Topics[0].Partitions; p[0].ErrorCode != 0 || p[1].ErrorCode != kerr.NoReassignmentInProgress.Code {
			t.Errorf("answered %+v", p)
		}
	}
	ts.setImage(fold(t, ts.image(), []*metadatav1.Record{{Kind: &metadatav1.Record_PartitionChange{PartitionChange: &metadatav1.PartitionChange{
		TopicId: uuid(7).Bytes(), PartitionId: 1, Replicas: &metadatav1.BrokerIDs{Ids: []int32{3, 2, 1}},
		AddingReplicas: &metadatav1.BrokerIDs{Ids: []int32{3}}, RemovingReplicas: &metadatav1.BrokerIDs{Ids: []int32{1}},
	}}}}))
	for _, named := range []bool{false, true} {
		list := kmsg.NewPtrListPartitionReassignmentsRequest()
		if named {
			for _, name := range []string{"foo", "nope"} {
				m := kmsg.NewListPartitionReassignmentsRequestTopic()
				m.Topic, m.Partitions = name, []int32{0, 1, 9}
				list.Topics = append(list.Topics, m)
			}
		}
		resp := ask[*kmsg.ListPartitionReassignmentsResponse](t, ts, list, 0)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			t.Fatalf("listed %+v", resp.Topics)
		}
		p := resp.Topics[0].Partitions[0]
		if p.Partition != 1 || !slices.Equal(p.Replicas, []int32{3, 2, 1}) || !slices.Equal(p.AddingReplicas, []int32{3}) || !slices.Equal(p.RemovingReplicas, []int32{1}) {
			t.Errorf("listed %+v", p)
		}
	}
}

func TestDescribeLogDirsTellsSizes(t *testing.T) {
	ts := newTestServer(t, nil)
	req := kmsg.NewPtrDescribeLogDirsRequest()
	m := kmsg.NewDescribeLogDirsRequestTopic()
	m.Topic, m.Partitions = "foo", []int32{1}
	req.Topics = append(req.Topics, m)
	resp := ask[*kmsg.DescribeLogDirsResponse](t, ts, req, 4)
	d := resp.Dirs[0]
	if d.Dir != "/data" || d.TotalBytes != 100 || d.UsableBytes != 40 || len(d.Topics) != 1 || len(d.Topics[0].Partitions) != 1 {
		t.Fatalf("answered %+v", resp)
	}
	if p := d.Topics[0].Partitions[0]; p.Partition != 1 || p.Size != 11 || p.OffsetLag != 1 || p.IsFuture {
		t.Errorf("partition %+v", p)
	}
	req.Topics = nil
	if resp = ask[*kmsg.DescribeLogDirsResponse](t, ts, req, 1); len(resp.Dirs[0].Topics[0].Partitions) != 2 {
		t.Errorf("all: %+v", resp.Dirs[0])
	}
}

func TestDescribeQuorumAsksEveryNode(t *testing.T) {
	ts := newTestServer(t, nil)
	var records []*metadatav1.Record
	for id := range int32(3) {
		records = append(records, &metadatav1.Record{Kind: &metadatav1.Record_ControllerRegistered{ControllerRegistered: &metadatav1.ControllerRegistered{
			NodeId: 101 + id, DirectoryId: uuid(byte(id + 1)).Bytes(), IncarnationId: uuid(9).Bytes(),
			Listeners: []*metadatav1.Listener{listenerAt("CONTROLLER", fmt.Sprint("c", id+1), 9093)},
		}}})
	}
	ts.setImage(fold(t, ts.image(), records))
	ts.controller.status = map[string]*quorumv1.StatusResponse{
		"c1:9093": {Active: true, NextMetadataOffset: 50, ControllerEpoch: 7},
		"c2:9093": {NextMetadataOffset: 48, LeaderContactAgeMs: 20},
	}
	req := kmsg.NewPtrDescribeQuorumRequest()
	m := kmsg.NewDescribeQuorumRequestTopic()
	m.Topic, m.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{{Partition: 0}}
	req.Topics = append(req.Topics, m)
	resp := ask[*kmsg.DescribeQuorumResponse](t, ts, req, 2)
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.LeaderID != 101 || p.LeaderEpoch != 7 || p.HighWatermark != 50 || len(p.CurrentVoters) != 3 || len(resp.Nodes) != 3 {
		t.Fatalf("answered %+v", resp)
	}
	var ends []int64
	for _, v := range p.CurrentVoters {
		ends = append(ends, v.LogEndOffset)
	}
	if !slices.Equal(ends, []int64{50, 48, -1}) || p.CurrentVoters[0].LastCaughtUpTimestamp < 0 || p.CurrentVoters[1].LastCaughtUpTimestamp != -1 || p.CurrentVoters[1].ReplicaDirectoryID != uuid(2) {
		t.Errorf("voters %+v", p.CurrentVoters)
	}
	req.Topics[0].Topic = "foo"
	if resp = ask[*kmsg.DescribeQuorumResponse](t, ts, req, 0); resp.Topics[0].Partitions[0].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("another topic: %+v", resp)
	}
}

func TestClientQuotasAreAlteredAndFound(t *testing.T) {
	ts := newTestServer(t, nil)
	req := kmsg.NewPtrAlterClientQuotasRequest()
	e := kmsg.NewAlterClientQuotasRequestEntry()
	e.Entity = []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: kmsg.StringPtr("alice")}}
	e.Ops = []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate", Value: 1024}, {Key: "consumer_byte_rate", Remove: true}}
	req.Entries = append(req.Entries, e)
	ts.controller.reply = &controllerv1.AlterClientQuotasResponse{Entries: []*controllerv1.AlterQuotasResult{{
		Entity: []*metadatav1.QuotaEntity{{Type: "user", Name: kmsg.StringPtr("alice")}}, Error: &controllerv1.Error{Code: controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, Message: "no"},
	}}}
	resp := ask[*kmsg.AlterClientQuotasResponse](t, ts, req, 1)
	asked := ts.controller.asked.(*controllerv1.AlterClientQuotasRequest).GetEntries()[0]
	if asked.GetChanges()[0].GetValue() != 1024 || asked.GetChanges()[1].Value != nil || asked.GetEntity()[0].GetName() != "alice" {
		t.Errorf("asked %v", asked)
	}
	if resp.Entries[0].ErrorCode != kerr.InvalidRequest.Code || *resp.Entries[0].Entity[0].Name != "alice" {
		t.Errorf("answered %+v", resp.Entries)
	}
	quota := func(value float64, parts ...*metadatav1.QuotaEntity) *metadatav1.Record {
		return &metadatav1.Record{Kind: &metadatav1.Record_ClientQuota{ClientQuota: &metadatav1.ClientQuota{Entity: parts, Key: "producer_byte_rate", Value: &value}}}
	}
	alice, anyone, app := &metadatav1.QuotaEntity{Type: "user", Name: kmsg.StringPtr("alice")}, &metadatav1.QuotaEntity{Type: "user"}, &metadatav1.QuotaEntity{Type: "client-id", Name: kmsg.StringPtr("app")}
	ts.setImage(fold(t, ts.image(), []*metadatav1.Record{quota(1, alice), quota(2, anyone), quota(3, alice, app)}))
	for _, row := range []struct {
		kind   string
		match  kmsg.QuotasMatchType
		name   *string
		strict bool
		want   []float64
		code   int16
	}{
		{"user", matchExact, kmsg.StringPtr("alice"), true, []float64{1}, 0},
		{"user", matchExact, kmsg.StringPtr("alice"), false, []float64{1, 3}, 0},
		{"user", matchDefault, nil, true, []float64{2}, 0},
		{"user", matchSpecified, nil, true, []float64{1, 2}, 0},
		{"user", matchExact, nil, true, nil, kerr.InvalidRequest.Code},
		{"user", 9, nil, true, nil, kerr.InvalidRequest.Code},
		{"group", matchDefault, nil, true, nil, kerr.UnsupportedVersion.Code},
		{"", matchDefault, nil, true, nil, kerr.InvalidRequest.Code},
	} {
		req := kmsg.NewPtrDescribeClientQuotasRequest()
		c := kmsg.NewDescribeClientQuotasRequestComponent()
		c.EntityType, c.MatchType, c.Match = row.kind, row.match, row.name
		req.Components, req.Strict = append(req.Components, c), row.strict
		resp := ask[*kmsg.DescribeClientQuotasResponse](t, ts, req, 1)
		var got []float64
		for _, e := range resp.Entries {
			got = append(got, e.Values[0].Value)
		}
		slices.Sort(got)
		if resp.ErrorCode != row.code || !slices.Equal(got, row.want) {
			t.Errorf("%+v: %v, code %d", row, got, resp.ErrorCode)
		}
	}
}

func TestUpdateFeaturesAnswersForTheWholeFromVersion2(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.controller.reply = &controllerv1.UpdateFeaturesResponse{Features: []*controllerv1.FeatureUpdateResult{
		{Name: "a"}, {Name: "b", Error: &controllerv1.Error{Code: controllerv1.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION, Message: "no"}},
	}}
	req := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = "a", 1, 3, true
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	for version, want := range map[int16]controllerv1.FeatureUpdateType{
		0: controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_SAFE_DOWNGRADE, 1: controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_UNSAFE_DOWNGRADE,
		2: controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_UNSAFE_DOWNGRADE,
	} {
		resp := ask[*kmsg.UpdateFeaturesResponse](t, ts, req, version)
		if got := ts.controller.asked.(*controllerv1.UpdateFeaturesRequest).GetUpdates()[0].GetType(); got != want {
			t.Errorf("version %d asked %v", version, got)
		}
		if whole := resp.ErrorCode == kerr.InvalidUpdateVersion.Code; whole != (version == 2) {
			t.Errorf("version %d answered %d", version, resp.ErrorCode)
		}
		if version < 2 && resp.Results[1].ErrorCode != kerr.InvalidUpdateVersion.Code {
			t.Errorf("version %d: %+v", version, resp.Results)
		}
	}
	req.FeatureUpdates = nil
	if resp := ask[*kmsg.UpdateFeaturesResponse](t, ts, req, 2); resp.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("no feature: %d", resp.ErrorCode)
	}
}

func TestUnregisterBrokerForwardsTheRefusal(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.controller.err = &client.Error{Code: controllerv1.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED, Message: "broker 9 is not registered"}
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = 9
	resp := ask[*kmsg.UnregisterBrokerResponse](t, ts, req, 0)
	if resp.ErrorCode != kerr.BrokerIDNotRegistered.Code || ts.controller.asked.(*controllerv1.UnregisterBrokerRequest).GetBrokerId() != 9 {
		t.Errorf("answered %+v", resp)
	}
}

func TestDescribeTopicPartitionsPageByPage(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.setImage(withTopic(t, ts.image(), "bar", 8, testPartition{replicas: []int32{1}, isr: []int32{1}, leader: 1}))
	var seen []string
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 1
	for range 10 {
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](t, ts, req, 0)
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				seen = append(seen, fmt.Sprintf("%s-%d", *topic.Topic, p.Partition))
			}
		}
		if resp.NextCursor == nil {
			break
		}
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		req.Cursor = &cursor
	}
	if want := []string{"bar-0", "foo-0", "foo-1"}; !slices.Equal(seen, want) {
		t.Errorf("saw %v, want %v", seen, want)
	}
	req = kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, name := range []string{"nope", "foo", "bad/name"} {
		m := kmsg.NewDescribeTopicPartitionsRequestTopic()
		m.Topic = name
		req.Topics = append(req.Topics, m)
	}
	codes := map[string]int16{}
	for _, topic := range ask[*kmsg.DescribeTopicPartitionsResponse](t, ts, req, 0).Topics {
		codes[*topic.Topic] = topic.ErrorCode
	}
	if codes["foo"] != 0 || codes["nope"] != kerr.UnknownTopicOrPartition.Code || codes["bad/name"] != kerr.InvalidTopicException.Code {
		t.Errorf("codes %v", codes)
	}
}
