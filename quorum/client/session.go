package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// closeTimeout is how long what was sent on a session that is closed may still arrive.
const closeTimeout = 3 * time.Second

// Session is a broker's stream to the active controller. One goroutine may send while another receives.
type Session interface {
	// Send sends a heartbeat.
	Send(*controllerv1.SessionRequest) error
	// Recv waits for the next answer. Its error is an *Error if the node refused; after any error the session is over.
	Recv() (*controllerv1.SessionResponse, error)
	// Close ends the session; heartbeats that were sent still arrive.
	Close() error
}

// OpenSession opens a session with the active controller. It tries until one is open or ctx ends; the session itself
// ends with ctx, too.
func (c *Client) OpenSession(ctx context.Context) (Session, error) {
	var opened *session
	streamCtx, cancel := c.bound(ctx)
	err := c.call(ctx, true, func(attempt context.Context, conn *grpc.ClientConn) error {
		var err error
		opened, err = c.openSession(streamCtx, attempt, conn)
		return err
	})
	if err != nil {
		cancel()
		return nil, err
	}
	opened.cancelAll = cancel
	return opened, nil
}

// openSession makes one attempt, which ends with its own context: a frozen node must not be waited for when another is
// active. The stream lives on with ctx. A node that accepts sends its header at once; one that refuses ends the stream.
func (c *Client) openSession(ctx, attempt context.Context, conn *grpc.ClientConn) (*session, error) {
	ctx, cancel := context.WithCancel(ctx)
	detach := context.AfterFunc(attempt, cancel)
	stream, err := controllerv1.NewBrokerServiceClient(conn).Session(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	header, err := stream.Header()
	if err == nil {
		err = c.checkHeader(conn.CanonicalTarget(), header)
	}
	if err == nil && len(header.Get(sessionKey)) == 0 {
		if _, err = stream.Recv(); err == nil { // refused: the reason comes at the end
			err = errors.New("the node answered a session that it did not open")
		}
	}
	if !detach() && err == nil {
		err = context.Cause(attempt)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &session{stream: stream, cancel: cancel}, nil
}

// session is an open stream.
type session struct {
	stream            grpc.BidiStreamingClient[controllerv1.SessionRequest, controllerv1.SessionResponse]
	cancel, cancelAll context.CancelFunc
}

func (s *session) Send(req *controllerv1.SessionRequest) error { return s.stream.Send(req) }

func (s *session) Recv() (*controllerv1.SessionResponse, error) {
	resp, err := s.stream.Recv()
	if err == nil {
		return resp, nil
	}
	s.cancel()
	s.cancelAll()
	if e := refusalOf(err); e != nil {
		return nil, e
	}
	return nil, err
}

func (s *session) Close() error {
	err := s.stream.CloseSend()
	time.AfterFunc(closeTimeout, func() { // what was sent gets its chance to arrive
		s.cancel()
		s.cancelAll()
	})
	return err
}
