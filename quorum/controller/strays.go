package controller

import (
	"cmp"
	"slices"
	"strings"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// strayTopic is what brokers have reported of a topic that the metadata does not know.
type strayTopic struct {
	id fsm.UUID
	// name, partitions, replication factor and configs are those of the youngest stray that knows them.
	name              string
	numPartitions     int32
	replicationFactor int32
	configs           []*controllerv1.StrayConfig
	// namedSince is when the stray that told the name was taken away.
	namedSince int64
	// replicas by partition and broker.
	replicas []strayReplica
}

type strayReplica struct {
	broker int32
	held   heldReplica
}

// strays collects the topics that the metadata does not know, by name and id; nil filters nothing.
func (e *Env) strays(img *fsm.Image, wanted func(*heldReplica) bool) []*strayTopic {
	byID := map[fsm.UUID]*strayTopic{}
	for b := range img.Brokers() {
		r := e.Inventories.of(img, b.ID)
		if r == nil {
			continue
		}
		for _, h := range r.replicas {
			if _, known := img.Topic(h.id.Topic); known || h.stray == nil || (wanted != nil && !wanted(&h)) {
				continue
			}
			t := byID[h.id.Topic]
			if t == nil {
				t = &strayTopic{id: h.id.Topic, namedSince: -1}
				byID[h.id.Topic] = t
			}
			t.add(b.ID, h)
		}
	}
	topics := make([]*strayTopic, 0, len(byID))
	for _, t := range byID {
		slices.SortFunc(t.replicas, func(a, b strayReplica) int {
			return cmp.Or(cmp.Compare(a.held.id.Partition, b.held.id.Partition), cmp.Compare(a.broker, b.broker))
		})
		topics = append(topics, t)
	}
	slices.SortFunc(topics, func(a, b *strayTopic) int {
		return cmp.Or(strings.Compare(a.name, b.name), comparePartitions(fsm.PartitionID{Topic: a.id}, fsm.PartitionID{Topic: b.id}))
	})
	return topics
}

func (t *strayTopic) add(broker int32, h heldReplica) {
	t.replicas = append(t.replicas, strayReplica{broker: broker, held: h})
	t.numPartitions = max(t.numPartitions, h.stray.GetNumPartitions(), h.id.Partition+1)
	t.replicationFactor = max(t.replicationFactor, h.stray.GetReplicationFactor())
	if h.stray.GetTopicName() != "" && h.stray.GetSinceMs() > t.namedSince {
		t.name, t.configs, t.namedSince = h.stray.GetTopicName(), h.stray.GetConfigs(), h.stray.GetSinceMs()
	}
}

// ListStrays lists the topics that are gone and of which brokers still hold replicas.
func ListStrays(img *fsm.Image, env *Env, _ *controllerv1.ListStraysRequest) Decision[*controllerv1.ListStraysResponse] {
	reply := &controllerv1.ListStraysResponse{}
	listed := 0
	for _, t := range env.strays(img, nil) {
		if listed += len(t.replicas); listed > maxListed {
			break
		}
		reply.Topics = append(reply.Topics, t.told())
	}
	for b := range img.Brokers() {
		if !env.Inventories.Reported(img, b.ID) {
			reply.MissingBrokers = append(reply.MissingBrokers, b.ID)
		}
	}
	return Decision[*controllerv1.ListStraysResponse]{Reply: reply}
}

func (t *strayTopic) told() *controllerv1.StrayTopic {
	told := &controllerv1.StrayTopic{TopicId: t.id.Bytes(), Name: t.name, NumPartitions: t.numPartitions}
	for _, r := range t.replicas {
		told.Replicas = append(told.Replicas, &controllerv1.StrayTopicReplica{
			PartitionId: r.held.id.Partition, Report: r.held.told(r.broker, true),
			SizeBytes: r.held.stray.GetSizeBytes(), SinceMs: r.held.stray.GetSinceMs(),
		})
	}
	return told
}
