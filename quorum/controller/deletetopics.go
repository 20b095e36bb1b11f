package controller

import (
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// DeleteTopics deletes topics by name or by id (Kafka's DeleteTopics). Each is judged alone; the good ones take effect
// together. One record takes a topic, its partitions and its configs away.
func DeleteTopics(img *fsm.Image, env *Env, req *controllerv1.DeleteTopicsRequest) Decision[*controllerv1.DeleteTopicsResponse] {
	if refused := refuseUnconfirmed(img); refused != nil {
		return Decision[*controllerv1.DeleteTopicsResponse]{Refused: refused}
	}
	d := &deletion{img: img, env: env, asked: map[fsm.UUID]int{}, names: map[string]int{}}
	for _, t := range req.GetTopics() {
		d.count(t)
	}
	reply := &controllerv1.DeleteTopicsResponse{}
	for _, t := range req.GetTopics() {
		reply.Topics = append(reply.Topics, d.delete(t))
	}
	why := reason("topics_deleted", "%d topics were deleted", len(d.records))
	if len(d.records) == 1 {
		why = reason("topics_deleted", "topic %s was deleted", d.last)
	}
	batches, refused := env.oneBatch(img, why, d.records)
	if refused != nil {
		return Decision[*controllerv1.DeleteTopicsResponse]{Refused: refused}
	}
	if req.GetValidateOnly() {
		batches = nil
	}
	return Decision[*controllerv1.DeleteTopicsResponse]{Batches: batches, Reply: reply}
}

// deletion is one DeleteTopics request on its way to a decision.
type deletion struct {
	img *fsm.Image
	env *Env
	// asked counts how often a topic is in the request, by whichever of its two names.
	asked   map[fsm.UUID]int
	names   map[string]int
	records []*metadatav1.Record
	last    string
}

// find resolves an item. The error is what to answer when there is no such topic.
func (d *deletion) find(t *controllerv1.DeletableTopic) (*fsm.Topic, *controllerv1.Error) {
	switch byName, byID := t.GetName() != "", len(t.GetTopicId()) > 0; {
	case byName && byID:
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "topic %.60q is named by name and by id; one of them must be left out", t.GetName())
	case byName:
		if topic, ok := d.img.TopicByName(t.GetName()); ok {
			return topic, nil
		}
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "there is no topic %.60q", t.GetName())
	case byID:
		id, err := fsm.UUIDFromBytes(t.GetTopicId())
		if err != nil {
			return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "a topic id has 16 bytes, not %d", len(t.GetTopicId()))
		}
		if topic, ok := d.img.Topic(id); ok {
			return topic, nil
		}
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_ID, "no topic has id %s", id)
	}
	return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "a topic is named neither by name nor by id")
}

func (d *deletion) count(t *controllerv1.DeletableTopic) {
	if topic, err := d.find(t); err == nil {
		d.asked[topic.ID()]++
	} else if t.GetName() != "" {
		d.names[t.GetName()]++
	}
}

// delete judges one item and, if it is good, adds its record.
func (d *deletion) delete(t *controllerv1.DeletableTopic) *controllerv1.DeleteTopicResult {
	result := &controllerv1.DeleteTopicResult{Name: t.GetName(), TopicId: t.GetTopicId()}
	topic, err := d.find(t)
	switch {
	case err == nil && d.asked[topic.ID()] > 1:
		err = itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "topic %s is in the request %d times", topic.Name(), d.asked[topic.ID()])
	case err != nil && d.names[t.GetName()] > 1:
		err = itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "topic %.60q is in the request %d times", t.GetName(), d.names[t.GetName()])
	case err == nil && !d.env.Defaults.TopicDeletion:
		err = itemError(controllerv1.ErrorCode_ERROR_CODE_TOPIC_DELETION_DISABLED, "delete.topic.enable is false on the controller")
	}
	if result.Error = err; err != nil {
		return result
	}
	result.Name, result.TopicId = topic.Name(), topic.ID().Bytes()
	d.last = topic.Name()
	d.records = append(d.records, &metadatav1.Record{Kind: &metadatav1.Record_RemoveTopic{
		RemoveTopic: &metadatav1.RemoveTopic{TopicId: topic.ID().Bytes()},
	}})
	return result
}
