package fsm

import (
	"slices"

	"github.com/benbjohnson/immutable"
)

// Check verifies every invariant that can be seen in one image, recomputing the digest (I1) and the derived
// indexes (I11). It costs as much as reading the whole image, and returns a *Violation with the number of the
// first invariant that does not hold.
func Check(img *Image) error {
	if err := checkObjects(img); err != nil {
		return err
	}
	for _, check := range []func(*Image) *Violation{checkIndex, checkImageDigest} {
		if v := check(img); v != nil {
			return v
		}
	}
	return nil
}

// checkObjects is Check for an image that was put together just now from objects that were hashed on the way: digest and
// indexes are what a recomputation would give again.
func checkObjects(img *Image) error {
	for _, check := range []func(*Image) *Violation{
		checkGuardState, checkRegistrations, checkNames, checkTopics, checkConfigs, checkRecoveries, checkFeatures, checkQuotas,
		checkAnswers,
	} {
		if v := check(img); v != nil {
			return v
		}
	}
	return nil
}

// checkGuardState verifies the scalars: a state that no history leads to cannot judge an entry (I2, I6).
func checkGuardState(img *Image) *Violation { return img.guard.check() }

func (g *guard) check() *Violation {
	switch {
	case g.lineage.ID.IsZero() || g.lineage.ID.Number == 0:
		return violation(6, "lineage", "%s is no lineage", g.lineage.ID)
	case g.nextOffset < 1:
		return violation(6, "next metadata offset", "%d is below 1", g.nextOffset)
	case g.nextProducerID < 0:
		return violation(6, "producer ids", "next producer id %d is negative", g.nextProducerID)
	case g.claimOffset < -1 || g.claimOffset >= g.nextOffset:
		return violation(2, "claim", "offset %d is not below the next metadata offset %d", g.claimOffset, g.nextOffset)
	case g.claimOffset == -1 && (g.claim != Claim{} || g.controllerEpoch != 0):
		return violation(2, "claim", "claim %v with controller epoch %d before the first claim", g.claim, g.controllerEpoch)
	case g.claimOffset >= 0 && g.controllerEpoch <= g.epochBase:
		return violation(6, "controller epoch", "%d is not above the epoch base %d", g.controllerEpoch, g.epochBase)
	case g.unconfirmed && len(g.lineage.Ancestors) == 0:
		return violation(22, "lineage", "%s is unconfirmed and has no ancestor that it could be a mistake of", g.lineage.ID)
	case g.epochBase < 0:
		return violation(6, "epoch base", "%d is negative", g.epochBase)
	}
	if _, err := ParseUUID(g.clusterID); err != nil {
		return violation(2, "cluster id", "%v", err)
	}
	return nil
}

func checkRegistrations(img *Image) *Violation {
	for it := img.brokers.Iterator(); !it.Done(); {
		id, b, _ := it.Next()
		if b.ID != id {
			return violation(19, brokerName(id), "is stored under another id than its own %d", b.ID)
		}
		if v := checkBrokerEpoch(img, b); v != nil {
			return v
		}
		if _, err := brokerFromRecord(b.Record()); err != nil {
			return violation(0, brokerName(id), "%v", err)
		}
	}
	for it := img.controllers.Iterator(); !it.Done(); {
		id, n, _ := it.Next()
		if _, err := controllerFromRecord(n.Record()); err != nil || n.ID != id {
			return violation(0, controllerName(id), "id %d: %v", n.ID, err)
		}
	}
	return nil
}

func checkBrokerEpoch(img *Image, b *Broker) *Violation {
	if b.Epoch == VoidEpoch && (!b.Fenced || len(img.lineage.Ancestors) == 0) {
		return violation(19, brokerName(b.ID), "the broker epoch is void although the broker is not fenced or no lineage was before this one")
	}
	if b.Epoch < VoidEpoch || b.Epoch >= img.nextOffset {
		return violation(19, brokerName(b.ID), "broker epoch %d is not below the next metadata offset %d", b.Epoch, img.nextOffset)
	}
	return nil
}

// checkNames verifies that names and ids are one to one (I10).
func checkNames(img *Image) *Violation {
	if img.names.Len() != img.topics.Len() {
		return violation(10, "topics", "%d names for %d ids", img.names.Len(), img.topics.Len())
	}
	for it := img.names.Iterator(); !it.Done(); {
		name, id, _ := it.Next()
		t, ok := img.topics.Get(id)
		if !ok || t.id != id || t.name != name {
			return violation(10, "topic "+name, "its id %s leads to no topic of that name", id)
		}
		if err := CheckTopicName(name); err != nil {
			return violation(0, "topic "+name, "%v", err)
		}
	}
	return nil
}

func checkTopics(img *Image) *Violation {
	for t := range img.Topics() {
		if v := checkShape(t); v != nil {
			return v
		}
		for i, p := range t.Partitions() {
			object := partitionName{t.name, i}
			if v := p.check(object); v != nil {
				return v
			}
			if v := checkFencing(img, &p, object); v != nil {
				return v
			}
		}
	}
	return nil
}

