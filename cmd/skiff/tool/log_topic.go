package tool

import (
	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// topicWatch finds what concerns one topic in a log that is read from its start.
type topicWatch struct {
	name string
	// ids that the topic has, or had: one that is deleted and created again has several.
	ids map[string]bool
}

// newTopicWatch looks for a name, which may also be a topic's id.
func newTopicWatch(topic string) *topicWatch {
	w := &topicWatch{name: topic, ids: make(map[string]bool)}
	if id, err := fsm.ParseUUID(topic); err == nil {
		w.ids[string(id.Bytes())] = true
	}
	return w
}

// concerns tells whether a record of the batches is about the topic.
func (w *topicWatch) concerns(batches []*metadatav1.Batch) (found bool) {
	for _, b := range batches {
		for _, r := range b.GetRecords() {
			if t := r.GetTopic(); t.GetName() == w.name && t != nil {
				w.ids[string(t.GetTopicId())] = true
			}
			found = found || w.about(r)
		}
	}
	return found
}

// about tells whether one record is about the topic.
func (w *topicWatch) about(r *metadatav1.Record) bool {
	if c := r.GetConfig(); c != nil {
		return c.GetResourceType() == metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC && c.GetResourceName() == w.name
	}
	return w.ids[string(topicIDOf(r))]
}

// topicIDOf is the id of the topic that a record is about; nil for none.
func topicIDOf(r *metadatav1.Record) []byte {
	for _, k := range []interface{ GetTopicId() []byte }{
		r.GetTopic(), r.GetRemoveTopic(), r.GetPartition(), r.GetPartitionChange(), r.GetRecoveryElected(),
	} {
		if id := k.GetTopicId(); len(id) > 0 {
			return id
		}
	}
	return nil
}
