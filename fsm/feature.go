package fsm

import (
	"fmt"
	"iter"

	"github.com/benbjohnson/immutable"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// Names of the features that this build knows.
const (
	// FeatureVersion says which records may be written, as Kafka's metadata.version does. Every cluster is at level 1
	// without a record of it.
	FeatureVersion = "skiff.version"
	// FeatureELR is Kafka's name of the feature that lets ISRs become empty (KIP-966). At level 1 the controller writes
	// down which replicas outside the ISR still have every committed record. They do because a leader does not raise its
	// high watermark while the ISR is under min.insync.replicas, which brokers of every level obey.
	FeatureELR = "eligible.leader.replicas.version"
)

// Supported are the features and levels that this build folds and obeys, by name: what its processes register.
func Supported() []Feature {
	return []Feature{{Name: FeatureELR, Min: 0, Max: 1}, {Name: FeatureVersion, Min: 1, Max: 1}}
}

// maxFeatureLevels bounds the features that have a level (I20).
const maxFeatureLevels = 256

// FeatureLevel returns the level that the cluster is at of a feature; 0 when nobody has raised it.
func (img *Image) FeatureLevel(name string) int32 {
	level, _ := img.features.Get(name)
	return level
}

// FeatureLevels yields the features that have a level above 0, by name.
func (img *Image) FeatureLevels() iter.Seq2[string, int32] {
	return func(yield func(string, int32) bool) {
		for it := img.features.Iterator(); !it.Done(); {
			if name, level, _ := it.Next(); !yield(name, level) {
				return
			}
		}
	}
}

func checkFeatureLevel(name string, level int32) error {
	if name == "" || len(name) > maxStringBytes {
		return fmt.Errorf("a name of %d bytes, want 1 to %d", len(name), maxStringBytes)
	}
	if level < 0 {
		return fmt.Errorf("level %d is negative", level)
	}
	return nil
}

func featureSum(name string, level int32) sum {
	var room canonicalRoom
	c := newCanonical(room[:], featureObject)
	c = c.string(name)
	c = c.int32(level)
	return c.sum()
}

// featureLevel sets the level of a feature; 0 takes it away.
func (f *fold) featureLevel(r *metadatav1.FeatureLevel) error {
	name, level := r.GetName(), r.GetLevel()
	if err := checkFeatureLevel(name, level); err != nil {
		return violation(0, "feature", "%v", err)
	}
	if old, ok := f.img.features.Get(name); ok {
		f.remove(featureSum(name, old))
	}
	put(&f.features, name, struct{}{})
	if level == 0 {
		f.img.features = f.img.features.Delete(name)
		return nil
	}
	f.add(featureSum(name, level))
	f.img.features = f.img.features.Set(name, level)
	if f.img.features.Len() > maxFeatureLevels {
		return violation(20, "features", "%d of them, at most %d", f.img.features.Len(), maxFeatureLevels)
	}
	return nil
}

func checkFeatures(img *Image) *Violation {
	if img.features.Len() > maxFeatureLevels {
		return violation(20, "features", "%d of them, at most %d", img.features.Len(), maxFeatureLevels)
	}
	for name, level := range img.FeatureLevels() {
		if err := checkFeatureLevel(name, level); err != nil || level == 0 {
			return violation(0, "feature "+name, "level %d: %v", level, err)
		}
	}
	return nil
}

func newFeatures() *immutable.SortedMap[string, int32] {
	return immutable.NewSortedMap[string, int32](byName)
}

// clearELR empties the lists of eligible and last known leaders, of one topic or of all. A partition without an ISR
// keeps them (I8), and a partition that has none is not touched.
func (f *fold) clearELR(r *metadatav1.ClearElr) error {
	if name := r.GetTopicName(); name != "" {
		id, ok := f.img.names.Get(name)
		if !ok {
			return violation(0, "topic "+name, "does not exist")
		}
		return f.clearTopicELR(id)
	}
	for it := f.img.names.Iterator(); !it.Done(); {
		_, id, _ := it.Next()
		if err := f.clearTopicELR(id); err != nil {
			return err
		}
	}
	return nil
}

func (f *fold) clearTopicELR(id UUID) error {
	if e, edited := f.edits[id]; edited {
		return f.clearEdited(e)
	}
	t, ok := f.img.topics.Get(id)
	if !ok {
		return nil
	}
	for _, p := range t.Partitions() {
		if p.clearableELR() {
			e, err := f.edit(id.Bytes())
			if err != nil {
				return err
			}
			return f.clearEdited(e)
		}
	}
	return nil
}

func (p *Partition) clearableELR() bool {
	return len(p.ISR) > 0 && len(p.ELR)+len(p.LastKnownELR) > 0
}

func (f *fold) clearEdited(e *topicEdit) error {
	if e.after == nil {
		return nil
	}
	for i, p := range e.after.Partitions() {
		if !p.clearableELR() {
			continue
		}
		q, err := p.changed(&metadatav1.PartitionChange{EligibleLeaderReplicas: &metadatav1.BrokerIDs{}, LastKnownElr: &metadatav1.BrokerIDs{}})
		if err != nil {
			return violation(9, partitionName{e.after.name, i}.String(), "%v", err)
		}
		f.setPartition(e, i, &q)
	}
	return nil
}
