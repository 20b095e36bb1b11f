package rpc

import (
	"context"

	"google.golang.org/grpc/peer"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
)

// decision is a function of package controller.
type decision[Req, Resp any] func(*fsm.Image, *controller.Env, Req) controller.Decision[Resp]

// ask is who asks, and for how long.
type ask struct {
	cause         *metadatav1.Cause
	requestID     fsm.UUID
	timeoutMillis int64
	// prompt is set for what brokers ask again and again: see active.Op.Prompt.
	prompt bool
}

// do has a request decided and waits for its answer.
func do[Req, Resp any](ctx context.Context, d Deps, decide decision[Req, Resp], req Req, by ask) (Resp, error) {
	var none Resp
	if err := d.admit(); err != nil {
		return none, err
	}
	ctx, cancel := withTimeout(ctx, by.timeoutMillis)
	defer cancel()
	have := active.Do[Req, Resp]
	if by.prompt {
		have = active.DoPrompt[Req, Resp]
	}
	resp, _, err := have(ctx, d.Loop, decide, req, by.cause, by.requestID)
	if err != nil {
		return none, d.status(err)
	}
	return resp, nil
}

// byBroker is the cause of what a broker asks for itself. It holds the answer against the epochs that it knows.
func byBroker(ctx context.Context, kind string) ask {
	return ask{cause: &metadatav1.Cause{Principal: "broker", ClientAddress: peerAddress(ctx), RequestKind: kind}, prompt: true}
}

// onBehalf is the cause of what is asked for somebody else: it says itself for whom.
func onBehalf(ctx context.Context, rc *controllerv1.RequestContext, kind string) (ask, error) {
	by := ask{timeoutMillis: rc.GetTimeoutMs()}
	if raw := rc.GetRequestId(); len(raw) > 0 {
		id, err := fsm.UUIDFromBytes(raw)
		if err != nil {
			return by, statusOf(&controllerv1.Error{
				Code:    controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
				Message: "request id: " + err.Error(),
			})
		}
		by.requestID = id
	}
	by.cause = &metadatav1.Cause{
		Principal:     rc.GetCause().GetPrincipal(),
		ClientAddress: rc.GetCause().GetClientAddress(),
		RequestKind:   kind,
	}
	if by.cause.Principal == "" {
		by.cause.Principal = "User:ANONYMOUS"
	}
	if by.cause.ClientAddress == "" {
		by.cause.ClientAddress = peerAddress(ctx)
	}
	return by, nil
}

func peerAddress(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}
