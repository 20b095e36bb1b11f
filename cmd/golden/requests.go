package golden

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// timeoutMillis of every request that has one.
const timeoutMillis = 10_000

func long(n int) string { return strings.Repeat("x", n) }

func create(rehearse bool, topics ...kmsg.CreateTopicsRequestTopic) kmsg.Request {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Topics, r.TimeoutMillis, r.ValidateOnly = topics, timeoutMillis, rehearse
	return r
}

func topic(name string, partitions int32, replicas int16) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replicas
	return t
}

func assigned(name string, replicas ...[]int32) kmsg.CreateTopicsRequestTopic {
	t := topic(name, -1, -1)
	for i, r := range replicas {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), r
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
	return t
}

// both has counts and assignments, of which Kafka accepts one.
func both(name string, partitions int32, replicas int16) kmsg.CreateTopicsRequestTopic {
	t := assigned(name, []int32{1})
	t.NumPartitions, t.ReplicationFactor = partitions, replicas
	return t
}

// gapped assigns partition 0 and 2.
func gapped(name string) kmsg.CreateTopicsRequestTopic {
	t := assigned(name, []int32{1}, []int32{2})
	t.ReplicaAssignment[1].Partition = 2
	return t
}

func configured(name, key, value string) kmsg.CreateTopicsRequestTopic {
	t := topic(name, 1, 1)
	c := kmsg.NewCreateTopicsRequestTopicConfig()
	c.Name, c.Value = key, &value
	t.Configs = append(t.Configs, c)
	return t
}

func metadata(names ...string) kmsg.Request {
	r := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		r.Topics = append(r.Topics, t)
	}
	return r
}

func metadataByID(id [16]byte) kmsg.Request {
	r := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.TopicID = id
	r.Topics = append(r.Topics, t)
	return r
}

func describeConfig(kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.Request {
	r := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kind, name, keys
	r.Resources = append(r.Resources, resource)
	return r
}

func incremental(rehearse bool, kind kmsg.ConfigResourceType, name string, changes ...kmsg.IncrementalAlterConfigsRequestResourceConfig) kmsg.Request {
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.Configs = kind, name, changes
	r.Resources, r.ValidateOnly = append(r.Resources, resource), rehearse
	return r
}

func nothing(key string, op kmsg.IncrementalAlterConfigOp) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Op = key, op
	return c
}

func change(key string, op kmsg.IncrementalAlterConfigOp, value string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	c := nothing(key, op)
	c.Value = &value
	return c
}

func replace(rehearse bool, name, key, value string) kmsg.Request {
	r := kmsg.NewPtrAlterConfigsRequest()
	resource := kmsg.NewAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, name
	c := kmsg.NewAlterConfigsRequestResourceConfig()
	c.Name, c.Value = key, &value
	resource.Configs = append(resource.Configs, c)
	r.Resources, r.ValidateOnly = append(r.Resources, resource), rehearse
	return r
}

func grow(rehearse bool, topics ...kmsg.CreatePartitionsRequestTopic) kmsg.Request {
	r := kmsg.NewPtrCreatePartitionsRequest()
	r.Topics, r.TimeoutMillis, r.ValidateOnly = topics, timeoutMillis, rehearse
	return r
}

func more(name string, count int32, replicas ...[]int32) kmsg.CreatePartitionsRequestTopic {
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = name, count
	for _, list := range replicas {
		a := kmsg.NewCreatePartitionsRequestTopicAssignment()
		a.Replicas = list
		t.Assignment = append(t.Assignment, a)
	}
	return t
}

func elect(rule int8, name string, partitions ...int32) kmsg.Request {
	r := kmsg.NewPtrElectLeadersRequest()
	t := kmsg.NewElectLeadersRequestTopic()
	t.Topic, t.Partitions = name, partitions
	r.ElectionType, r.Topics, r.TimeoutMillis = rule, append(r.Topics, t), timeoutMillis
	return r
}

// move reassigns one partition; without replicas it cancels, with an empty list it asks for none.
func move(name string, partition int32, replicas ...int32) kmsg.Request {
	r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition, p.Replicas = partition, replicas
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic, t.Partitions = name, append(t.Partitions, p)
	r.Topics, r.TimeoutMillis = append(r.Topics, t), timeoutMillis
	return r
}

// reassignments of a topic's partition 0, or of all topics.
func reassignments(name string) kmsg.Request {
	r := kmsg.NewPtrListPartitionReassignmentsRequest()
	r.TimeoutMillis = timeoutMillis
	if name != "" {
		t := kmsg.NewListPartitionReassignmentsRequestTopic()
		t.Topic, t.Partitions = name, []int32{0}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func quota(rehearse bool, kind, name, key string, value float64) kmsg.Request {
	r := kmsg.NewPtrAlterClientQuotasRequest()
	entity := kmsg.NewAlterClientQuotasRequestEntryEntity()
	entity.Type, entity.Name = kind, &name
	op := kmsg.NewAlterClientQuotasRequestEntryOp()
	op.Key, op.Value = key, value
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	entry.Entity, entry.Ops = append(entry.Entity, entity), append(entry.Ops, op)
	r.Entries, r.ValidateOnly = append(r.Entries, entry), rehearse
	return r
}

// describeQuotas of every entity of a kind.
func describeQuotas(kind string) kmsg.Request {
	r := kmsg.NewPtrDescribeClientQuotasRequest()
	c := kmsg.NewDescribeClientQuotasRequestComponent()
	c.EntityType, c.MatchType = kind, kmsg.QuotasMatchTypeAny
	r.Components = append(r.Components, c)
	return r
}

func describePartitions(names ...string) kmsg.Request {
	r := kmsg.NewPtrDescribeTopicPartitionsRequest()
	for _, name := range names {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = name
		r.Topics = append(r.Topics, t)
	}
	return r
}

func describeLogDirs(name string, partitions ...int32) kmsg.Request {
	r := kmsg.NewPtrDescribeLogDirsRequest()
	t := kmsg.NewDescribeLogDirsRequestTopic()
	t.Topic, t.Partitions = name, partitions
	r.Topics = append(r.Topics, t)
	return r
}

func describeQuorum(name string) kmsg.Request {
	r := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic, t.Partitions = name, []kmsg.DescribeQuorumRequestTopicPartition{kmsg.NewDescribeQuorumRequestTopicPartition()}
	r.Topics = append(r.Topics, t)
	return r
}

func unregister(id int32) kmsg.Request {
	r := kmsg.NewPtrUnregisterBrokerRequest()
	r.BrokerID = id
	return r
}

func feature(name string, rule int8, level int16) kmsg.Request {
	r := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.UpgradeType, u.MaxVersionLevel = name, rule, level
	r.FeatureUpdates, r.TimeoutMillis = append(r.FeatureUpdates, u), timeoutMillis
	return r
}

func remove(names ...string) kmsg.Request {
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.TimeoutMillis = timeoutMillis
	for _, name := range names {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		r.Topics = append(r.Topics, t)
	}
	return r
}

func removeID(id [16]byte) kmsg.Request {
	r := kmsg.NewPtrDeleteTopicsRequest()
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.TopicID = id
	r.Topics, r.TimeoutMillis = append(r.Topics, t), timeoutMillis
	return r
}

func removeBoth(name string, id [16]byte) kmsg.Request {
	r := removeID(id).(*kmsg.DeleteTopicsRequest)
	r.Topics[0].Topic = &name
	return r
}
