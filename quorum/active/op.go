package active

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// Op is one request on its way to an answer. It is answered exactly once.
type Op struct {
	// kind names the request in logs.
	kind string
	// key matches a retry with its first attempt; zero if the request cannot be matched.
	key opKey
	// cause and requestID go into the batches.
	cause     *metadatav1.Cause
	requestID fsm.UUID
	// decide is nil for a barrier.
	decide func(*fsm.Image, *controller.Env) verdict
	// size in bytes, for the bound of the queue.
	size int
	// own marks one of the Core's own requests; duty, if set, is called with its outcome.
	own  bool
	duty func(Outcome)
	// prompt lets an answer that wrote nothing go out without proof that this node still led when it was asked.
	prompt bool

	// state moves from opQueued to opTaken by the Core, or to opWithdrawn by the caller; whoever comes first.
	state atomic.Int32
	// done receives the outcome. Invariant: capacity 1, one send.
	done chan Outcome
}

// Values of Op.state.
const (
	opQueued int32 = iota
	opTaken
	opWithdrawn
)

// opKey is what two attempts at one request have in common.
type opKey struct {
	id  fsm.UUID
	req reflect.Type
}

// Outcome is the answer to a request.
type Outcome struct {
	// Reply of the decision, nil if Err is set.
	Reply any
	// Image at the barrier; only a barrier has it.
	Image *fsm.Image
	// MetadataOffset at which the reply is true: the last offset that the decision saw or made.
	MetadataOffset int64
	// Err is a *controller.Refusal.
	Err error
}

// verdict is a decision whose reply has lost its type.
type verdict struct {
	batches []*metadatav1.Batch
	reply   any
	refused *controller.Refusal
	// remember writes what the decision changes in the soft state; nil when there is nothing.
	remember func(*controller.Liveness)
	// keep does the same for the inventories.
	keep func(*controller.Inventories)
}

// untyped takes the type off a decision.
func untyped[Resp any](d controller.Decision[Resp]) verdict {
	return verdict{batches: d.Batches, reply: d.Reply, refused: d.Refused, remember: d.Remember, keep: d.Keep}
}

// NewOp makes a request of a decision. The request must not be changed afterwards.
func NewOp[Req, Resp any](
	decide func(*fsm.Image, *controller.Env, Req) controller.Decision[Resp],
	req Req, cause *metadatav1.Cause, requestID fsm.UUID,
) *Op {
	op := &Op{
		kind:      fmt.Sprintf("%T", req),
		cause:     cause,
		requestID: requestID,
		done:      make(chan Outcome, 1),
		decide: func(img *fsm.Image, env *controller.Env) verdict {
			return untyped(decide(img, env, req))
		},
	}
	if cause.GetRequestKind() != "" {
		op.kind = cause.GetRequestKind()
	}
	if !requestID.IsZero() {
		op.key = opKey{id: requestID, req: reflect.TypeFor[Req]()}
	}
	if m, ok := any(req).(proto.Message); ok {
		op.size = proto.Size(m)
	}
	return op
}

// Prompt makes the answer of a request that writes nothing go out as soon as what it was decided on is applied here. A
// node that was deposed and does not know it yet then answers from its old state: such requests are those whose askers
// ask again soon, or hold the answer against epochs of their own.
func (op *Op) Prompt() *Op {
	op.prompt = true
	return op
}

// NewBarrier makes a request that is answered with the image of an instant after its arrival.
func NewBarrier() *Op {
	return &Op{kind: "barrier", done: make(chan Outcome, 1)}
}

// take makes the request the Core's: from now on its effect can no longer be excluded.
func (op *Op) take() bool { return op.state.CompareAndSwap(opQueued, opTaken) }

// withdraw takes the request back before it was decided.
func (op *Op) withdraw() bool { return op.state.CompareAndSwap(opQueued, opWithdrawn) }

// Done delivers the outcome.
func (op *Op) Done() <-chan Outcome { return op.done }

// Deliver carries out a Settle: it answers the request, if it was not answered yet.
func (op *Op) Deliver(out Outcome) {
	select {
	case op.done <- out:
	default: // already answered
	}
}

