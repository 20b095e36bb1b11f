package fsm

import (
	"fmt"
	"math"
	"slices"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// topicEdit is a topic while an entry is folded.
type topicEdit struct {
	// before the entry; nil when the entry created the topic.
	before *Topic
	// after is a private copy; nil once the topic was removed.
	after *Topic
	// touched partitions.
	touched map[int32]struct{}
}

// owned returns chunk k of the private copy, copied first if it is still the image's.
func (e *topicEdit) owned(k int) *chunk {
	if k == len(e.after.chunks) {
		e.after.chunks = append(e.after.chunks, &chunk{})
	}
	if e.shares(k) {
		e.after.chunks[k] = e.after.chunks[k].clone()
	}
	return e.after.chunks[k]
}

// shares reports whether chunk k is still the one of the image before, which must not be written.
func (e *topicEdit) shares(k int) bool {
	return e.before != nil && k < len(e.before.chunks) && e.before.chunks[k] == e.after.chunks[k]
}

// edit returns the edit of a topic that exists.
func (f *fold) edit(raw []byte) (*topicEdit, error) {
	id, err := requireUUID("topic id", raw)
	if err != nil {
		return nil, violation(0, "topic", "%v", err)
	}
	if e, ok := f.edits[id]; ok {
		if e.after == nil {
			return nil, violation(0, "topic "+id.String(), "was removed by the same entry")
		}
		return e, nil
	}
	t, ok := f.img.topics.Get(id)
	if !ok {
		return nil, violation(0, "topic "+id.String(), "does not exist")
	}
	return f.newEdit(id, t, t.clone()), nil
}

func (f *fold) newEdit(id UUID, before, after *Topic) *topicEdit {
	e := &topicEdit{before: before, after: after, touched: make(map[int32]struct{})}
	put(&f.edits, id, e)
	f.order = append(f.order, id)
	return e
}

func (f *fold) topic(r *metadatav1.Topic) error {
	id, err := requireUUID("topic id", r.GetTopicId())
	if err != nil {
		return violation(0, "topic", "%v", err)
	}
	object := fmt.Sprintf("topic %.249q", r.GetName())
	if err := CheckTopicName(r.GetName()); err != nil {
		return violation(0, object, "%v", err)
	}
	if other, ok := f.img.names.Get(r.GetName()); ok {
		return violation(10, object, "exists with id %s", other)
	}
	_, exists := f.img.topics.Get(id)
	if _, edited := f.edits[id]; exists || edited {
		return violation(10, object, "id %s names another topic", id)
	}
	f.newEdit(id, nil, &Topic{id: id, name: r.GetName()})
	f.touched.topics = append(f.touched.topics, id)
	f.addName(r.GetName(), id)
	f.add(topicSum(id, r.GetName()))
	return nil
}

// removeTopic removes the topic, its partitions and its configs.
func (f *fold) removeTopic(r *metadatav1.RemoveTopic) error {
	e, err := f.edit(r.GetTopicId())
	if err != nil {
		return err
	}
	resource := TopicResource(e.after.name)
	if entries, ok := f.img.configs.Get(resource); ok {
		for _, c := range entries {
			f.remove(configSum(resource, c))
		}
		f.setConfigs(resource, nil)
	}
	f.removeRecoveries(e.after)
	f.remove(topicSum(e.after.id, e.after.name))
	f.removeName(e.after.name)
	e.after = nil
	return nil
}

// partition adds a partition. Ids are dense: the chunks are addressed by them.
func (f *fold) partition(r *metadatav1.Partition) error {
	e, err := f.edit(r.GetTopicId())
	if err != nil {
		return err
	}
	object := partitionName{e.after.name, r.GetPartitionId()}
	if r.GetPartitionId() != e.after.count || e.after.count == math.MaxInt32 {
		return violation(0, object.String(), "the next partition is %d", e.after.count)
	}
	p, err := partitionFromRecord(r)
	if err != nil {
		return violation(0, object.String(), "%v", err)
	}
	if b := p.check(object); b != nil {
		return b
	}
	f.setPartition(e, r.GetPartitionId(), &p)
	return nil
}

func (f *fold) partitionChange(r *metadatav1.PartitionChange) error {
	e, err := f.edit(r.GetTopicId())
	if err != nil {
		return err
	}
	object := partitionName{e.after.name, r.GetPartitionId()}
	old, ok := e.after.Partition(r.GetPartitionId())
	if !ok {
		return violation(0, object.String(), "does not exist")
	}
	p, err := old.changed(r)
	if err != nil {
		return violation(9, object.String(), "%v", err)
	}
	if b := p.check(object); b != nil {
		return b
	}
	f.setPartition(e, r.GetPartitionId(), &p)
	return nil
}

// setPartition writes a partition into the private copy of its topic.
func (f *fold) setPartition(e *topicEdit, i int32, p *Partition) {
	e.owned(int(i/chunkPartitions)).set(int(i%chunkPartitions), p)
	e.after.count = max(e.after.count, i+1)
	e.touched[i] = struct{}{}
	f.touched.partitions = append(f.touched.partitions, PartitionID{Topic: e.after.id, Partition: i})
}

// write brings topic map, indexes and digest up to date with an edit; nil when nothing is left of it.
func (f *fold) write(id UUID, e *topicEdit) *TopicDelta {
	if e.before == nil && e.after == nil {
		return nil
	}
	d := &TopicDelta{ID: id, Old: e.before, New: e.after}
	if e.after == nil {
		d.Name = e.before.name
		f.img.topics = f.img.topics.Delete(id)
	} else {
		d.Name = e.after.name
		e.compact()
		f.img.topics = f.img.topics.Set(id, e.after)
	}
	change := &indexChange{hosts: make(map[int32]hosted)}
	for _, i := range e.changed() {
		d.Partitions = append(d.Partitions, f.writePartition(PartitionID{Topic: id, Partition: i}, e, change))
	}
	f.img.index.change(id, change)
	return d
}

// changed returns the partitions that the edit touched, in order; all of them when the topic is gone.
func (e *topicEdit) changed() []int32 {
	var list []int32
	if e.after == nil {
		for i := range e.before.count {
			list = append(list, i)
		}
		return list
	}
	for i := range e.touched {
		list = append(list, i)
	}
	slices.Sort(list)
	return list
}

func (f *fold) writePartition(id PartitionID, e *topicEdit, change *indexChange) PartitionDelta {
	d := PartitionDelta{Partition: id.Partition}
	if e.before != nil && id.Partition < e.before.count {
		c, at := e.before.at(id.Partition)
		change.count(c, at, -1)
		old := c.get(at)
		d.Old = &old
		f.remove(old.sum(id))
	}
	if e.after != nil {
		c, at := e.after.at(id.Partition)
		change.count(c, at, 1)
		now := c.get(at)
		d.New = &now
		f.add(now.sum(id))
	}
	return d
}

// compact gives back what growing chunks have reserved. Shared chunks are compact.
func (e *topicEdit) compact() {
	for k, c := range e.after.chunks {
		if !e.shares(k) {
			c.compact()
		}
	}
}

func (f *fold) addName(name string, id UUID) {
	f.img.names = f.img.names.Set(name, id)
	f.img.index.addName(name)
}

func (f *fold) removeName(name string) {
	f.img.names = f.img.names.Delete(name)
	f.img.index.removeName(name)
}

// partitionName names a partition in an error; it is put together only when there is one.
type partitionName struct {
	topic     string
	partition int32
}

func (n partitionName) String() string { return fmt.Sprintf("partition %s-%d", n.topic, n.partition) }
