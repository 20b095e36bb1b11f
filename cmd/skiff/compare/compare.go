// Package compare says in an operator's words how two images of the metadata differ.
//
// What is compared is what the cluster would do: topics by their ids, partitions, leaders, ISR, configs, brokers, quorum nodes. How far
// each image is in its history (metadata offset, controller epoch, claim) is told too and is no difference: a claim moves them
// and changes nothing.
package compare

import (
	"fmt"
	"maps"
	"slices"

	"github.com/skiffmq/skiff/fsm"
)

// Kinds of change.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Field is one value on both sides; a side that lacks it has the empty text.
type Field struct {
	Name string `json:"field"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Node is a broker or quorum node that differs.
type Node struct {
	ID     int32   `json:"id"`
	Change string  `json:"change"`
	Fields []Field `json:"fields"`
}

// Topic is one that differs. A topic that was deleted and created again is two: the ids differ.
type Topic struct {
	Name   string `json:"name"`
	ID     string `json:"id"`
	Change string `json:"change"`
	// NumPartitions that were added or removed with the topic; 0 for a topic that changed.
	NumPartitions int `json:"num_partitions,omitempty"`
	// Partitions that differ, of a topic that both sides have.
	Partitions []Partition `json:"partitions"`
}

// Partition is one that differs.
type Partition struct {
	Partition int32   `json:"partition"`
	Change    string  `json:"change"`
	Fields    []Field `json:"fields"`
}

// Setting is a config key, feature level or quota that differs; a side that does not set it has no value.
type Setting struct {
	Resource string  `json:"resource"`
	Key      string  `json:"key"`
	A        *string `json:"a"`
	B        *string `json:"b"`
}

// Difference is how two images differ.
type Difference struct {
	// Equal tells that nothing below it differs.
	Equal bool `json:"equal"`
	// Cluster are values of the whole cluster.
	Cluster []Field `json:"cluster"`
	// Brokers and Controllers by id, Topics by name, Settings by resource and key.
	Brokers     []Node    `json:"brokers"`
	Controllers []Node    `json:"controllers"`
	Topics      []Topic   `json:"topics"`
	Settings    []Setting `json:"settings"`
}

// Images compares two images.
func Images(a, b *fsm.Image) *Difference {
	delta := fsm.Diff(a, b)
	d := &Difference{
		Cluster: fields(clusterFields(a), clusterFields(b)), Brokers: []Node{}, Controllers: []Node{}, Topics: []Topic{}, Settings: []Setting{},
	}
	for _, broker := range delta.Brokers {
		d.Brokers = append(d.Brokers, node(broker.ID, brokerFields(broker.Old), brokerFields(broker.New)))
	}
	for _, id := range delta.Controllers {
		old, _ := a.Controller(id)
		now, _ := b.Controller(id)
		d.Controllers = append(d.Controllers, node(id, controllerFields(old), controllerFields(now)))
	}
	for i := range delta.Topics {
		d.Topics = append(d.Topics, topic(&delta.Topics[i]))
	}
	for _, r := range delta.Configs {
		d.settings(r.String(), configs(a, r), configs(b, r))
	}
	d.settings("feature", levels(a), levels(b))
	quotasA, quotasB := quotas(a), quotas(b)
	for _, entity := range slices.Sorted(maps.Keys(merged(quotasA, quotasB))) {
		d.settings("quota "+entity, quotasA[entity], quotasB[entity])
	}
	d.Equal = len(d.Cluster)+len(d.Brokers)+len(d.Controllers)+len(d.Topics)+len(d.Settings) == 0
	return d
}

func topic(t *fsm.TopicDelta) Topic {
	out := Topic{Name: t.Name, ID: t.ID.String(), Change: Changed, Partitions: []Partition{}}
	switch {
	case t.Old == nil:
		out.Change, out.NumPartitions = Added, int(t.New.NumPartitions())
		return out
	case t.New == nil:
		out.Change, out.NumPartitions = Removed, int(t.Old.NumPartitions())
		return out
	}
	for _, p := range t.Partitions {
		old, now := partitionFields(p.Old), partitionFields(p.New)
		out.Partitions = append(out.Partitions, Partition{Partition: p.Partition, Change: change(old, now), Fields: fields(old, now)})
	}
	return out
}

func node(id int32, old, now []Field) Node {
	return Node{ID: id, Change: change(old, now), Fields: fields(old, now)}
}

// change tells which side has the object.
func change(old, now []Field) string {
	switch {
	case old == nil:
		return Added
	case now == nil:
		return Removed
	}
	return Changed
}

// fields are those that differ. Both lists have the same fields in the same order, or one side lacks the object.
func fields(old, now []Field) []Field {
	out := []Field{}
	for i := range max(len(old), len(now)) {
		var f Field
		if old != nil {
			f = Field{Name: old[i].Name, A: old[i].A}
		}
		if now != nil {
			f.Name, f.B = now[i].Name, now[i].A
		}
		if f.A != f.B {
			out = append(out, f)
		}
	}
	return out
}

// settings compares the keys of one resource.
func (d *Difference) settings(resource string, a, b map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(merged(a, b))) {
		s := Setting{Resource: resource, Key: key}
		if v, ok := a[key]; ok {
			s.A = &v
		}
		if v, ok := b[key]; ok {
			s.B = &v
		}
		if s.A == nil || s.B == nil || *s.A != *s.B {
			d.Settings = append(d.Settings, s)
		}
	}
}

// merged has every key of both maps.
func merged[V any](a, b map[string]V) map[string]V {
	out := make(map[string]V, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// Summary counts what differs, in one line.
func (d *Difference) Summary() string {
	if d.Equal {
		return "no difference"
	}
	partitions := 0
	for _, t := range d.Topics {
		partitions += len(t.Partitions)
	}
	return fmt.Sprintf("%d topics (%d partitions of topics that both have), %d brokers, %d quorum nodes, %d settings, %d values of the cluster",
		len(d.Topics), partitions, len(d.Brokers), len(d.Controllers), len(d.Settings), len(d.Cluster))
}
