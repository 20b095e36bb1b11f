package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/fsm"
)

// Metadata, key 3, versions 0 to 13: brokers, topics, leaders, as this broker's image has them.
//
// All addresses are those of the listener that the request came in on; a broker that does not advertise it is not named.
// Fenced brokers are not offered, and count as offline replicas. The controller id is a broker that answers admin
// requests, which every broker does: this one if it is unfenced, as in KRaft some live broker. A partition whose leader is
// gone or has no such listener carries LEADER_NOT_AVAILABLE, or LISTENER_NOT_FOUND from version 6 on.
//
// An unknown topic is answered with UNKNOWN_TOPIC_OR_PARTITION. If the broker and the request allow it (from version 4 on the
// request says so, before that it always does) it is created in the background; the client's next attempt finds it. A
// request for all topics creates nothing.
//
// Topic ids are told from version 10 on, and asked for from version 12 on (KIP-516): before that a request by id is
// INVALID_REQUEST, as in Kafka. Clients fetch by name all the same, because Fetch is advertised below version 13. Version 13
// can tell clients to bootstrap anew (KIP-1102), which this broker never does.
var metadataAPI = api{
	key:        3,
	advertised: versions(0, 13),
	served:     versions(0, 13),
	handle:     handled((*Server).metadata),
}

// metadata answers from the image.
func (s *Server) metadata(_ context.Context, c *call, req *kmsg.MetadataRequest) (kmsg.Response, error) {
	img, err := s.image()
	if err != nil {
		return nil, err
	}
	resp := answer[*kmsg.MetadataResponse](req)
	resp.ClusterID = kmsg.StringPtr(img.ClusterID())
	resp.ControllerID = s.adminBroker(img, c.listener)
	resp.Brokers = metadataBrokers(img, c.listener)
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
	d := topicDescriber{img: img, listener: c.listener, version: req.Version, operations: req.IncludeTopicAuthorizedOperations}
	if wantsAllTopics(req) {
		resp.Topics = d.all()
		return resp, nil
	}
	var unknown []string
	resp.Topics, unknown = d.named(req.Topics)
	if s.config.AutoCreateTopics && (req.Version < 4 || req.AllowAutoTopicCreation) {
		s.autoCreate.start(unknown, c)
	}
	return resp, nil
}

// wantsAllTopics tells whether the request names no topics in the way that means all: version 0 had no null.
func wantsAllTopics(req *kmsg.MetadataRequest) bool {
	if req.Version == 0 {
		return len(req.Topics) == 0
	}
	return req.Topics == nil
}

// metadataBrokers lists the unfenced brokers.
func metadataBrokers(img *fsm.Image, listener string) []kmsg.MetadataResponseBroker {
	brokers := []kmsg.MetadataResponseBroker{}
	for b, l := range offeredBrokers(img, listener) {
		m := kmsg.NewMetadataResponseBroker()
		m.NodeID, m.Host, m.Port, m.Rack = b.ID, l.Host, int32(l.Port), rackOf(b)
		brokers = append(brokers, m)
	}
	return brokers
}

// topicDescriber describes topics for one request.
type topicDescriber struct {
	img      *fsm.Image
	listener string
	version  int16
	// operations are asked for.
	operations bool
	// reachable remembers which brokers are offered on the listener, because every replica of every partition is looked up.
	reachable map[int32]bool
}

// all describes all topics.
func (d *topicDescriber) all() []kmsg.MetadataResponseTopic {
	topics := make([]kmsg.MetadataResponseTopic, 0, d.img.NumTopics())
	for t := range d.img.Topics() {
		topics = append(topics, d.topic(t))
	}
	return topics
}

