package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/benbjohnson/immutable"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// Image is the whole metadata at one metadata offset. It is a constant: nothing that it reaches is written after
// it was returned, so it may be read by any number of goroutines and kept for as long as wanted.
type Image struct {
	guard
	brokers     *immutable.SortedMap[int32, *Broker]
	controllers *immutable.SortedMap[int32, *Controller]
	topics      *immutable.Map[UUID, *Topic]
	// names maps a topic's name to its id. Invariant: one to one with topics (I10).
	names   *immutable.SortedMap[string, UUID]
	configs *immutable.SortedMap[ConfigResource, []ConfigEntry]
	// recoveries are the elections made without every inventory. Invariant: of partitions that exist.
	recoveries *immutable.SortedMap[PartitionID, *RecoveryElection]
	// features are the levels above 0; quotas are those of the cluster's clients.
	features *immutable.SortedMap[string, int32]
	quotas   *immutable.SortedMap[quotaID, float64]
	// answers are the last ones, by metadata offset.
	answers *immutable.SortedMap[int64, *Answer]
	// index is derived from topics and never in a snapshot (I11).
	index index
	// objects is the sum over every object but the guard's state; digest adds that.
	objects sum
	digest  Digest
}

// guard is the state that an entry is judged by, and the other scalars of an image.
type guard struct {
	clusterID string
	lineage   Lineage
	// nextOffset is the metadata offset of the next record (I6).
	nextOffset int64
	epochBase  int64
	// controllerEpoch of the claim in force, 0 before the first (I6).
	controllerEpoch int64
	// claimOffset is the metadata offset of the claim in force, -1 before the first.
	claimOffset     int64
	claim           Claim
	lastBatchTimeMs int64
	nextProducerID  int64
	// unconfirmed: the lineage was born by restore or recovery and nobody has confirmed it yet.
	unconfirmed bool
}

// uuidHasher spreads uuids over the map of topics. Ids come from the controller, not from an adversary.
type uuidHasher struct{}

// Hash implements immutable.Hasher.
func (uuidHasher) Hash(u UUID) uint32 {
	const mix = 0x9e3779b97f4a7c15
	h := (binary.LittleEndian.Uint64(u[:8]) ^ binary.LittleEndian.Uint64(u[8:])*mix) * mix
	return uint32(h >> 32)
}

// Equal implements immutable.Hasher.
func (uuidHasher) Equal(a, b UUID) bool { return a == b }

func newImage(g guard) *Image {
	img := &Image{
		guard:       g,
		brokers:     immutable.NewSortedMap[int32, *Broker](byID),
		controllers: immutable.NewSortedMap[int32, *Controller](byID),
		topics:      immutable.NewMap[UUID, *Topic](uuidHasher{}),
		names:       immutable.NewSortedMap[string, UUID](byName),
		configs:     immutable.NewSortedMap[ConfigResource, []ConfigEntry](byResource),
		recoveries:  immutable.NewSortedMap[PartitionID, *RecoveryElection](byPartition),
		features:    newFeatures(),
		quotas:      newQuotas(),
		answers:     newAnswers(),
		index:       newIndex(),
	}
	img.seal()
	return img
}

// seal computes the digest once all else is written.
func (img *Image) seal() { img.digest = img.objects.add(img.guard.sum()).digest() }

// Genesis is the image that a lineage starts from when nothing was before it: no broker, no topic, no claim.
func Genesis(r *metadatav1.LineageStarted) (*Image, error) {
	if r == nil {
		return nil, errors.New("genesis: no record")
	}
	lineage, err := lineageFromProto(r.GetLineage(), r.GetAncestors())
	if err != nil {
		return nil, fmt.Errorf("genesis: %w", err)
	}
	if _, err := ParseUUID(r.GetClusterId()); err != nil {
		return nil, fmt.Errorf("genesis: cluster id: %w", err)
	}
	if r.GetNextMetadataOffset() < 1 || r.GetEpochBase() < 0 {
		return nil, fmt.Errorf("genesis: next metadata offset %d is below 1 or epoch base %d below 0", r.GetNextMetadataOffset(), r.GetEpochBase())
	}
	if r.GetUnconfirmed() && len(lineage.Ancestors) == 0 {
		return nil, errors.New("genesis: an unconfirmed lineage without ancestors")
	}
	return newImage(guard{
		clusterID:   r.GetClusterId(),
		lineage:     lineage,
		nextOffset:  r.GetNextMetadataOffset(),
		epochBase:   r.GetEpochBase(),
		claimOffset: -1,
		unconfirmed: r.GetUnconfirmed(),
	}), nil
}

