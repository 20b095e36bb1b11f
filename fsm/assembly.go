package fsm

import (
	"github.com/benbjohnson/immutable"
)

// assembly builds an image from objects of any source: a snapshot, or another image. It takes states, not changes, and
// judges nothing: Check judges the result.
type assembly struct {
	brokers     *immutable.SortedMapBuilder[int32, *Broker]
	controllers *immutable.SortedMapBuilder[int32, *Controller]
	topics      *immutable.MapBuilder[UUID, *Topic]
	names       *immutable.SortedMapBuilder[string, UUID]
	configs     *immutable.SortedMapBuilder[ConfigResource, []ConfigEntry]
	recoveries  *immutable.SortedMapBuilder[PartitionID, *RecoveryElection]
	features    *immutable.SortedMapBuilder[string, int32]
	quotas      *immutable.SortedMapBuilder[quotaID, float64]
	answers     *immutable.SortedMapBuilder[int64, *Answer]
	index       *indexBuilder
	// topic is the one whose partitions are being added.
	topic *Topic
}

func newAssembly() *assembly {
	return &assembly{
		brokers:     immutable.NewSortedMapBuilder[int32, *Broker](byID),
		controllers: immutable.NewSortedMapBuilder[int32, *Controller](byID),
		topics:      immutable.NewMapBuilder[UUID, *Topic](uuidHasher{}),
		names:       immutable.NewSortedMapBuilder[string, UUID](byName),
		configs:     immutable.NewSortedMapBuilder[ConfigResource, []ConfigEntry](byResource),
		recoveries:  immutable.NewSortedMapBuilder[PartitionID, *RecoveryElection](byPartition),
		features:    immutable.NewSortedMapBuilder[string, int32](byName),
		quotas:      immutable.NewSortedMapBuilder[quotaID, float64](quotaIDs{}),
		answers:     immutable.NewSortedMapBuilder[int64, *Answer](nil),
		index:       newIndexBuilder(),
	}
}

// beginTopic ends the topic before it.
func (a *assembly) beginTopic(id UUID, name string) {
	a.endTopic()
	a.topic = &Topic{id: id, name: name}
}

// addPartition adds the next partition of the topic that was begun.
func (a *assembly) addPartition(p *Partition) {
	t := a.topic
	if t.count%chunkPartitions == 0 {
		t.chunks = append(t.chunks, &chunk{})
	}
	t.chunks[len(t.chunks)-1].set(int(t.count%chunkPartitions), p)
	t.count++
}

// endTopic stores the topic that was being built.
func (a *assembly) endTopic() {
	t := a.topic
	if t == nil {
		return
	}
	a.topic = nil
	for _, c := range t.chunks {
		c.compact()
	}
	a.topics.Set(t.id, t)
	a.names.Set(t.name, t.id)
	a.index.addTopic(t)
}

// addConfig adds one key of a resource; the keys of a resource come in order.
func (a *assembly) addConfig(r ConfigResource, e ConfigEntry) {
	entries, _ := a.configs.Get(r)
	a.configs.Set(r, append(entries, e))
}

// image publishes what was added, whose digests add up to objects; nothing may be added after it.
func (a *assembly) image(g guard, objects sum) *Image {
	a.endTopic()
	img := newImage(g)
	img.brokers, img.controllers = a.brokers.Map(), a.controllers.Map()
	img.topics, img.names = a.topics.Map(), a.names.Map()
	img.configs, img.recoveries = a.configs.Map(), a.recoveries.Map()
	img.features, img.quotas, img.answers = a.features.Map(), a.quotas.Map(), a.answers.Map()
	img.index = a.index.finish()
	img.objects = objects
	img.seal()
	return img
}