// named describes the topics that were asked for, each once, and returns which ones could be created.
func (d *topicDescriber) named(asked []kmsg.MetadataRequestTopic) (topics []kmsg.MetadataResponseTopic, unknown []string) {
	topics = []kmsg.MetadataResponseTopic{}
	type key struct {
		name string
		id   fsm.UUID
	}
	seen := make(map[key]bool, len(asked))
	for _, a := range asked {
		k := key{id: a.TopicID}
		if a.Topic != nil {
			k.name = *a.Topic
		}
		if seen[k] {
			continue
		}
		seen[k] = true
		if !k.id.IsZero() {
			topics = append(topics, d.byID(k.id))
			continue
		}
		m, creatable := d.byName(k.name)
		topics = append(topics, m)
		if creatable {
			unknown = append(unknown, k.name)
		}
	}
	return topics, unknown
}

// byName describes one topic; if there is none it tells whether one of that name could be created.
func (d *topicDescriber) byName(name string) (m kmsg.MetadataResponseTopic, creatable bool) {
	if t, ok := d.img.TopicByName(name); ok {
		return d.topic(t), false
	}
	m = d.header(name)
	m.ErrorCode = kerr.UnknownTopicOrPartition.Code
	if fsm.CheckTopicName(name) != nil {
		m.ErrorCode = kerr.InvalidTopicException.Code
		return m, false
	}
	return m, !isInternalTopic(name)
}

// byID describes one topic; an unknown id is answered without a name.
func (d *topicDescriber) byID(id fsm.UUID) kmsg.MetadataResponseTopic {
	if t, ok := d.img.Topic(id); ok && d.version >= 12 {
		return d.topic(t)
	}
	m := d.header("")
	m.TopicID = id
	m.ErrorCode = kerr.UnknownTopicID.Code
	if d.version < 12 { // the name is not nullable yet
		m.ErrorCode = kerr.InvalidRequest.Code
		return m
	}
	m.Topic = nil
	return m
}

// header is what is said of a topic without its partitions.
func (d *topicDescriber) header(name string) kmsg.MetadataResponseTopic {
	m := kmsg.NewMetadataResponseTopic()
	m.Topic = kmsg.StringPtr(name)
	m.IsInternal = isInternalTopic(name)
	m.Partitions = []kmsg.MetadataResponseTopicPartition{}
	if d.operations {
		m.AuthorizedOperations = topicOperations
	}
	return m
}

// topic describes a topic that exists.
func (d *topicDescriber) topic(t *fsm.Topic) kmsg.MetadataResponseTopic {
	m := d.header(t.Name())
	m.TopicID = t.ID()
	m.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, t.NumPartitions())
	for i, p := range t.Partitions() {
		m.Partitions = append(m.Partitions, d.partition(i, p))
	}
	return m
}

// partition describes one partition.
func (d *topicDescriber) partition(id int32, p fsm.Partition) kmsg.MetadataResponseTopicPartition {
	m := kmsg.NewMetadataResponseTopicPartition()
	m.Partition, m.Leader, m.LeaderEpoch = id, p.Leader, p.LeaderEpoch
	m.Replicas, m.ISR = notNil(p.Replicas), notNil(p.ISR)
	m.OfflineReplicas = []int32{}
	for _, r := range p.Replicas {
		if !d.offered(r) {
			m.OfflineReplicas = append(m.OfflineReplicas, r)
		}
	}
	if !d.offered(p.Leader) {
		m.ErrorCode, m.Leader = d.leaderError(p.Leader), fsm.NoLeader
	}
	return m
}

// leaderError is what is wrong with a leader that clients cannot reach.
func (d *topicDescriber) leaderError(leader int32) int16 {
	if _, registered := d.img.Broker(leader); registered && d.version >= 6 {
		return kerr.ListenerNotFound.Code
	}
	return kerr.LeaderNotAvailable.Code
}

// offered tells whether a broker is one that clients are told of.
func (d *topicDescriber) offered(id int32) bool {
	if d.reachable == nil {
		d.reachable = map[int32]bool{}
		for b := range offeredBrokers(d.img, d.listener) {
			d.reachable[b.ID] = true
		}
	}
	return d.reachable[id]
}