// ClusterID returns the cluster's id, the text form of a uuid.
func (img *Image) ClusterID() string { return img.clusterID }

// Lineage returns the history that the image belongs to.
func (img *Image) Lineage() Lineage { return img.lineage }

// NextOffset returns the metadata offset of the next record.
func (img *Image) NextOffset() int64 { return img.nextOffset }

// AppliedOffset returns the metadata offset of the last record folded.
func (img *Image) AppliedOffset() int64 { return img.nextOffset - 1 }

// EpochBase is added to the Raft term to give the controller epoch.
func (img *Image) EpochBase() int64 { return img.epochBase }

// ControllerEpoch returns the epoch of the claim in force, 0 before the first.
func (img *Image) ControllerEpoch() int64 { return img.controllerEpoch }

// ClaimOffset returns the metadata offset of the claim in force, -1 before the first.
func (img *Image) ClaimOffset() int64 { return img.claimOffset }

// Claim returns who holds the claim in force, false before the first.
func (img *Image) Claim() (Claim, bool) { return img.claim, img.claimOffset >= 0 }

// LastBatchTimeMs returns the controller's wall clock at the last batch, milliseconds since 1970 UTC.
func (img *Image) LastBatchTimeMs() int64 { return img.lastBatchTimeMs }

// Digest returns the fingerprint of the image; it was computed when the image was made.
func (img *Image) Digest() Digest { return img.digest }

// NextProducerID returns the first producer id that is not given out.
func (img *Image) NextProducerID() int64 { return img.nextProducerID }

// Confirmed reports whether users' changes are accepted. A lineage that was born by init is confirmed, one that was
// born by restore or recovery is not until a LineageConfirmed was folded (I22).
func (img *Image) Confirmed() bool { return !img.unconfirmed }

// Broker returns the registration of a broker.
func (img *Image) Broker(id int32) (*Broker, bool) { return img.brokers.Get(id) }

// NumBrokers returns the number of registered brokers.
func (img *Image) NumBrokers() int { return img.brokers.Len() }

// Brokers yields the registered brokers by id.
func (img *Image) Brokers() iter.Seq[*Broker] { return sortedValues(img.brokers) }

// Controller returns the registration of a quorum node.
func (img *Image) Controller(id int32) (*Controller, bool) { return img.controllers.Get(id) }

// Controllers yields the registered quorum nodes by id.
func (img *Image) Controllers() iter.Seq[*Controller] { return sortedValues(img.controllers) }

// Topic returns the topic with this id.
func (img *Image) Topic(id UUID) (*Topic, bool) { return img.topics.Get(id) }

// TopicByName returns the topic with this name.
func (img *Image) TopicByName(name string) (*Topic, bool) {
	id, ok := img.names.Get(name)
	if !ok {
		return nil, false
	}
	return img.topics.Get(id)
}

// Topics yields the topics by name.
func (img *Image) Topics() iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		for it := img.names.Iterator(); !it.Done(); {
			_, id, _ := it.Next()
			if t, ok := img.topics.Get(id); ok && !yield(t) {
				return
			}
		}
	}
}

// NumTopics returns the number of topics.
func (img *Image) NumTopics() int { return img.topics.Len() }

// NumPartitions returns the number of partitions of all topics.
func (img *Image) NumPartitions() int { return img.index.partitions }

// TopicNameCollides returns another topic whose name differs from name only in '.' and '_', which metrics spell
// alike.
func (img *Image) TopicNameCollides(name string) (existing string, collides bool) {
	normal, may := normalName(name)
	if !may {
		return "", false
	}
	names, _ := img.index.collisions.Get(normal)
	for _, other := range names {
		if other != name {
			return other, true
		}
	}
	return "", false
}

// Partition returns the state of a partition.
func (img *Image) Partition(id PartitionID) (Partition, bool) {
	t, ok := img.topics.Get(id.Topic)
	if !ok {
		return Partition{}, false
	}
	return t.Partition(id.Partition)
}

// Configs returns what is set for a resource, sorted by key. The list is the caller's own.
func (img *Image) Configs(r ConfigResource) []ConfigEntry {
	entries, _ := img.configs.Get(r)
	return slices.Clone(entries)
}