// Do decides a request on the active controller's tip, and returns its reply when everything that it rests on is
// committed and applied on this node. The second result is the metadata offset at which the reply is true. A reply that
// changed nothing, a refusal among them, was so at an instant between the call and its return.
//
// An error is a *controller.Refusal. NOT_CONTROLLER and OVERLOADED say that nothing was done and a retry is safe;
// OUTCOME_UNKNOWN says that the decision may take effect, or may have. A retry with the same request id gets the first
// attempt's answer as long as the claim lasts.
func Do[Req, Resp any](
	ctx context.Context, l *Loop,
	decide func(*fsm.Image, *controller.Env, Req) controller.Decision[Resp],
	req Req, cause *metadatav1.Cause, requestID fsm.UUID,
) (Resp, int64, error) {
	return await[Resp](ctx, l, NewOp(decide, req, cause, requestID))
}

// DoPrompt is Do for a request whose answer may be an old one when it changed nothing; see [Op.Prompt].
func DoPrompt[Req, Resp any](
	ctx context.Context, l *Loop,
	decide func(*fsm.Image, *controller.Env, Req) controller.Decision[Resp],
	req Req, cause *metadatav1.Cause, requestID fsm.UUID,
) (Resp, int64, error) {
	return await[Resp](ctx, l, NewOp(decide, req, cause, requestID).Prompt())
}

// await runs a request and gives its reply a type.
func await[Resp any](ctx context.Context, l *Loop, op *Op) (Resp, int64, error) {
	var none Resp
	out := l.run(ctx, op)
	if out.Err != nil {
		return none, 0, out.Err
	}
	reply, ok := out.Reply.(Resp)
	if !ok {
		return none, 0, refuse(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_SERVER_ERROR, "reply is a %T", out.Reply)
	}
	return reply, out.MetadataOffset, nil
}

// Barrier returns an image that contains everything that was committed before the call: a linearizable read. Calls that
// wait at the same time share one entry.
func (l *Loop) Barrier(ctx context.Context) (*fsm.Image, error) {
	out := l.run(ctx, NewBarrier())
	return out.Image, out.Err
}

// run submits the request and waits for its outcome, or for the caller's deadline.
func (l *Loop) run(ctx context.Context, op *Op) Outcome {
	ctx, cancel := context.WithTimeout(ctx, MaxOpTime)
	defer cancel()
	if err := l.submit(op); err != nil {
		return Outcome{Err: err}
	}
	select {
	case out := <-op.done:
		return out
	case <-ctx.Done():
	}
	l.box.post(OpDeadline{Op: op})
	if op.withdraw() {
		return Outcome{Err: refuse(controllerv1.ErrorCode_ERROR_CODE_OVERLOADED, "%s was not decided in time; nothing was done", op.kind)}
	}
	select {
	case out := <-op.done:
		return out
	default:
		return Outcome{Err: unknownOutcome(op.kind, "its deadline passed before it was committed and applied here")}
	}
}

// withMetadataOffset fills in the reply's own field of that name, if it has one and the decision left it empty.
func withMetadataOffset(reply any, offset int64) {
	m, ok := reply.(proto.Message)
	if !ok || !m.ProtoReflect().IsValid() {
		return
	}
	f := m.ProtoReflect().Descriptor().Fields().ByName("metadata_offset")
	if f == nil || f.Kind() != protoreflect.Int64Kind || m.ProtoReflect().Has(f) {
		return
	}
	m.ProtoReflect().Set(f, protoreflect.ValueOfInt64(offset))
}

// refuse makes a refusal.
func refuse(code controllerv1.ErrorCode, format string, args ...any) *controller.Refusal {
	return &controller.Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// notDone says that nothing was done and why; the caller may retry.
func notDone(kind, why string) *controller.Refusal {
	return refuse(controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER, "%s was not done: %s", kind, why)
}

// unknownOutcome says that it cannot be told whether anything was done.
func unknownOutcome(kind, why string) *controller.Refusal {
	return refuse(controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN, "outcome of %s is unknown: %s", kind, why)
}

// IsRefused reports whether err is a refusal with this code.
func IsRefused(err error, code controllerv1.ErrorCode) bool {
	var r *controller.Refusal
	return errors.As(err, &r) && r.Code == code
}
