package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/fsm/topicconfig"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// CreateTopics, key 19, versions 0 to 7: forwarded to the active controller, whatever broker the client chose.
//
// The answer waits until this broker's own image has the topics, or for the request's timeout; then it tells what was
// committed. Each topic is judged alone. A name that occurs twice is INVALID_REQUEST, and stands once in the answer. If the
// controller cannot be asked in time the answer is REQUEST_TIMED_OUT for each topic: as with Kafka the outcome may be
// unknown, and a repetition answers TOPIC_ALREADY_EXISTS.
//
// From version 5 on the answer lists the topic's configs: those that the request set, and the defaults of the others.
var createTopicsAPI = api{
	key:        19,
	advertised: versions(0, 7),
	served:     versions(0, 7),
	handle:     handled((*Server).createTopics),
}

// createTopics has topics created and waits until they are visible here.
func (s *Server) createTopics(ctx context.Context, c *call, req *kmsg.CreateTopicsRequest) (kmsg.Response, error) {
	resp := answer[*kmsg.CreateTopicsResponse](req)
	resp.Topics = []kmsg.CreateTopicsResponseTopic{}
	timeout := adminTimeout(req.TimeoutMillis)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	once, twice := splitDuplicates(req.Topics, func(t kmsg.CreateTopicsRequestTopic) string { return t.Topic })
	for _, name := range twice {
		resp.Topics = append(resp.Topics, createFailed(name, kerr.InvalidRequest.Code, "the topic occurs twice in the request"))
	}
	if len(once) == 0 {
		return resp, nil
	}
	ask := &controllerv1.CreateTopicsRequest{Context: c.requestContext("CreateTopics", timeout), ValidateOnly: req.ValidateOnly}
	for _, t := range once {
		ask.Topics = append(ask.Topics, creatable(t))
	}
	created, err := s.config.Controller.CreateTopics(ctx, ask)
	if err != nil {
		code := s.code(err)
		for _, t := range once {
			resp.Topics = append(resp.Topics, createFailed(t.Topic, code, err.Error()))
		}
		return resp, nil
	}
	if !req.ValidateOnly {
		s.awaitMetadata(ctx, created.GetMetadataOffset())
	}
	asked := make(map[string][]kmsg.CreateTopicsRequestTopicConfig, len(once))
	for _, t := range once {
		asked[t.Topic] = t.Configs
	}
	for _, t := range created.GetTopics() {
		resp.Topics = append(resp.Topics, s.createResult(t, asked[t.GetName()]))
	}
	return resp, nil
}

// creatable translates one topic of the request.
func creatable(t kmsg.CreateTopicsRequestTopic) *controllerv1.CreatableTopic {
	c := &controllerv1.CreatableTopic{Name: t.Topic, NumPartitions: t.NumPartitions, ReplicationFactor: int32(t.ReplicationFactor)}
	for _, a := range t.ReplicaAssignment {
		c.Assignments = append(c.Assignments, &controllerv1.ReplicaAssignment{PartitionId: a.Partition, BrokerIds: a.Replicas})
	}
	for _, e := range t.Configs {
		c.Configs = append(c.Configs, &controllerv1.TopicConfig{Key: e.Name, Value: e.Value})
	}
	return c
}

// createResult translates what the controller says of one topic, for which configs were asked.
func (s *Server) createResult(t *controllerv1.CreateTopicResult, asked []kmsg.CreateTopicsRequestTopicConfig) kmsg.CreateTopicsResponseTopic {
	if e := t.GetError(); e != nil {
		return createFailed(t.GetName(), controllerCode(e.GetCode()), e.GetMessage())
	}
	m := kmsg.NewCreateTopicsResponseTopic()
	m.Topic = t.GetName()
	copy(m.TopicID[:], t.GetTopicId())
	m.NumPartitions, m.ReplicationFactor = t.GetNumPartitions(), int16(t.GetReplicationFactor())
	m.Configs = s.createdConfigs(asked)
	return m
}

// createdConfigs lists the configs of a new topic. They do not depend on whether the topic is visible here already, nor
// on whether its creation was only rehearsed.
func (s *Server) createdConfigs(asked []kmsg.CreateTopicsRequestTopicConfig) []kmsg.CreateTopicsResponseTopicConfig {
	list := []kmsg.CreateTopicsResponseTopicConfig{}
	img := s.config.Image()
	if img == nil {
		return list
	}
	set := make(map[string]*string, len(asked))
	for _, c := range asked {
		set[c.Name] = c.Value
	}
	const none = "" // no topic has this name, so what is in force for it is what a topic has by default
	for _, v := range topicconfig.All(img, s.config.Static, none) {
		config := kmsg.NewCreateTopicsResponseTopicConfig()
		config.Name, config.Value, config.Source = v.Key.Name, kmsg.StringPtr(v.Value), int8(v.Source)
		if value, ok := set[config.Name]; ok {
			config.Value, config.Source = value, int8(topicconfig.SourceTopic)
		}
		list = append(list, config)
	}
	return list
}

// createFailed is the answer for a topic that was not created.
func createFailed(name string, code int16, message string) kmsg.CreateTopicsResponseTopic {
	m := kmsg.NewCreateTopicsResponseTopic()
	m.Topic, m.ErrorCode, m.ErrorMessage = name, code, messageOf(message)
	m.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	return m
}

// splitDuplicates returns the items whose key occurs once, in order, and the keys that occur more often.
func splitDuplicates[T any, K comparable](items []T, key func(T) K) (once []T, twice []K) {
	count := make(map[K]int, len(items))
	for _, item := range items {
		k := key(item)
		if count[k]++; count[k] == 2 {
			twice = append(twice, k)
		}
	}
	for _, item := range items {
		if count[key(item)] == 1 {
			once = append(once, item)
		}
	}
	return once, twice
}
