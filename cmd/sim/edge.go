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
	if kind != "Register" { // as quorum/rpc has it
		op.Prompt()
	}
	var none Resp
	b.s.net.call(&b.proc, &n.proc, askTimeout, func(answer func(func())) {
		answered := func(out active.Outcome) {
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
		}
		submit := func() { n.submit(op, askTimeout, answered) }
		if kind == "AlterPartitions" && b.slowAsk != nil {
			b.s.agenda.after(b.slowAsk(), &n.proc, submit)
			return
		}
		b.s.net.stall(&n.proc, 30, submit)
	}, func() {
		if b.ctrl == n {
			b.ctrl = nil
		}
		done(none, errNoAnswer)
	})
}
