package controller

import (
	"cmp"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// What an undeleted partition begins above. The logs tell the last leader epoch that has a record; how many elections
// there were after it, and which partition epoch was the last, nobody knows any more.
const (
	undeleteLeaderEpochs    = 1 << 16
	undeletePartitionEpochs = 1 << 20
)

// UndeleteTopic brings a topic back from what brokers still hold of it, under its old id. Its partitions await the
// inventories of their replicas like those of a new lineage: each broker takes its stray back and reports it, and the
// greatest log leads. Partitions of which nobody reported a replica begin empty, and are told.
func UndeleteTopic(img *fsm.Image, env *Env, req *controllerv1.UndeleteTopicRequest) Decision[*controllerv1.UndeleteTopicResponse] {
	if refused := refuseUnconfirmed(img); refused != nil {
		return Decision[*controllerv1.UndeleteTopicResponse]{Refused: refused}
	}
	if refused := env.refuseUnreported(img); refused != nil {
		return Decision[*controllerv1.UndeleteTopicResponse]{Refused: refused}
	}
	t, refused := env.findStray(img, req)
	if refused != nil {
		return Decision[*controllerv1.UndeleteTopicResponse]{Refused: refused}
	}
	u := &undeletion{img: img, env: env, topic: t, reply: &controllerv1.UndeleteTopicResponse{
		TopicId: t.id.Bytes(), Name: t.name, NumPartitions: t.numPartitions,
	}}
	if refused := u.decide(); refused != nil {
		return Decision[*controllerv1.UndeleteTopicResponse]{Refused: refused}
	}
	why := reason("topic_undeleted", "topic %s came back from strays under its id %s", t.name, t.id)
	batches, refused := env.oneBatch(img, why, u.records)
	if refused != nil {
		return Decision[*controllerv1.UndeleteTopicResponse]{Refused: refused}
	}
	if req.GetValidateOnly() {
		batches = nil
	}
	return Decision[*controllerv1.UndeleteTopicResponse]{Batches: batches, Reply: u.reply}
}

// refuseUnreported refuses while a broker that is up has not told what it holds: the best replica may be there.
func (e *Env) refuseUnreported(img *fsm.Image) *Refusal {
	for b := range img.Brokers() {
		if !b.Fenced && !e.Inventories.Reported(img, b.ID) {
			return refusal(controllerv1.ErrorCode_ERROR_CODE_POLICY_VIOLATION,
				"broker %d has not told this controller yet which replicas it holds; repeat the request when it has", b.ID)
		}
	}
	return nil
}

// findStray resolves the request to one stray topic, with the name that it shall have.
func (e *Env) findStray(img *fsm.Image, req *controllerv1.UndeleteTopicRequest) (*strayTopic, *Refusal) {
	const unknown = controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION
	if len(req.GetTopicId()) == 0 {
		return e.findStrayByName(img, req.GetName())
	}
	id, err := fsm.UUIDFromBytes(req.GetTopicId())
	if err != nil {
		return nil, refusal(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "a topic id has 16 bytes, not %d", len(req.GetTopicId()))
	}
	if alive, ok := img.Topic(id); ok {
		return nil, refusal(controllerv1.ErrorCode_ERROR_CODE_TOPIC_ALREADY_EXISTS, "topic %s is not gone: its name is %s", id, alive.Name())
	}
	found := e.strays(img, func(h *heldReplica) bool { return h.id.Topic == id })
	if len(found) == 0 {
		return nil, refusal(unknown, "no broker that has reported holds a stray of topic %s", id)
	}
	t := found[0]
	if req.GetName() != "" {
		t.name = req.GetName()
	}
	if t.name == "" {
		return nil, refusal(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "nobody knows the name that topic %s had; give it one", id)
	}
	return t, nil
}

func (e *Env) findStrayByName(img *fsm.Image, name string) (*strayTopic, *Refusal) {
	if name == "" {
		return nil, refusal(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "name the topic, or give its id")
	}
	found := e.strays(img, nil)
	found = slices.DeleteFunc(found, func(t *strayTopic) bool { return t.name != name })
	switch len(found) {
	case 0:
		return nil, refusal(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "no broker that has reported holds a stray of a topic %.60q", name)
	case 1:
		return found[0], nil
	}
	return nil, refusal(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
		"%d topics had the name %.60q, %s and %s among them; name one by its id", len(found), name, found[0].id, found[1].id)
}

// undeletion is one UndeleteTopic request on its way to a decision.
type undeletion struct {
	img     *fsm.Image
	env     *Env
	topic   *strayTopic
	reply   *controllerv1.UndeleteTopicResponse
	records []*metadatav1.Record
	// spare are the brokers that are up, those with fewest replicas first, for what is missing.
	spare []int32
}

func (u *undeletion) decide() *Refusal {
	t := u.topic
	if err := (&creation{img: u.img, env: u.env}).checkName(t.name); err != nil {
		return &Refusal{Code: err.GetCode(), Message: err.GetMessage()}
	}
	if int64(t.numPartitions) > u.env.Limits.MaxPartitionsPerRequest {
		return refusal(controllerv1.ErrorCode_ERROR_CODE_POLICY_VIOLATION,
			"topic %s has %d partitions, one request may bring back %d", t.name, t.numPartitions, u.env.Limits.MaxPartitionsPerRequest)
	}
	u.records = append(u.records, &metadatav1.Record{Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{Name: t.name, TopicId: t.id.Bytes()}}})
	u.configs()
	u.spare = u.spareBrokers()
	rest := t.replicas
	for i := range t.numPartitions {
		n := 0
		for n < len(rest) && rest[n].held.id.Partition == i {
			n++
		}
		if refused := u.partition(i, rest[:n]); refused != nil {
			return refused
		}
		rest = rest[n:]
	}
	return nil
}

