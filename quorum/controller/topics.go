package controller

import (
	"math"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"google.golang.org/protobuf/proto"
)

// CreateTopics creates topics (Kafka's CreateTopics). Each is judged alone; the good ones take effect together, in one
// batch. A name that the request has twice is judged and answered once. With validate_only it answers the same, and
// changes nothing.
func CreateTopics(img *fsm.Image, env *Env, req *controllerv1.CreateTopicsRequest) Decision[*controllerv1.CreateTopicsResponse] {
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

// placement is where one partition begins.
type placement struct {
	replicas []int32
	isr      []int32
}

// placements places every partition of a topic, by hand or automatically.
func (c *creation) placements(t *controllerv1.CreatableTopic) ([]placement, *controllerv1.Error) {
	if len(t.GetAssignments()) > 0 {
		return c.manual(t)
	}
	partitions, factor := t.GetNumPartitions(), t.GetReplicationFactor()
	switch {
	case factor < -1 || factor == 0 || factor > math.MaxInt16:
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR,
			"replication factor %d: it must be from 1 to %d, or -1 for the default", factor, math.MaxInt16)
	case partitions < -1 || partitions == 0:
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_PARTITIONS,
			"%d partitions: there must be at least 1, or -1 for the default", partitions)
	}
	if factor == -1 {
		factor = c.env.Defaults.ReplicationFactor
	}
	if partitions == -1 {
		partitions = c.env.Defaults.NumPartitions
	}
	return c.automatic(int(partitions), int(factor))
}

func (c *creation) automatic(partitions, factor int) ([]placement, *controllerv1.Error) {
	p := newPlacer(c.img, c.env.Rand)
	if err := p.check(factor); err != nil {
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR, "%s", err)
	}
	out := make([]placement, partitions)
	for i := range out {
		replicas := p.place(factor)
		out[i] = placement{replicas: replicas, isr: c.activeOf(replicas)}
		if len(out[i].isr) == 0 {
			return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR, "none of the brokers %v is up", replicas)
		}
	}
	return out, nil
}

// activeOf keeps the brokers that are up, in their order: the ISR that a new partition begins with.
func (c *creation) activeOf(replicas []int32) []int32 {
	up := active(c.img)
	isr := make([]int32, 0, len(replicas))
	for _, id := range replicas {
		if up(id) {
			isr = append(isr, id)
		}
	}
	return isr
}

// manual takes the placement from the request.
func (c *creation) manual(t *controllerv1.CreatableTopic) ([]placement, *controllerv1.Error) {
	if t.GetReplicationFactor() != -1 || t.GetNumPartitions() != -1 {
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
			"with assignments, the replication factor (%d) and the number of partitions (%d) must be -1",
			t.GetReplicationFactor(), t.GetNumPartitions())
	}
	byID := map[int32]placement{}
	factor := 0
	for _, a := range t.GetAssignments() {
		if _, twice := byID[a.GetPartitionId()]; twice {
			return nil, badAssignment("partition %d is assigned twice", a.GetPartitionId())
		}
		if err := c.checkAssignment(a, factor); err != nil {
			return nil, err
		}
		factor = len(a.GetBrokerIds())
		byID[a.GetPartitionId()] = placement{replicas: a.GetBrokerIds(), isr: c.activeOf(a.GetBrokerIds())}
	}
	out := make([]placement, len(byID))
	for i := range out {
		p, ok := byID[int32(i)] //nolint:gosec // MaxPartitionsPerRequest bounds it
		if !ok {
			return nil, badAssignment("%d partitions are assigned, and partition %d is not among them; they must be 0 to %d", len(byID), i, len(byID)-1)
		}
		out[i] = p
	}
	return out, nil
}

func badAssignment(format string, args ...any) *controllerv1.Error {
	return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REPLICA_ASSIGNMENT, format, args...)
}

// checkAssignment judges one partition's list. Fenced brokers may be replicas, as long as one broker is up.
func (c *creation) checkAssignment(a *controllerv1.ReplicaAssignment, factor int) *controllerv1.Error {
	ids := a.GetBrokerIds()
	if len(ids) == 0 {
		return badAssignment("partition %d is assigned to no broker", a.GetPartitionId())
	}
	seen := map[int32]bool{}
	for _, id := range ids {
		if _, ok := c.img.Broker(id); !ok {
			return badAssignment("partition %d is assigned to broker %d, which is not registered", a.GetPartitionId(), id)
		}
		if seen[id] {
			return badAssignment("partition %d is assigned to broker %d twice", a.GetPartitionId(), id)
		}
		seen[id] = true
	}
	if factor != 0 && len(ids) != factor {
		return badAssignment("partition %d is assigned to %d brokers, the partitions before it to %d", a.GetPartitionId(), len(ids), factor)
	}
	if len(c.activeOf(ids)) == 0 {
		return badAssignment("none of the brokers %v of partition %d is up", ids, a.GetPartitionId())
	}
	return nil
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
		records = append(records, &metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{
			TopicId:     id.Bytes(),
			PartitionId: int32(i), //nolint:gosec // MaxPartitionsPerRequest bounds it
			Replicas:    p.replicas,
			Isr:         p.isr,
			Leader:      p.isr[0],
		}}})
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

