package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// sendDeadline is how long a follower may take to make room for one message.
const sendDeadline = 10 * time.Second

// sender sends messages in a goroutine of its own, so that a send can be given up: gRPC itself waits for a peer that
// does not read as long as the connection lives.
type sender struct {
	messages chan *controllerv1.FollowResponse
	// sent receives the result of each send. Invariant: capacity 1, so the goroutine never waits to leave a result.
	sent chan error
}

func newSender(stream grpc.ServerStreamingServer[controllerv1.FollowResponse]) *sender {
	s := &sender{messages: make(chan *controllerv1.FollowResponse), sent: make(chan error, 1)}
	go func() {
		for m := range s.messages {
			s.sent <- stream.Send(m)
		}
	}()
	return s
}

// send sends one message. After an error the sender must not be used again: a send may be under way. It ends with the
// stream, which ends when the caller's handler returns.
func (s *sender) send(ctx context.Context, m *controllerv1.FollowResponse) error {
	timer := time.NewTimer(sendDeadline)
	defer timer.Stop()
	s.messages <- m // the goroutine is idle: one message at a time
	select {
	case err := <-s.sent:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return status.Errorf(codes.ResourceExhausted, "the follower did not read for %s", sendDeadline)
	}
}

// close ends the goroutine, when its last send has ended.
func (s *sender) close() { close(s.messages) }