// checkShape verifies that the chunks hold exactly the partitions that the topic says it has.
func checkShape(t *Topic) *Violation {
	object := "topic " + t.name
	if t.count < 1 {
		return violation(0, object, "has no partition")
	}
	if want := (int(t.count) + chunkPartitions - 1) / chunkPartitions; len(t.chunks) != want {
		return violation(0, object, "%d chunks for %d partitions, want %d", len(t.chunks), t.count, want)
	}
	for k, c := range t.chunks {
		want := min(chunkPartitions, int(t.count)-k*chunkPartitions)
		if len(c.slots) != want {
			return violation(0, object, "chunk %d has %d partitions, want %d", k, len(c.slots), want)
		}
		for i := range c.slots {
			if _, rare := c.rare[i]; rare != (c.slots[i].shape&shapeRare != 0) {
				return violation(0, object, "partition %d and the side table disagree", k*chunkPartitions+i)
			}
		}
	}
	return nil
}

func checkConfigs(img *Image) *Violation {
	for it := img.configs.Iterator(); !it.Done(); {
		r, entries, _ := it.Next()
		if v := checkResource(img, r, entries); v != nil {
			return v
		}
	}
	return nil
}

func checkResource(img *Image, r ConfigResource, entries []ConfigEntry) *Violation {
	object := "config of " + r.String()
	if err := r.check(); err != nil {
		return violation(0, object, "%v", err)
	}
	if len(entries) == 0 || len(entries) > maxConfigKeys {
		return violation(20, object, "%d keys, want 1 to %d", len(entries), maxConfigKeys)
	}
	if !slices.IsSortedFunc(entries, compareEntries) {
		return violation(0, object, "keys are not in order")
	}
	if _, ok := img.names.Get(r.Name); !ok && r.Type == TopicResource("").Type {
		return violation(10, object, "the topic does not exist")
	}
	return nil
}

// checkIndex recomputes the derived indexes from the topics (I11).
func checkIndex(img *Image) *Violation {
	b := newIndexBuilder()
	for t := range img.Topics() {
		b.addTopic(t)
	}
	want := b.finish()
	return want.compare(&img.index)
}

func (x *index) compare(got *index) *Violation {
	const object = "index"
	if x.partitions != got.partitions || x.numLeaderless != got.numLeaderless || x.numImbalanced != got.numImbalanced || x.numAwaiting != got.numAwaiting {
		return violation(11, object, "%d partitions, %d leaderless, %d imbalanced, %d awaiting, want %d, %d, %d, %d",
			got.partitions, got.numLeaderless, got.numImbalanced, got.numAwaiting, x.partitions, x.numLeaderless, x.numImbalanced, x.numAwaiting)
	}
	if key, same := sameMaps(x.awaiting, got.awaiting, equal); !same {
		return violation(11, object, "awaiting partitions of topic %s", key)
	}
	if key, same := sameMaps(x.leaderless, got.leaderless, equal); !same {
		return violation(11, object, "leaderless partitions of topic %s", key)
	}
	if key, same := sameMaps(x.imbalanced, got.imbalanced, equal); !same {
		return violation(11, object, "imbalanced partitions of topic %s", key)
	}
	if key, same := sameMaps(x.collisions, got.collisions, slices.Equal); !same {
		return violation(11, object, "names that read %s", key)
	}
	if id, same := sameMaps(x.hosts, got.hosts, (*hostIndex).equal); !same {
		return violation(11, object, "partitions of %s", brokerName(id))
	}
	return nil
}

func (h *hostIndex) equal(o *hostIndex) bool {
	_, same := sameMaps(h.topics, o.topics, equal)
	return same && h.replicas == o.replicas && h.led == o.led
}

// sameMaps returns a key at which two sorted maps differ.
func sameMaps[K, V any](a, b *immutable.SortedMap[K, V], same func(V, V) bool) (K, bool) {
	for it := a.Iterator(); !it.Done(); {
		key, v, _ := it.Next()
		if w, ok := b.Get(key); !ok || !same(v, w) {
			return key, false
		}
	}
	for it := b.Iterator(); !it.Done(); {
		key, _, _ := it.Next()
		if _, ok := a.Get(key); !ok {
			return key, false
		}
	}
	var none K
	return none, true
}

func equal[T comparable](a, b T) bool { return a == b }

// checkImageDigest recomputes the digest from every object (I1).
func checkImageDigest(img *Image) *Violation {
	objects := img.sumObjects()
	if objects != img.objects {
		return violation(1, "digest", "objects sum up to %s, the image has %s", objects.digest(), img.objects.digest())
	}
	if want := objects.add(img.guard.sum()).digest(); want != img.digest {
		return violation(1, "digest", "is %s, the image has %s", want, img.digest)
	}
	return nil
}

// sumObjects hashes every object of the image anew.
func (img *Image) sumObjects() sum {
	var objects sum
	for b := range img.Brokers() {
		objects = objects.add(b.sum())
	}
	for n := range img.Controllers() {
		objects = objects.add(n.sum())
	}
	for it := img.configs.Iterator(); !it.Done(); {
		r, entries, _ := it.Next()
		for _, e := range entries {
			objects = objects.add(configSum(r, e))
		}
	}
	for id, e := range img.RecoveryElections() {
		objects = objects.add(e.sum(id))
	}
	for name, level := range img.FeatureLevels() {
		objects = objects.add(featureSum(name, level))
	}
	for q := range img.Quotas() {
		objects = objects.add(q.sum())
	}
	for a := range img.Answers() {
		objects = objects.add(a.sum())
	}
	for t := range img.Topics() {
		objects = objects.add(topicSum(t.id, t.name))
		for i, p := range t.Partitions() {
			objects = objects.add(p.sum(PartitionID{Topic: t.id, Partition: i}))
		}
	}
	return objects
}
