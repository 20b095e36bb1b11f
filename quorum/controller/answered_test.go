package controller

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// TestARetryGetsTheFirstAnswer, from a controller that knows nothing but the image, and changes nothing.
func TestARetryGetsTheFirstAnswer(t *testing.T) {
	w := newWorld(t)
	for id := range int32(3) {
		w.up(id + 1)
	}
	create := Answered(Rehearsable(CreateTopics))
	req := &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{{Name: "foo", NumPartitions: 2, ReplicationFactor: 2}}}
	first := create(w.img, w.env, req)
	tell(w, first, nil)
	topic, ok := w.img.TopicByName("foo")
	if !ok || first.Reply.GetTopics()[0].GetError() != nil {
		t.Fatalf("%v", first.Reply)
	}
	elsewhere := *w.env
	elsewhere.Liveness = NewLiveness(w.liveness.SessionTimeout())
	again := create(w.img, &elsewhere, req)
	if len(again.Batches) > 0 || again.Reply.GetMetadataOffset() != w.img.AppliedOffset() {
		t.Errorf("the retry writes %v, answered at %d of %d", again.Batches, again.Reply.GetMetadataOffset(), w.img.AppliedOffset())
	}
	again.Reply.MetadataOffset = 0
	if !proto.Equal(again.Reply, first.Reply) || string(again.Reply.GetTopics()[0].GetTopicId()) != string(topic.ID().Bytes()) {
		t.Errorf("answered %v, first %v", again.Reply, first.Reply)
	}
	elsewhere.RequestID = fsm.UUID{0xbb, 2}
	if other := create(w.img, &elsewhere, req); other.Reply.GetTopics()[0].GetError().GetCode() != controllerv1.ErrorCode_ERROR_CODE_TOPIC_ALREADY_EXISTS {
		t.Errorf("another request is answered %v", other.Reply)
	}
	trial := proto.Clone(req).(*controllerv1.CreateTopicsRequest)
	trial.ValidateOnly = true
	if rehearsal := create(w.img, w.env, trial); rehearsal.Reply.GetTopics()[0].GetError() == nil {
		t.Errorf("a rehearsal under the id of a request is answered %v", rehearsal.Reply)
	}
}

// TestAnAnswerWithoutRoomIsNotKept: the request takes effect all the same, and its retry is decided again (I20).
func TestAnAnswerWithoutRoomIsNotKept(t *testing.T) {
	w := newWorld(t)
	w.up(1)
	req := &controllerv1.CreateTopicsRequest{}
	for i := range 200 {
		req.Topics = append(req.Topics, &controllerv1.CreatableTopic{Name: fmt.Sprint("topic-", i), NumPartitions: 1, ReplicationFactor: 1})
	}
	create := Answered(CreateTopics)
	tell(w, create(w.img, w.env, req), nil)
	w.env.Limits.MaxRecordsPerBatch = 2
	w.env.RequestID = fsm.UUID{0xbb, 3}
	tell(w, create(w.img, w.env, &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{{Name: "full", NumPartitions: 1, ReplicationFactor: 1}}}), nil)
	if w.img.NumTopics() != 201 {
		t.Errorf("%d topics", w.img.NumTopics())
	}
	for a := range w.img.Answers() {
		t.Errorf("kept %d bytes", len(a.Body))
	}
}
