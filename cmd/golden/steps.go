package golden

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Step is one request.
type Step struct {
	// Name of the step, unique.
	Name string
	// Request makes the request; id looks up the id of a topic that an earlier step created.
	Request func(id func(topic string) [16]byte) kmsg.Request
}

// fixed is a step whose request needs nothing of the earlier ones.
func fixed(name string, r kmsg.Request) Step {
	return Step{Name: name, Request: func(func(string) [16]byte) kmsg.Request { return r }}
}

// Steps are all requests in their order. The cluster has the brokers 1, 2 and 3, a default of one partition and one
// replica, and no topic.
func Steps() []Step {
	var all []Step
	for _, part := range [][]Step{
		createTopics(), describeConfigs(), alterConfigs(), createPartitions(), electLeaders(),
		reassign(), quotas(), describe(), features(), deleteTopics(),
	} {
		all = append(all, part...)
	}
	return all
}

func createTopics() []Step {
	return []Step{
		fixed("create a topic", create(false, topic("plain", 2, 3))),
		fixed("create a topic that exists", create(false, topic("plain", 2, 3))),
		fixed("create with assignments", create(false, assigned("placed", []int32{1, 2, 3}, []int32{2, 3, 1}, []int32{3, 1, 2}))),
		fixed("create with defaults", create(false, topic("defaults", -1, -1))),
		fixed("create with a good one among bad ones", create(false, topic("good", 1, 1), topic("bad/name", 1, 1), topic("", 1, 1))),
		fixed("create with no partitions", create(false, topic("none", 0, 1))),
		fixed("create with minus two partitions", create(false, topic("negative", -2, 1))),
		fixed("create with no replicas", create(false, topic("none", 1, 0))),
		fixed("create with minus two replicas", create(false, topic("none", 1, -2))),
		fixed("create with more replicas than brokers", create(false, topic("many", 1, 4))),
		fixed("create a topic twice in a request", create(false, topic("twice", 1, 1), topic("twice", 1, 1))),
		fixed("create with a long name", create(false, topic(long(250), 1, 1))),
		fixed("create with a dot", create(false, topic(".", 1, 1))),
		fixed("create with a colliding name", create(false, topic("a.b", 1, 1), topic("a_b", 1, 1))),
		fixed("create what collides with a topic", create(false, topic("a_b", 1, 1))),
		fixed("create with a config", create(false, configured("kept", "retention.ms", "60000"))),
		fixed("create with an unknown config", create(false, configured("odd", "no.such.config", "1"))),
		fixed("create with a config of a wrong value", create(false, configured("odd", "retention.ms", "soon"))),
		fixed("create with a config out of range", create(false, configured("odd", "min.insync.replicas", "0"))),
		fixed("create with assignments and counts", create(false, both("both", 3, 1))),
		fixed("create with a replica twice", create(false, assigned("odd", []int32{1, 1}))),
		fixed("create on an unknown broker", create(false, assigned("odd", []int32{9}))),
		fixed("create with replica lists of different lengths", create(false, assigned("odd", []int32{1, 2}, []int32{3}))),
		fixed("create with a gap in the partitions", create(false, gapped("odd"))),
		fixed("create with an empty replica list", create(false, assigned("odd", []int32{}))),
		fixed("rehearse a creation", create(true, topic("rehearsed", 3, 2))),
		fixed("rehearse a creation that is refused", create(true, topic("plain", 3, 2))),
		fixed("see what exists", metadata("rehearsed", "placed")),
	}
}

func describeConfigs() []Step {
	return []Step{
		fixed("describe configs of a topic", describeConfig(kmsg.ConfigResourceTypeTopic, "kept", "retention.ms", "cleanup.policy", "min.insync.replicas")),
		fixed("describe configs of an unknown topic", describeConfig(kmsg.ConfigResourceTypeTopic, "nowhere", "retention.ms")),
		fixed("describe configs of a topic without a name", describeConfig(kmsg.ConfigResourceTypeTopic, "", "retention.ms")),
		fixed("describe an unknown config", describeConfig(kmsg.ConfigResourceTypeTopic, "kept", "no.such.config")),
		fixed("describe configs of a broker that is none", describeConfig(kmsg.ConfigResourceTypeBroker, "one", "log.retention.ms")),
		fixed("describe configs of an unknown kind", describeConfig(77, "kept", "retention.ms")),
	}
}

