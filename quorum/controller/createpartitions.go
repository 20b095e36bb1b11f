package controller

import (
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// CreatePartitions adds partitions to topics (Kafka's CreatePartitions). Each topic is judged alone; the good ones grow
// together. The replication factor is the one that partition 0 has, or will have when its move is complete. A topic that the request has twice is answered once. A running
// reassignment is no hindrance.
func CreatePartitions(img *fsm.Image, env *Env, req *controllerv1.CreatePartitionsRequest) Decision[*controllerv1.CreatePartitionsResponse] {
	if refused := refuseUnconfirmed(img); refused != nil {
		return Decision[*controllerv1.CreatePartitionsResponse]{Refused: refused}
	}
	times := map[string]int{}
	for _, t := range req.GetTopics() {
		times[t.GetName()]++
	}
	g := &growth{creation: creation{img: img, env: env}}
	reply := &controllerv1.CreatePartitionsResponse{}
	for _, t := range req.GetTopics() {
		result := &controllerv1.CreatePartitionsResult{Name: t.GetName()}
		switch n := times[t.GetName()]; {
		case n == 0:
			continue // answered already
		case n > 1:
			result.Error = itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "topic %.60q is in the request %d times", t.GetName(), n)
		default:
			result.Error = g.grow(t)
		}
		times[t.GetName()] = 0
		reply.Topics = append(reply.Topics, result)
	}
	if limit := env.Limits.MaxPartitionsPerRequest; g.added > limit {
		return refuse[*controllerv1.CreatePartitionsResponse](controllerv1.ErrorCode_ERROR_CODE_POLICY_VIOLATION,
			"the request asks for %d partitions, one request may ask for %d; split the request", g.added, limit)
	}
	batches, refused := env.oneBatch(img, g.reason(), g.records)
	if refused != nil {
		return Decision[*controllerv1.CreatePartitionsResponse]{Refused: refused}
	}
	return Decision[*controllerv1.CreatePartitionsResponse]{Batches: batches, Reply: reply}
}

// growth is one CreatePartitions request on its way to a decision.
type growth struct {
	creation
	// added counts the partitions that were asked for, also beyond the limit, where none is placed any more.
	added int64
}

func (g *growth) reason() *metadatav1.Reason {
	if len(g.names) == 1 {
		return reason("partitions_created", "topic %s got %d more partitions", g.names[0], len(g.records))
	}
	return reason("partitions_created", "%d topics got %d more partitions", len(g.names), len(g.records))
}

// grow judges one topic and, if it is good, adds its records.
func (g *growth) grow(t *controllerv1.GrowingTopic) *controllerv1.Error {
	const invalid = controllerv1.ErrorCode_ERROR_CODE_INVALID_PARTITIONS
	topic, ok := g.img.TopicByName(t.GetName())
	if !ok {
		return itemError(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "there is no topic %.60q", t.GetName())
	}
	has, wants := topic.NumPartitions(), t.GetCount()
	switch {
	case wants == has:
		return itemError(invalid, "topic %s has %d partitions already", topic.Name(), has)
	case wants < has:
		return itemError(invalid, "topic %s has %d partitions, which is more than %d; partitions cannot be taken away", topic.Name(), has, wants)
	}
	if g.added += int64(wants) - int64(has); g.added > g.env.Limits.MaxPartitionsPerRequest {
		return nil // the whole request is refused
	}
	first, _ := topic.Partition(0)
	placed, err := g.placeMore(t, int(wants-has), len(first.Replicas)-len(first.Removing))
	if err != nil {
		return err
	}
	for i, p := range placed {
		g.records = append(g.records, partitionRecord(topic.ID(), has+int32(i), p)) //nolint:gosec // MaxPartitionsPerRequest bounds it
	}
	g.names = append(g.names, topic.Name())
	return nil
}

// placeMore places new partitions of a topic, by hand or automatically.
func (g *growth) placeMore(t *controllerv1.GrowingTopic, n, factor int) ([]placement, *controllerv1.Error) {
	if !t.GetAssigned() {
		return g.automatic(n, factor)
	}
	if len(t.GetAssignments()) != n {
		return nil, badAssignment("%d new partitions, and %d assignments", n, len(t.GetAssignments()))
	}
	out := make([]placement, n)
	for i, a := range t.GetAssignments() {
		assignment := &controllerv1.ReplicaAssignment{PartitionId: t.GetCount() - int32(n-i), BrokerIds: a.GetIds()} //nolint:gosec // i < n <= count
		if err := g.checkAssignment(assignment, factor); err != nil {
			return nil, err
		}
		out[i] = placement{replicas: a.GetIds(), isr: g.activeOf(a.GetIds())}
	}
	return out, nil
}

func partitionRecord(topic fsm.UUID, id int32, p placement) *metadatav1.Record {
	return &metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{
		TopicId: topic.Bytes(), PartitionId: id, Replicas: p.replicas, Isr: p.isr, Leader: p.isr[0],
	}}}
}
