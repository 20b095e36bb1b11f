package controller

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// Decision is what a request leads to.
type Decision[R any] struct {
	// Batches make the decision true when they are folded in order. None means that nothing changes.
	Batches []*metadatav1.Batch
	// Reply is the answer to give once the batches are committed. Its metadata offset is not filled in yet.
	Reply R
	// Refused is set when the whole request is refused; Batches and Reply are empty then.
	Refused *Refusal
	// Remember writes what the decision changes in the soft state. It is called once, after the batches are in the
	// tip and before the next decision; nil when there is nothing to write.
	Remember func(*Liveness)
	// Keep writes what the decision changes in the inventories, like Remember.
	Keep func(*Inventories)
}

// Refusal says why a whole request is refused. Nothing of it took effect.
type Refusal struct {
	Code    controllerv1.ErrorCode
	Message string
}

// Error returns the code and the message.
func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Code, r.Message) }

func refuse[R any](code controllerv1.ErrorCode, format string, args ...any) Decision[R] {
	return Decision[R]{Refused: &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// itemError is the refusal of one item of a request.
func itemError(code controllerv1.ErrorCode, format string, args ...any) *controllerv1.Error {
	return &controllerv1.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// reason builds the machine-readable reason of a batch.
func reason(code, format string, args ...any) *metadatav1.Reason {
	return &metadatav1.Reason{Code: code, Text: fmt.Sprintf(format, args...)}
}

// emptyBatch is a batch without its records. Its time never goes back, whatever the wall clock does.
func (e *Env) emptyBatch(img *fsm.Image, why *metadatav1.Reason) *metadatav1.Batch {
	cause := e.Cause
	if cause == nil {
		cause = &metadatav1.Cause{Principal: "controller"}
	}
	return &metadatav1.Batch{
		TimeMs:    max(e.Now.UnixMilli(), img.LastBatchTimeMs()),
		RequestId: e.RequestID.Bytes(),
		Cause:     cause,
		Reason:    why,
	}
}

// oneBatch puts the records of a user's request into one batch, or refuses the request because they do not fit.
func (e *Env) oneBatch(img *fsm.Image, why *metadatav1.Reason, records []*metadatav1.Record) ([]*metadatav1.Batch, *Refusal) {
	if len(records) == 0 {
		return nil, nil
	}
	if limit := e.Limits.MaxRecordsPerBatch; len(records) > limit {
		return nil, tooMuch("%d records; one request may write %d", len(records), limit)
	}
	batch := e.emptyBatch(img, why)
	batch.Records = records
	if size, limit := proto.Size(batch), e.Limits.MaxBatchBytes; size > limit {
		return nil, tooMuch("%d bytes of records; one request may write %d", size, limit)
	}
	return []*metadatav1.Batch{batch}, nil
}

func tooMuch(format string, args ...any) *Refusal {
	return &Refusal{
		Code:    controllerv1.ErrorCode_ERROR_CODE_POLICY_VIOLATION,
		Message: "the request needs " + fmt.Sprintf(format, args...) + "; split the request",
	}
}

// batches cuts the records of a repeatable decision into as many batches as the limits ask for. The order is kept.
func (e *Env) batches(img *fsm.Image, why *metadatav1.Reason, records []*metadatav1.Record) []*metadatav1.Batch {
	if len(records) == 0 {
		return nil
	}
	head := proto.Size(e.emptyBatch(img, why))
	var out []*metadatav1.Batch
	size := 0
	for _, record := range records {
		// A record is a field of its batch: its tag and length take up to 6 bytes besides.
		next := proto.Size(record) + 6
		full := len(out) > 0 && len(out[len(out)-1].Records) >= e.Limits.MaxRecordsPerBatch
		if len(out) == 0 || full || size+next > e.Limits.MaxBatchBytes {
			out = append(out, e.emptyBatch(img, why))
			size = head
		}
		last := out[len(out)-1]
		last.Records = append(last.Records, record)
		size += next
	}
	return out
}