func alterConfigs() []Step {
	const (
		set      = kmsg.IncrementalAlterConfigOpSet
		remove   = kmsg.IncrementalAlterConfigOpDelete
		add      = kmsg.IncrementalAlterConfigOpAppend
		subtract = kmsg.IncrementalAlterConfigOpSubtract
		ofTopic  = kmsg.ConfigResourceTypeTopic
		ofBroker = kmsg.ConfigResourceTypeBroker
	)
	return []Step{
		fixed("set a config", incremental(false, ofTopic, "kept", change("retention.ms", set, "120000"))),
		fixed("see the config set", describeConfig(ofTopic, "kept", "retention.ms")),
		fixed("set an unknown config", incremental(false, ofTopic, "kept", change("no.such.config", set, "1"))),
		fixed("set a wrong value", incremental(false, ofTopic, "kept", change("retention.ms", set, "soon"))),
		fixed("set a value of null", incremental(false, ofTopic, "kept", nothing("retention.ms", set))),
		fixed("set a config of an unknown topic", incremental(false, ofTopic, "nowhere", change("retention.ms", set, "1"))),
		fixed("set a config of no topic", incremental(false, ofTopic, "", change("retention.ms", set, "1"))),
		fixed("set a config twice in a request", incremental(false, ofTopic, "kept", change("retention.ms", set, "1"), change("retention.ms", set, "2"))),
		fixed("append to what is no list", incremental(false, ofTopic, "kept", change("retention.ms", add, "1"))),
		fixed("subtract from what is no list", incremental(false, ofTopic, "kept", change("retention.ms", subtract, "1"))),
		fixed("an unknown operation", incremental(false, ofTopic, "kept", change("retention.ms", 9, "1"))),
		fixed("rehearse a change", incremental(true, ofTopic, "kept", change("retention.ms", set, "5"))),
		fixed("see that nothing changed", describeConfig(ofTopic, "kept", "retention.ms")),
		fixed("remove a config", incremental(false, ofTopic, "kept", nothing("retention.ms", remove))),
		fixed("remove a config that is not set", incremental(false, ofTopic, "kept", nothing("retention.ms", remove))),
		fixed("see the default", describeConfig(ofTopic, "kept", "retention.ms")),
		fixed("set a config of an unknown broker", incremental(false, ofBroker, "9", change("log.retention.ms", set, "1"))),
		fixed("set a config of a broker that is none", incremental(false, ofBroker, "one", change("log.retention.ms", set, "1"))),
		fixed("set the default of all brokers", incremental(false, ofBroker, "", change("log.retention.ms", set, "86400000"))),
		fixed("remove the default of all brokers", incremental(false, ofBroker, "", nothing("log.retention.ms", remove))),
		fixed("replace all configs", replace(false, "kept", "max.message.bytes", "2000")),
		fixed("see them replaced", describeConfig(ofTopic, "kept", "retention.ms", "max.message.bytes")),
		fixed("replace with an unknown config", replace(false, "kept", "no.such.config", "2000")),
		fixed("rehearse a replacement", replace(true, "kept", "max.message.bytes", "3000")),
		fixed("replace the configs of an unknown topic", replace(false, "nowhere", "max.message.bytes", "3000")),
	}
}

func createPartitions() []Step {
	return []Step{
		fixed("add partitions", grow(false, more("plain", 4))),
		fixed("add no partitions", grow(false, more("plain", 4))),
		fixed("take partitions away", grow(false, more("plain", 1))),
		fixed("ask for no partitions", grow(false, more("plain", 0))),
		fixed("add partitions to an unknown topic", grow(false, more("nowhere", 4))),
		fixed("add partitions to a topic twice in a request", grow(false, more("plain", 6), more("plain", 7))),
		fixed("add partitions by hand", grow(false, more("placed", 4, []int32{2, 1, 3}))),
		fixed("add partitions with too few assignments", grow(false, more("placed", 6, []int32{2, 1, 3}))),
		fixed("add partitions with another number of replicas", grow(false, more("placed", 5, []int32{2, 1}))),
		fixed("add partitions on an unknown broker", grow(false, more("placed", 5, []int32{2, 1, 9}))),
		fixed("add partitions with a replica twice", grow(false, more("placed", 5, []int32{2, 1, 1}))),
		fixed("rehearse more partitions", grow(true, more("plain", 9))),
		fixed("see the partitions", metadata("placed")),
	}
}