// DeleteTopics deletes topics by name or by id (Kafka's DeleteTopics). Each is judged alone; the good ones take effect
// together. One record takes a topic, its partitions and its configs away.
func DeleteTopics(img *fsm.Image, env *Env, req *controllerv1.DeleteTopicsRequest) Decision[*controllerv1.DeleteTopicsResponse] {
	d := &deletion{img: img, env: env, asked: map[fsm.UUID]int{}, names: map[string]int{}}
	for _, t := range req.GetTopics() {
		d.count(t)
	}
	reply := &controllerv1.DeleteTopicsResponse{}
	for _, t := range req.GetTopics() {
		reply.Topics = append(reply.Topics, d.delete(t))
	}
	why := reason("topics_deleted", "%d topics were deleted", len(d.records))
	if len(d.records) == 1 {
		why = reason("topics_deleted", "topic %s was deleted", d.last)
	}
	batches, refused := env.oneBatch(img, why, d.records)
	if refused != nil {
		return Decision[*controllerv1.DeleteTopicsResponse]{Refused: refused}
	}
	if req.GetValidateOnly() {
		batches = nil
	}
	return Decision[*controllerv1.DeleteTopicsResponse]{Batches: batches, Reply: reply}
}

// deletion is one DeleteTopics request on its way to a decision.
type deletion struct {
	img *fsm.Image
	env *Env
	// asked counts how often a topic is in the request, by whichever of its two names.
	asked   map[fsm.UUID]int
	names   map[string]int
	records []*metadatav1.Record
	last    string
}

// find resolves an item. The error is what to answer when there is no such topic.
func (d *deletion) find(t *controllerv1.DeletableTopic) (*fsm.Topic, *controllerv1.Error) {
	switch byName, byID := t.GetName() != "", len(t.GetTopicId()) > 0; {
	case byName && byID:
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "topic %.60q is named by name and by id; one of them must be left out", t.GetName())
	case byName:
		if topic, ok := d.img.TopicByName(t.GetName()); ok {
			return topic, nil
		}
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "there is no topic %.60q", t.GetName())
	case byID:
		id, err := fsm.UUIDFromBytes(t.GetTopicId())
		if err != nil {
			return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "a topic id has 16 bytes, not %d", len(t.GetTopicId()))
		}
		if topic, ok := d.img.Topic(id); ok {
			return topic, nil
		}
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_ID, "no topic has id %s", id)
	}
	return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "a topic is named neither by name nor by id")
}

func (d *deletion) count(t *controllerv1.DeletableTopic) {
	if topic, err := d.find(t); err == nil {
		d.asked[topic.ID()]++
	} else if t.GetName() != "" {
		d.names[t.GetName()]++
	}
}

// delete judges one item and, if it is good, adds its record.
func (d *deletion) delete(t *controllerv1.DeletableTopic) *controllerv1.DeleteTopicResult {
	result := &controllerv1.DeleteTopicResult{Name: t.GetName(), TopicId: t.GetTopicId()}
	topic, err := d.find(t)
	switch {
	case err == nil && d.asked[topic.ID()] > 1:
		err = itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "topic %s is in the request %d times", topic.Name(), d.asked[topic.ID()])
	case err != nil && d.names[t.GetName()] > 1:
		err = itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "topic %.60q is in the request %d times", t.GetName(), d.names[t.GetName()])
	case err == nil && !d.env.Defaults.TopicDeletion:
		err = itemError(controllerv1.ErrorCode_ERROR_CODE_TOPIC_DELETION_DISABLED, "delete.topic.enable is false on the controller")
	}
	if result.Error = err; err != nil {
		return result
	}
	result.Name, result.TopicId = topic.Name(), topic.ID().Bytes()
	d.last = topic.Name()
	d.records = append(d.records, &metadatav1.Record{Kind: &metadatav1.Record_RemoveTopic{
		RemoveTopic: &metadatav1.RemoveTopic{TopicId: topic.ID().Bytes()},
	}})
	return result
}
