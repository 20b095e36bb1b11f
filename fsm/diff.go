package fsm

import (
	"slices"

	"github.com/benbjohnson/immutable"
)

// Diff returns the delta that leads from one image to another, so that who follows by deltas can take in a
// snapshot as one more of them (I5). What both images share is not walked again.
func Diff(old, now *Image) *Delta {
	d := &Delta{
		From:        old.nextOffset,
		To:          now.nextOffset,
		Lineage:     now.lineage.ID,
		Snapshot:    true,
		ProducerIDs: old.nextProducerID != now.nextProducerID,
		Claimed:     old.claim != now.claim || old.claimOffset != now.claimOffset,
		Confirmed:   old.unconfirmed != now.unconfirmed,
		Answered:    !sameAnswers(old, now),
	}
	merge(old.brokers, now.brokers, func(id int32, a, b *Broker) {
		if a == nil || b == nil || (a != b && a.sum() != b.sum()) {
			d.Brokers = append(d.Brokers, BrokerDelta{ID: id, Old: a, New: b})
		}
	})
	merge(old.controllers, now.controllers, func(id int32, a, b *Controller) {
		if a == nil || b == nil || (a != b && a.sum() != b.sum()) {
			d.Controllers = append(d.Controllers, id)
		}
	})
	merge(old.configs, now.configs, func(r ConfigResource, a, b []ConfigEntry) {
		if !slices.Equal(a, b) {
			d.Configs = append(d.Configs, r)
		}
	})
	merge(old.recoveries, now.recoveries, func(id PartitionID, a, b *RecoveryElection) {
		if a == nil || b == nil || (a != b && a.sum(id) != b.sum(id)) {
			d.Recoveries = append(d.Recoveries, id)
		}
	})
	merge(old.features, now.features, func(name string, a, b int32) {
		if a != b {
			d.Features = append(d.Features, name)
		}
	})
	quotas := make(map[quotaID]struct{})
	merge(old.quotas, now.quotas, func(id quotaID, a, b float64) {
		if a != b {
			quotas[id] = struct{}{}
		}
	})
	d.Quotas = quotaEntities(quotas)
	d.diffTopics(old, now)
	d.sort()
	return d
}

func (d *Delta) diffTopics(old, now *Image) {
	for it := old.topics.Iterator(); !it.Done(); {
		id, a, _ := it.Next()
		b, _ := now.topics.Get(id)
		if t := diffTopic(a, b); t != nil {
			d.Topics = append(d.Topics, *t)
		}
	}
	for it := now.topics.Iterator(); !it.Done(); {
		id, b, _ := it.Next()
		if _, ok := old.topics.Get(id); !ok {
			d.Topics = append(d.Topics, *diffTopic(nil, b))
		}
	}
}

// diffTopic returns nil when both are the same.
func diffTopic(a, b *Topic) *TopicDelta {
	if a == b {
		return nil
	}
	d := &TopicDelta{Old: a, New: b}
	if b != nil {
		d.ID, d.Name = b.id, b.name
	} else {
		d.ID, d.Name = a.id, a.name
	}
	for i := int32(0); i < max(a.numPartitions(), b.numPartitions()); i++ {
		if i%chunkPartitions == 0 && sameChunk(a, b, i) {
			i += chunkPartitions - 1
			continue
		}
		if p, differs := diffPartition(a, b, i); differs {
			d.Partitions = append(d.Partitions, p)
		}
	}
	if a != nil && b != nil && len(d.Partitions) == 0 {
		return nil
	}
	return d
}

// sameChunk reports whether both topics share the chunk that begins with partition i.
func sameChunk(a, b *Topic, i int32) bool {
	return i < a.numPartitions() && i < b.numPartitions() && a.chunks[i/chunkPartitions] == b.chunks[i/chunkPartitions]
}

func diffPartition(a, b *Topic, i int32) (PartitionDelta, bool) {
	d := PartitionDelta{Partition: i}
	if i < a.numPartitions() {
		p := a.get(i)
		d.Old = &p
	}
	if i < b.numPartitions() {
		p := b.get(i)
		d.New = &p
	}
	return d, d.Old == nil || d.New == nil || !d.Old.equal(d.New)
}

// numPartitions is NumPartitions of a topic that may not exist.
func (t *Topic) numPartitions() int32 {
	if t == nil {
		return 0
	}
	return t.count
}

// merge walks two sorted maps together; a key that one of them lacks has the zero value there.
func merge[K comparable, V any](old, now *immutable.SortedMap[K, V], visit func(key K, a, b V)) {
	var none V
	for it := old.Iterator(); !it.Done(); {
		key, a, _ := it.Next()
		b, _ := now.Get(key)
		visit(key, a, b)
	}
	for it := now.Iterator(); !it.Done(); {
		key, b, _ := it.Next()
		if _, ok := old.Get(key); !ok {
			visit(key, none, b)
		}
	}
}
