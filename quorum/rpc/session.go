package rpc

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
)

const (
	// maxUnsent is the number of answers that may wait for a broker that does not read.
	maxUnsent = 16
	// heartbeatTimeout bounds the wait for one heartbeat's decision; the next heartbeat asks again.
	heartbeatTimeout = 10 * time.Second
)

// session is one broker's stream.
type session struct {
	*brokerService
	stream grpc.BidiStreamingServer[controllerv1.SessionRequest, controllerv1.SessionResponse]
	// answers go out in the order in which they were made.
	answers chan *controllerv1.SessionResponse
	// broken receives why the session ends. Invariant: capacity 1; the first reason counts.
	broken chan error
	// ours is set when this side ends the session.
	ours atomic.Bool

	// said is owned by the receiving goroutine.
	said BrokerSession
}

// Session notes heartbeats as they arrive and answers them, until the broker goes or this node is no longer active.
func (s *brokerService) Session(stream grpc.BidiStreamingServer[controllerv1.SessionRequest, controllerv1.SessionResponse]) error {
	if err := s.admit(); err != nil {
		return err
	}
	changed := s.Loop.Changed()
	if !s.Loop.Active() {
		return s.notActive()
	}
	// The header tells the broker that the session is open.
	if err := stream.SendHeader(metadata.Pairs(SessionKey, "open")); err != nil {
		return err
	}
	ss := &session{
		brokerService: s, stream: stream,
		answers: make(chan *controllerv1.SessionResponse, maxUnsent), broken: make(chan error, 1),
	}
	go ss.receive()
	return ss.send(changed)
}

// send sends the answers. It returns when the session ends.
func (ss *session) send(changed <-chan struct{}) error {
	for {
		select {
		case a := <-ss.answers:
			if err := ss.stream.Send(a); err != nil {
				return err
			}
		case err := <-ss.broken:
			return ss.flush(err)
		case <-changed:
			changed = ss.Loop.Changed()
			if !ss.Loop.Active() {
				ss.ours.Store(true)
				return ss.notActive()
			}
		}
	}
}

// flush sends the answers that were made before the session ended for a reason.
func (ss *session) flush(reason error) error {
	for {
		select {
		case a := <-ss.answers:
			if err := ss.stream.Send(a); err != nil {
				return err
			}
		default:
			return reason
		}
	}
}

// receive takes heartbeats until the stream ends. It never waits for anything but the next one.
func (ss *session) receive() {
	for {
		req, err := ss.stream.Recv()
		if err != nil {
			ss.left(!ss.ours.Load())
			if errors.Is(err, io.EOF) {
				err = nil
			}
			ss.end(err)
			return
		}
		if err := ss.take(req); err != nil {
			ss.left(false)
			ss.refuseFurther(err)
			return
		}
	}
}

// left notes the end of the stream. If its peer ended it, without a goodbye and without another one, the broker may be
// gone.
func (ss *session) left(byPeer bool) {
	if broker, epoch, gone := ss.desk.end(&ss.said, ss.Image(), byPeer); gone {
		ss.Loop.Sessions().Closed(broker, epoch)
	}
}

// refuseFurther ends the session from this side.
func (ss *session) refuseFurther(why error) {
	ss.ours.Store(true)
	ss.end(why)
}

func (ss *session) end(err error) {
	select {
	case ss.broken <- err:
	default:
	}
}

// take notes one heartbeat and sees that it is answered. An error ends the session.
func (ss *session) take(req *controllerv1.SessionRequest) error {
	if !ss.Loop.Active() {
		return ss.notActive()
	}
	decide := func() { ss.decide(req) }
	h := ss.desk.take(&ss.said, ss.Image(), req, decide)
	if h.Heard {
		ss.Loop.Sessions().Touch(req.GetBrokerId(), req.GetBrokerEpoch(), req.GetMetadataOffset())
	}
	switch h.Fate {
	case Refused:
		return ss.status(h.Refusal)
	case ToDecide:
		go ss.desk.run(req.GetBrokerId(), decide)
	case Waits:
	case Answered:
		return ss.answer(req.GetBrokerId(), h.Answer)
	}
	return nil
}

// decide has one heartbeat decided.
func (ss *session) decide(req *controllerv1.SessionRequest) {
	// A goodbye must be decided although its stream ends.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ss.stream.Context()), heartbeatTimeout)
	defer cancel()
	by := byBroker(ss.stream.Context(), "BrokerHeartbeat")
	resp, _, err := active.DoPrompt(ctx, ss.Loop, controller.Heartbeat, req, by.cause, fsm.UUID{})
	v := Judge(ss.Image(), req, resp, err)
	if v.Over {
		ss.refuseFurther(ss.status(err))
		return
	}
	if err != nil {
		ss.Logger.Warn("a heartbeat was not decided", "broker", req.GetBrokerId(), "error", err)
	}
	if v.Gone {
		ss.Loop.Sessions().Closed(req.GetBrokerId(), req.GetBrokerEpoch())
	}
	if err := ss.answer(req.GetBrokerId(), v.Answer); err != nil {
		ss.refuseFurther(err)
	}
}

// answer queues an answer. It does not wait: a broker that leaves so many answers unread is cut off.
func (ss *session) answer(broker int32, resp *controllerv1.SessionResponse) error {
	select {
	case ss.answers <- resp:
		return nil
	default:
		return ss.refuse(controllerv1.ErrorCode_ERROR_CODE_OVERLOADED, "%d answers to broker %d wait unread", maxUnsent, broker)
	}
}
