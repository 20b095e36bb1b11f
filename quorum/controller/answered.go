package controller

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// Answered makes a decision that answers a retry as it answered the first attempt. What a request with an id was
// answered is written down as the last record of what it changed, so that it is known exactly where the change is known:
// also to another controller, and after a restart. A request that changed nothing is decided again.
func Answered[Req, Resp any](decide func(*fsm.Image, *Env, Req) Decision[Resp]) func(*fsm.Image, *Env, Req) Decision[Resp] {
	return func(img *fsm.Image, env *Env, req Req) Decision[Resp] {
		kind := kindOf(req)
		if env.RequestID.IsZero() || kind == "" || IsRehearsal(req) {
			return decide(img, env, req)
		}
		if a, ok := img.Answer(env.RequestID, kind); ok {
			return repeated[Resp](a)
		}
		d := decide(img, env, req)
		if d.Refused == nil && len(d.Batches) > 0 {
			env.writeAnswer(d.Batches[len(d.Batches)-1], kind, d.Reply)
		}
		return d
	}
}

// kindOf is the full name of a request's message, empty for what is none.
func kindOf(req any) string {
	m, ok := req.(proto.Message)
	if !ok {
		return ""
	}
	return string(m.ProtoReflect().Descriptor().FullName())
}

// repeated is the first answer. It is true at the metadata offset of its record.
func repeated[Resp any](a *fsm.Answer) Decision[Resp] {
	var reply Resp
	m, ok := any(reply).(proto.Message)
	if ok {
		m = m.ProtoReflect().New().Interface()
		ok = proto.Unmarshal(a.Body, m) == nil
	}
	typed, is := m.(Resp)
	if !ok || !is {
		return refuse[Resp](controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN,
			"the request took effect at metadata offset %d, and its answer cannot be read by this controller", a.Offset)
	}
	if f := m.ProtoReflect().Descriptor().Fields().ByName("metadata_offset"); f != nil && f.Kind() == protoreflect.Int64Kind {
		m.ProtoReflect().Set(f, protoreflect.ValueOfInt64(a.Offset))
	}
	return Decision[Resp]{Reply: typed}
}

// writeAnswer adds the answer to the batch. One that has no room is not kept: then a retry is decided again, as for a
// request without an id.
func (e *Env) writeAnswer(batch *metadatav1.Batch, kind string, reply any) {
	m, ok := reply.(proto.Message)
	if !ok {
		return
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil || len(body) > fsm.MaxAnswerBytes {
		return
	}
	record := &metadatav1.Record{Kind: &metadatav1.Record_RequestAnswered{RequestAnswered: &metadatav1.RequestAnswered{
		RequestId: e.RequestID.Bytes(), RequestKind: kind, Answer: body,
	}}}
	// A record is a field of its batch: its tag and length take up to 6 bytes besides.
	if len(batch.GetRecords()) >= e.Limits.MaxRecordsPerBatch || proto.Size(batch)+proto.Size(record)+6 > e.Limits.MaxBatchBytes {
		return
	}
	batch.Records = append(batch.Records, record)
}
