package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// DeleteTopics, key 20, versions 0 to 6: forwarded to the active controller, whatever broker the client chose.
//
// Version 6 names topics by name or by id. The answer waits as that of CreateTopics does. A topic that occurs twice in the
// same form is INVALID_REQUEST and stands once in the answer; the controller judges the rest.
var deleteTopicsAPI = api{
	key:        20,
	advertised: versions(0, 6),
	served:     versions(0, 6),
	handle:     handled((*Server).deleteTopics),
}

// deletable names a topic in a DeleteTopics request: both fields as the client sent them.
type deletable struct {
	name string
	id   [16]byte
}

// deleteTopics has topics deleted and waits until they are gone here.
func (s *Server) deleteTopics(ctx context.Context, c *call, req *kmsg.DeleteTopicsRequest) (kmsg.Response, error) {
	resp := answer[*kmsg.DeleteTopicsResponse](req)
	resp.Topics = []kmsg.DeleteTopicsResponseTopic{}
	timeout := adminTimeout(req.TimeoutMillis)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	once, twice := splitDuplicates(deletables(req), func(d deletable) deletable { return d })
	for _, d := range twice {
		resp.Topics = append(resp.Topics, deleteFailed(d, kerr.InvalidRequest.Code, "the topic occurs twice in the request"))
	}
	if len(once) == 0 {
		return resp, nil
	}
	ask := &controllerv1.DeleteTopicsRequest{Context: c.requestContext("DeleteTopics", timeout)}
	for _, d := range once {
		topic := &controllerv1.DeletableTopic{Name: d.name}
		if d.id != ([16]byte{}) {
			topic.TopicId = d.id[:]
		}
		ask.Topics = append(ask.Topics, topic)
	}
	deleted, err := s.config.Controller.DeleteTopics(ctx, ask)
	if err != nil {
		code := s.code(err)
		for _, d := range once {
			resp.Topics = append(resp.Topics, deleteFailed(d, code, err.Error()))
		}
		return resp, nil
	}
	s.awaitMetadata(ctx, deleted.GetMetadataOffset())
	for _, t := range deleted.GetTopics() {
		resp.Topics = append(resp.Topics, deleteResult(t))
	}
	return resp, nil
}

// deletables returns the topics of the request, which version 6 names in another field.
func deletables(req *kmsg.DeleteTopicsRequest) []deletable {
	var list []deletable
	for _, name := range req.TopicNames {
		list = append(list, deletable{name: name})
	}
	for _, t := range req.Topics {
		d := deletable{id: t.TopicID}
		if t.Topic != nil {
			d.name = *t.Topic
		}
		list = append(list, d)
	}
	return list
}

// deleteResult translates what the controller says of one topic.
func deleteResult(t *controllerv1.DeleteTopicResult) kmsg.DeleteTopicsResponseTopic {
	d := deletable{name: t.GetName()}
	copy(d.id[:], t.GetTopicId())
	if e := t.GetError(); e != nil {
		return deleteFailed(d, controllerCode(e.GetCode()), e.GetMessage())
	}
	return deleteFailed(d, 0, "")
}

// deleteFailed is the answer for a topic with an error, or with code 0 for one that was deleted.
func deleteFailed(d deletable, code int16, message string) kmsg.DeleteTopicsResponseTopic {
	m := kmsg.NewDeleteTopicsResponseTopic()
	m.TopicID, m.ErrorCode, m.ErrorMessage = d.id, code, messageOf(message)
	m.Topic = messageOf(d.name)
	return m
}