func electLeaders() []Step {
	return []Step{
		fixed("elect preferred leaders that lead", elect(0, "placed", 0, 1)),
		fixed("elect a leader of an unknown partition", elect(0, "placed", 99)),
		fixed("elect a leader of an unknown topic", elect(0, "nowhere", 0)),
		fixed("elect uncleanly where there is a leader", elect(1, "placed", 0)),
		fixed("elect by an unknown rule", elect(7, "placed", 0)),
	}
}

func reassign() []Step {
	return []Step{
		fixed("list reassignments when there are none", reassignments("")),
		fixed("reassign to the same replicas", move("placed", 0, 1, 2, 3)),
		fixed("reassign to another order", move("placed", 0, 3, 2, 1)),
		fixed("reassign an unknown topic", move("nowhere", 0, 1)),
		fixed("reassign an unknown partition", move("placed", 99, 1)),
		fixed("reassign to an unknown broker", move("placed", 0, 9, 1, 2)),
		fixed("reassign to a replica twice", move("placed", 0, 1, 1, 2)),
		fixed("reassign to nobody", move("placed", 0, []int32{}...)),
		fixed("reassign to a negative id", move("placed", 0, -1, 2, 3)),
		fixed("cancel what is not reassigned", move("placed", 0)),
		fixed("cancel in an unknown topic", move("nowhere", 0)),
		fixed("list reassignments of an unknown topic", reassignments("nowhere")),
		fixed("list reassignments of a topic", reassignments("placed")),
		fixed("see the new order", metadata("placed")),
	}
}

func quotas() []Step {
	return []Step{
		fixed("set a quota", quota(false, "client-id", "c1", "producer_byte_rate", 1000)),
		fixed("set an unknown quota", quota(false, "client-id", "c1", "no_such_quota", 1000)),
		fixed("set a quota of an unknown kind", quota(false, "planet", "c1", "producer_byte_rate", 1000)),
		fixed("set a negative quota", quota(false, "client-id", "c1", "producer_byte_rate", -5)),
		fixed("rehearse a quota", quota(true, "client-id", "c2", "producer_byte_rate", 1000)),
		fixed("describe quotas", describeQuotas("client-id")),
		fixed("describe quotas of an unknown kind", describeQuotas("planet")),
	}
}

func describe() []Step {
	return []Step{
		fixed("describe topic partitions", describePartitions("placed", "nowhere")),
		fixed("describe the topic partitions of a bad name", describePartitions("bad/name")),
		fixed("describe log directories", describeLogDirs("placed", 0)),
		fixed("describe log directories of an unknown topic", describeLogDirs("nowhere", 0)),
		fixed("describe the quorum of another topic", describeQuorum("placed")),
		fixed("describe the cluster", kmsg.NewPtrDescribeClusterRequest()),
		fixed("metadata of an unknown topic", metadata("nowhere")),
		fixed("metadata of a bad name", metadata("bad/name")),
		{Name: "metadata by an id that nobody has", Request: func(func(string) [16]byte) kmsg.Request { return metadataByID([16]byte{15: 9}) }},
		{Name: "metadata by id", Request: func(id func(string) [16]byte) kmsg.Request { return metadataByID(id("placed")) }},
		fixed("unregister an unknown broker", unregister(9)),
	}
}

func features() []Step {
	return []Step{
		fixed("update an unknown feature", feature("no.such.feature", 1, 1)),
		fixed("update a feature without a name", feature("", 1, 1)),
		fixed("update a feature by an unknown rule", feature("metadata.version", 7, 9)),
	}
}

func deleteTopics() []Step {
	return []Step{
		fixed("delete a topic", remove("good")),
		fixed("delete it again", remove("good")),
		fixed("delete an unknown topic", remove("nowhere")),
		fixed("delete a topic twice in a request", remove("a.b", "a.b")),
		{Name: "delete by id", Request: func(id func(string) [16]byte) kmsg.Request { return removeID(id("plain")) }},
		{Name: "delete by an id that nobody has", Request: func(func(string) [16]byte) kmsg.Request { return removeID([16]byte{15: 9}) }},
		{Name: "delete by name and id at once", Request: func(id func(string) [16]byte) kmsg.Request { return removeBoth("placed", id("placed")) }},
		fixed("delete a good one among bad ones", remove("kept", "nowhere", "")),
		fixed("see what is left", metadata("plain", "kept", "placed", "good")),
	}
}