// configs brings the topic's configs back, as far as they are accepted.
func (u *undeletion) configs() {
	configs := slices.Clone(u.topic.configs)
	slices.SortFunc(configs, func(a, b *controllerv1.StrayConfig) int { return cmp.Compare(a.GetKey(), b.GetKey()) })
	configs = slices.CompactFunc(configs, func(a, b *controllerv1.StrayConfig) bool { return a.GetKey() == b.GetKey() })
	for _, c := range configs {
		if topicconfig.Validate(c.GetKey(), c.GetValue()) != nil {
			if len(u.reply.GetDroppedConfigs()) < maxListed {
				u.reply.DroppedConfigs = append(u.reply.DroppedConfigs, c.GetKey())
			}
			continue
		}
		u.records = append(u.records, &metadatav1.Record{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
			ResourceType: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC, ResourceName: u.topic.name,
			Key: c.GetKey(), Value: proto.String(c.GetValue()),
		}}})
	}
}

// partition brings one partition back. Its replicas are the brokers with the greatest logs of it, filled up to the
// replication factor.
func (u *undeletion) partition(i int32, held []strayReplica) *Refusal {
	held = slices.Clone(held)
	slices.SortStableFunc(held, func(a, b strayReplica) int { return b.held.compare(&a.held) })
	if len(held) == 0 {
		u.reply.EmptyPartitions = append(u.reply.EmptyPartitions, i)
	}
	factor := int(u.topic.replicationFactor)
	if factor == 0 {
		factor = max(1, len(held))
	}
	var replicas []int32
	epoch := int32(-1)
	for _, r := range held {
		epoch = max(epoch, r.held.lastLeaderEpoch)
		if len(replicas) < factor {
			replicas = append(replicas, r.broker)
		}
	}
	if replicas = u.fill(replicas, factor, int(i)); len(replicas) == 0 {
		return refusal(controllerv1.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR, "partition %d of topic %s begins empty, and no broker is up", i, u.topic.name)
	}
	if epoch > math.MaxInt32-2*undeletePartitionEpochs {
		return refusal(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "leader epoch %d of partition %d of topic %s leaves no room", epoch, i, u.topic.name)
	}
	epoch += undeleteLeaderEpochs
	u.records = append(u.records, &metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{
		TopicId: u.topic.id.Bytes(), PartitionId: i, Replicas: replicas, Leader: noLeader,
		LeaderEpoch: epoch, PartitionEpoch: epoch + undeletePartitionEpochs, AwaitingInventory: true,
	}}})
	return nil
}

// fill adds brokers that are up until there are as many replicas as wanted, or no more brokers. Each partition begins
// with another one.
func (u *undeletion) fill(replicas []int32, factor, partition int) []int32 {
	for i := range u.spare {
		if len(replicas) >= factor {
			break
		}
		if id := u.spare[(partition+i)%len(u.spare)]; !slices.Contains(replicas, id) {
			replicas = append(replicas, id)
		}
	}
	return replicas
}

func (u *undeletion) spareBrokers() []int32 {
	var ids []int32
	for b := range u.img.Brokers() {
		if b.Active() {
			ids = append(ids, b.ID)
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return cmp.Compare(u.img.NumReplicasOf(a), u.img.NumReplicasOf(b)) })
	return ids
}
