package controller

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// clusterMetadataTopic is the name under which Kafka's own tools know the metadata log.
const clusterMetadataTopic = "__cluster_metadata"

// CreateTopics creates topics (Kafka's CreateTopics). Each is judged alone; the good ones take effect together, in one
// batch. A name that the request has twice is judged and answered once. With validate_only it answers the same, and
// changes nothing.
func CreateTopics(img *fsm.Image, env *Env, req *controllerv1.CreateTopicsRequest) Decision[*controllerv1.CreateTopicsResponse] {
	if refused := refuseUnconfirmed(img); refused != nil {
		return Decision[*controllerv1.CreateTopicsResponse]{Refused: refused}
	}
	if total := env.partitionsAsked(req); total > env.Limits.MaxPartitionsPerRequest {
		return refuse[*controllerv1.CreateTopicsResponse](controllerv1.ErrorCode_ERROR_CODE_POLICY_VIOLATION,
			"the request asks for %d partitions, one request may ask for %d; split the request", total, env.Limits.MaxPartitionsPerRequest)
	}
	c := &creation{img: img, env: env, times: countNames(req), metricNames: map[string]string{}}
	reply := &controllerv1.CreateTopicsResponse{}
	answered := map[string]bool{}
	for _, t := range req.GetTopics() {
		if answered[t.GetName()] {
			continue
		}
		answered[t.GetName()] = true
		reply.Topics = append(reply.Topics, c.create(t))
	}
	batches, refused := env.oneBatch(img, c.reason(), c.records)
	if refused != nil {
		return Decision[*controllerv1.CreateTopicsResponse]{Refused: refused}
	}
	if req.GetValidateOnly() {
		batches = nil
	}
	return Decision[*controllerv1.CreateTopicsResponse]{Batches: batches, Reply: reply}
}

// partitionsAsked counts in 64 bits, so that no request is large enough to look small. It does not judge: a count that
// is not a legal one is refused later, with its topic.
func (e *Env) partitionsAsked(req *controllerv1.CreateTopicsRequest) int64 {
	var total int64
	for _, t := range req.GetTopics() {
		switch {
		case len(t.GetAssignments()) > 0:
			total += int64(len(t.GetAssignments()))
		case t.GetNumPartitions() == -1:
			total += int64(e.Defaults.NumPartitions)
		default:
			total += max(0, int64(t.GetNumPartitions()))
		}
	}
	return total
}

func countNames(req *controllerv1.CreateTopicsRequest) map[string]int {
	times := map[string]int{}
	for _, t := range req.GetTopics() {
		times[t.GetName()]++
	}
	return times
}

// creation is one CreateTopics request on its way to a decision.
type creation struct {
	img   *fsm.Image
	env   *Env
	times map[string]int
	// metricNames are the names that the request's good topics take in metrics.
	metricNames map[string]string
	ids         []fsm.UUID
	names       []string
	records     []*metadatav1.Record
}

func (c *creation) reason() *metadatav1.Reason {
	if len(c.names) == 1 {
		return reason("topics_created", "topic %s was created", c.names[0])
	}
	return reason("topics_created", "%d topics were created", len(c.names))
}

// create judges one topic and, if it is good, adds its records.
func (c *creation) create(t *controllerv1.CreatableTopic) *controllerv1.CreateTopicResult {
	refused := func(err *controllerv1.Error) *controllerv1.CreateTopicResult {
		return &controllerv1.CreateTopicResult{Name: t.GetName(), Error: err, NumPartitions: -1, ReplicationFactor: -1}
	}
	if err := c.checkName(t.GetName()); err != nil {
		return refused(err)
	}
	configs, err := checkTopicConfigs(t.GetConfigs())
	if err != nil {
		return refused(err)
	}
	partitions, err := c.placements(t)
	if err != nil {
		return refused(err)
	}
	id := c.newTopicID()
	c.names = append(c.names, t.GetName())
	c.metricNames[metricName(t.GetName())] = t.GetName()
	c.records = append(c.records, topicRecords(id, t.GetName(), configs, partitions)...)
	return &controllerv1.CreateTopicResult{
		Name:              t.GetName(),
		TopicId:           id.Bytes(),
		NumPartitions:     int32(len(partitions)), //nolint:gosec // MaxPartitionsPerRequest bounds it
		ReplicationFactor: int32(len(partitions[0].replicas)),
		Configs:           c.configsInForce(configs),
	}
}

