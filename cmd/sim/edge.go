package main

import (
	"errors"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
)

// errNoAnswer means that the request or its answer was lost.
var errNoAnswer = errors.New("no answer")

// askTimeout is how long a request of a broker may take.
const askTimeout = 5 * time.Second

// ask sends a broker's request to the node that it takes for the active controller.
func ask[Req, Resp any](b *broker, decide func(*fsm.Image, *controller.Env, Req) controller.Decision[Resp], req Req, kind string, done func(Resp, error)) {
	n := b.controller()
	op := active.NewOp(decide, req, &metadatav1.Cause{Principal: b.name, RequestKind: kind}, b.s.uuid())
	var none Resp
	b.s.net.call(&b.proc, &n.proc, askTimeout, func(answer func(func())) {
		n.submit(op, askTimeout, func(out active.Outcome) {
			answer(func() {
				if out.Err != nil {
					if active.IsRefused(out.Err, controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER) && b.ctrl == n {
						b.ctrl = nil
					}
					done(none, out.Err)
					return
				}
				resp, _ := out.Reply.(Resp)
				done(resp, nil)
			})
		})
	}, func() {
		if b.ctrl == n {
			b.ctrl = nil
		}
		done(none, errNoAnswer)
	})
}

// heartbeat is what the session of quorum/rpc does with one: note its arrival, answer the steady state from the image,
// and let the Core decide the rest. Nil answers that this node is not the active controller.
func (n *node) heartbeat(req *controllerv1.SessionRequest, answer func(*controllerv1.SessionResponse)) {
	if !n.open() {
		answer(nil)
		return
	}
	img := n.img
	if b, ok := img.Broker(req.GetBrokerId()); ok && b.Epoch == req.GetBrokerEpoch() && !req.GetGoodbye() {
		n.heard[b.ID] = n.s.agenda.now
		n.contacts = append(n.contacts, active.Contact{BrokerID: b.ID, BrokerEpoch: b.Epoch, MetadataOffset: req.GetMetadataOffset(), At: n.s.agenda.time()})
	}
	switch {
	case !controller.NeedsDecision(img, req):
		env := &controller.Env{Now: time.UnixMilli(img.LastBatchTimeMs()), Limits: controller.DefaultLimits(), Cause: &metadatav1.Cause{}}
		answer(controller.Heartbeat(img, env, req).Reply)
	case n.deciding[req.GetBrokerId()]:
		answer(asItIs(img, req))
	default:
		n.deciding[req.GetBrokerId()] = true
		op := active.NewOp(controller.Heartbeat, req, &metadatav1.Cause{RequestKind: "BrokerHeartbeat"}, fsm.UUID{})
		n.submit(op, 10*time.Second, func(out active.Outcome) {
			delete(n.deciding, req.GetBrokerId())
			switch resp, ok := out.Reply.(*controllerv1.SessionResponse); {
			case active.IsRefused(out.Err, controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER):
				answer(nil)
			case out.Err != nil || !ok:
				answer(asItIs(n.img, req))
			default:
				answer(resp)
			}
		})
	}
}

// asItIs answers a heartbeat with the broker's state in the image.
func asItIs(img *fsm.Image, req *controllerv1.SessionRequest) *controllerv1.SessionResponse {
	resp := &controllerv1.SessionResponse{Sequence: req.GetSequence(), IsFenced: true, ControllerEpoch: img.ControllerEpoch()}
	if b, ok := img.Broker(req.GetBrokerId()); ok {
		resp.IsFenced = b.Fenced
		resp.IsCaughtUp = req.GetMetadataOffset() >= b.Epoch
	}
	return resp
}
