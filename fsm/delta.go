package fsm

import (
	"cmp"
	"slices"
	"strings"
)

// Delta is what an entry, or a snapshot, changed. It is immutable.
type Delta struct {
	// From and To are the next metadata offsets before and after.
	From, To int64
	// Lineage of the image after.
	Lineage LineageID
	// Snapshot says that the delta leads from one whole image to another and not over one entry.
	Snapshot bool
	// Brokers by id.
	Brokers []BrokerDelta
	// Topics by name; of two with one name the removed one comes first.
	Topics []TopicDelta
	// Configs are the resources with a key that was set or removed.
	Configs []ConfigResource
	// Controllers are the quorum nodes that registered.
	Controllers []int32
	// Recoveries are the partitions of which an election without every inventory was stated, amended or forgotten.
	Recoveries []PartitionID
	// Features are the names of features whose level was stated.
	Features []string
	// Quotas are the kinds of clients of which a quota was set or removed.
	Quotas []QuotaEntity
	// ProducerIDs says that producer ids were given out.
	ProducerIDs bool
	// Claimed says that a claim was opened.
	Claimed bool
	// Confirmed says that the lineage was confirmed, or, of a snapshot, that Image.Confirmed is another.
	Confirmed bool
	// Answered says that the answer to a request was stated.
	Answered bool
}

// BrokerDelta is a registration before and after; nil when there was or is none.
type BrokerDelta struct {
	ID       int32
	Old, New *Broker
}

// TopicDelta is a topic before and after; Old is nil when it was created, New when it was removed.
type TopicDelta struct {
	ID       UUID
	Name     string
	Old, New *Topic
	// Partitions that changed, by number; all of them when the topic was created or removed.
	Partitions []PartitionDelta
}

// PartitionDelta is a partition before and after; nil when there was or is none.
type PartitionDelta struct {
	Partition int32
	Old, New  *Partition
}

// Empty reports whether nothing but offsets changed.
func (d *Delta) Empty() bool {
	return len(d.Brokers)+len(d.Topics)+len(d.Configs)+len(d.Controllers)+len(d.Recoveries)+len(d.Features)+len(d.Quotas) == 0 &&
		!d.ProducerIDs && !d.Claimed && !d.Confirmed && !d.Answered
}

// sort brings every list into the order that its field promises.
func (d *Delta) sort() {
	slices.SortFunc(d.Brokers, func(a, b BrokerDelta) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(d.Topics, compareTopicDeltas)
	slices.SortFunc(d.Configs, compareResources)
	slices.Sort(d.Controllers)
	slices.SortFunc(d.Recoveries, comparePartitions)
	slices.Sort(d.Features)
}

func compareTopicDeltas(a, b TopicDelta) int {
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	if (a.New == nil) != (b.New == nil) {
		if a.New == nil {
			return -1
		}
		return 1
	}
	return byUUID(a.ID, b.ID)
}