func (c *creation) checkName(name string) *controllerv1.Error {
	switch {
	case c.times[name] > 1:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "topic %.60q is in the request %d times", name, c.times[name])
	case name == clusterMetadataTopic:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "topic %s is reserved", name)
	}
	if t, ok := c.img.TopicByName(name); ok {
		return itemError(controllerv1.ErrorCode_ERROR_CODE_TOPIC_ALREADY_EXISTS, "topic %s exists, with id %s", name, t.ID())
	}
	if err := fsm.CheckTopicName(name); err != nil {
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_TOPIC_EXCEPTION, "%s", err)
	}
	existing, collides := c.img.TopicNameCollides(name)
	if !collides {
		existing, collides = c.metricNames[metricName(name)]
	}
	if collides {
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_TOPIC_EXCEPTION,
			"topic %s would have the same metrics as topic %s: in their names '.' and '_' are one", name, existing)
	}
	return nil
}

// metricName is what a topic is called in metrics, where '.' and '_' are one.
func metricName(name string) string { return strings.ReplaceAll(name, ".", "_") }

func checkTopicConfigs(configs []*controllerv1.TopicConfig) (map[string]string, *controllerv1.Error) {
	const invalid = controllerv1.ErrorCode_ERROR_CODE_INVALID_CONFIG
	values := map[string]string{}
	for _, config := range configs {
		if config.Value == nil {
			return nil, itemError(invalid, "%.60s has no value", config.GetKey())
		}
		if _, twice := values[config.GetKey()]; twice {
			return nil, itemError(invalid, "%s is given twice", config.GetKey())
		}
		if err := topicconfig.Validate(config.GetKey(), config.GetValue()); err != nil {
			return nil, itemError(invalid, "%s", err)
		}
		values[config.GetKey()] = config.GetValue()
	}
	return values, nil
}

// newTopicID draws a uuid (version 4) that no topic has (I10).
func (c *creation) newTopicID() fsm.UUID {
	for {
		var id fsm.UUID
		for i := 0; i < len(id); i += 8 {
			for j, bits := 0, c.env.Rand.Uint64(); j < 8; j, bits = j+1, bits>>8 {
				id[i+j] = byte(bits)
			}
		}
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		// Kafka's ids never begin with a dash, which a command line would take for a flag.
		if _, taken := c.img.Topic(id); taken || id.String()[0] == '-' || c.drawn(id) {
			continue
		}
		c.ids = append(c.ids, id)
		return id
	}
}

func (c *creation) drawn(id fsm.UUID) bool {
	for _, other := range c.ids {
		if other == id {
			return true
		}
	}
	return false
}

// topicRecords are the records of a new topic in Kafka's order: the topic, its configs, its partitions.
func topicRecords(id fsm.UUID, name string, configs map[string]string, partitions []placement) []*metadatav1.Record {
	records := []*metadatav1.Record{{Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{Name: name, TopicId: id.Bytes()}}}}
	for _, key := range topicconfig.Keys() {
		if value, ok := configs[key.Name]; ok {
			records = append(records, &metadatav1.Record{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
				ResourceType: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC,
				ResourceName: name,
				Key:          key.Name,
				Value:        proto.String(value),
			}}})
		}
	}
	for i, p := range partitions {
		records = append(records, partitionRecord(id, int32(i), p)) //nolint:gosec // MaxPartitionsPerRequest bounds it
	}
	return records
}

// configsInForce lists every key with the value that the new topic will have.
func (c *creation) configsInForce(own map[string]string) []*controllerv1.TopicConfig {
	var out []*controllerv1.TopicConfig
	for _, v := range topicconfig.All(c.img, c.env.Defaults.Topics, "") {
		value := v.Value
		if set, ok := own[v.Key.Name]; ok {
			value = set
		}
		out = append(out, &controllerv1.TopicConfig{Key: v.Key.Name, Value: proto.String(value)})
	}
	return out
}