// ConfigValue returns what one key of a resource is set to.
func (img *Image) ConfigValue(r ConfigResource, key string) (string, bool) {
	entries, _ := img.configs.Get(r)
	i, found := findConfig(entries, key)
	if !found {
		return "", false
	}
	return entries[i].Value, true
}

// NumReplicasOf returns the number of partitions that broker has a replica of.
func (img *Image) NumReplicasOf(broker int32) int {
	if h, ok := img.index.hosts.Get(broker); ok {
		return h.replicas
	}
	return 0
}

// NumLedBy returns the number of partitions that broker leads.
func (img *Image) NumLedBy(broker int32) int {
	if h, ok := img.index.hosts.Get(broker); ok {
		return h.led
	}
	return 0
}

// PartitionsOf yields the partitions that broker has a replica of, by topic id and partition.
func (img *Image) PartitionsOf(broker int32) iter.Seq[PartitionID] {
	return img.hostedBy(broker, func(h hosted) int32 { return h.replicas }, func(c *chunk, i int) bool { return c.hasReplica(i, broker) })
}

// LedBy yields the partitions that broker leads, by topic id and partition.
func (img *Image) LedBy(broker int32) iter.Seq[PartitionID] {
	return img.hostedBy(broker, func(h hosted) int32 { return h.led }, func(c *chunk, i int) bool { return c.leader(i) == broker })
}

// NumLeaderless returns the number of partitions without a leader.
func (img *Image) NumLeaderless() int { return img.index.numLeaderless }

// Leaderless yields the partitions without a leader, by topic id and partition.
func (img *Image) Leaderless() iter.Seq[PartitionID] {
	return img.counted(img.index.leaderless, func(c *chunk, i int) bool { return c.leader(i) == NoLeader })
}

// NumAwaiting returns the number of partitions that await inventories.
func (img *Image) NumAwaiting() int { return img.index.numAwaiting }

// Awaiting yields the partitions that await inventories, by topic id and partition. They have no leader either.
func (img *Image) Awaiting() iter.Seq[PartitionID] {
	return img.counted(img.index.awaiting, func(c *chunk, i int) bool { return c.awaits(i) })
}

// NumImbalanced returns the number of partitions that are not led by their first replica.
func (img *Image) NumImbalanced() int { return img.index.numImbalanced }

// Imbalanced yields the partitions that are not led by their first replica, by topic id and partition.
func (img *Image) Imbalanced() iter.Seq[PartitionID] {
	return img.counted(img.index.imbalanced, func(c *chunk, i int) bool { return c.leader(i) != c.preferred(i) })
}

// hostedBy walks the topics that a broker hosts and yields the partitions that match.
func (img *Image) hostedBy(broker int32, of func(hosted) int32, match func(*chunk, int) bool) iter.Seq[PartitionID] {
	return func(yield func(PartitionID) bool) {
		host, ok := img.index.hosts.Get(broker)
		if !ok {
			return
		}
		for it := host.topics.Iterator(); !it.Done(); {
			topic, h, _ := it.Next()
			if !img.scan(topic, of(h), match, yield) {
				return
			}
		}
	}
}

// counted walks the topics of a counting index and yields the partitions that match.
func (img *Image) counted(m *immutable.SortedMap[UUID, int32], match func(*chunk, int) bool) iter.Seq[PartitionID] {
	return func(yield func(PartitionID) bool) {
		for it := m.Iterator(); !it.Done(); {
			topic, n, _ := it.Next()
			if !img.scan(topic, n, match, yield) {
				return
			}
		}
	}
}

// scan yields the n partitions of a topic that match; it reports whether the walk goes on.
func (img *Image) scan(topic UUID, n int32, match func(*chunk, int) bool, yield func(PartitionID) bool) bool {
	t, ok := img.topics.Get(topic)
	if !ok {
		return true
	}
	for i := int32(0); i < t.count && n > 0; i++ {
		if c, at := t.at(i); match(c, at) {
			n--
			if !yield(PartitionID{Topic: topic, Partition: i}) {
				return false
			}
		}
	}
	return true
}

func sortedValues[K, V any](m *immutable.SortedMap[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for it := m.Iterator(); !it.Done(); {
			if _, v, _ := it.Next(); !yield(v) {
				return
			}
		}
	}
}
