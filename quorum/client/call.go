package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// maxHops is how many hints in a row are followed before all nodes are asked: two nodes that take each other for the
// active controller must not keep a caller busy.
const maxHops = 2

// attemptTimeout bounds one attempt at a repeatable request: a node that is paused or cut off neither answers nor
// refuses, and another may be active by now. A request that may not be repeated waits as long as its caller does.
const attemptTimeout = 3 * time.Second

// call has a request answered by the active controller. What was certainly not done is repeated until ctx ends; what
// may have been done is repeated only if the request is repeatable.
func (c *Client) call(ctx context.Context, repeatable bool, send func(context.Context, *grpc.ClientConn) error) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	var p pause
	var last error
	hops := 0
	for {
		addr, err := c.locate(ctx)
		if err != nil {
			return c.ended(ctx, err, last)
		}
		err = c.send(ctx, addr, repeatable, send)
		if err == nil {
			return nil
		}
		var e *Error
		if !errors.As(err, &e) {
			return err
		}
		if e.Code == controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN {
			c.disbelieve(addr) // the next request must not be lost in the same hole
		}
		if !e.mayRepeat(repeatable) {
			return err
		}
		last = err
		if ctx.Err() != nil {
			return c.ended(ctx, ctx.Err(), last)
		}
		if c.followHint(addr, e, hops) {
			hops++
			continue
		}
		hops = 0
		if !p.wait(ctx, nil) {
			return c.ended(ctx, ctx.Err(), last)
		}
	}
}

// followHint draws the consequence of a refusal for who is believed to be active. It returns true when somebody else is
// worth a try at once.
func (c *Client) followHint(addr string, e *Error, hops int) bool {
	if !e.wrongNode() && e.Code != controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN {
		return false
	}
	c.disbelieve(addr)
	hint := e.ActiveController
	if hint == "" || hint == addr || hops >= maxHops {
		return false
	}
	c.learn(hint)
	c.believe(hint)
	return true
}

// ended is the error of a call whose context has ended.
func (c *Client) ended(ctx context.Context, err, last error) error {
	if errors.Is(err, ErrClosed) || c.life.Err() != nil {
		return ErrClosed
	}
	if e := refusalIn(err); e != nil {
		return e
	}
	if CodeOf(last) == controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN {
		return last
	}
	return timedOut(ctx, last)
}

// send makes one attempt at one node. The error is an *Error, unless the client is closed.
func (c *Client) send(ctx context.Context, addr string, repeatable bool, send func(context.Context, *grpc.ClientConn) error) error {
	conn, err := c.pool.get(addr)
	if err != nil {
		return err
	}
	if repeatable {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
	}
	ctx, trusted := c.suspect(ctx, addr)
	defer trusted()
	ctx, a := withAttempt(ctx)
	return c.judge(send(ctx, conn), a)
}

// suspectAfter is how long an attempt may go unanswered before the other nodes are asked who is active. A commit takes
// milliseconds; the pause doubles with every time that the node proves to be active all the same.
const (
	suspectAfter    = 500 * time.Millisecond
	suspectAfterMax = 4 * time.Second
)

// errMoved ends an attempt at a node that does not answer while another is active.
var errMoved = errors.New("another node has become the active controller")

// suspect returns a context for one attempt at addr. It ends when the attempt is not answered and another node says that
// it is active: a frozen process and a cut cable neither answer nor refuse, and the caller's deadline may be far away.
func (c *Client) suspect(parent context.Context, addr string) (ctx context.Context, trusted func()) {
	ctx, cancel := context.WithCancelCause(parent)
	timer := time.AfterFunc(suspectAfter, func() {
		for wait := 2 * suspectAfter; ; wait = min(2*wait, suspectAfterMax) {
			c.disbelieve(addr)
			switch active, err := c.locate(ctx); {
			case err != nil:
				return // the attempt is over, or the client is closed
			case active != addr:
				cancel(errMoved)
				return
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
	})
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// judge turns the error of an attempt into an *Error.
func (c *Client) judge(err error, a *attempt) error {
	if err == nil {
		return nil
	}
	if e := refusalIn(err); e != nil {
		return e
	}
	if a.sent.Load() {
		return outcomeUnknown(err)
	}
	return &Error{Code: controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER, Message: "not reached: " + err.Error()}
}

// bound returns a context that ends with the caller's or with the client.
func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// ask is call for a request with a response.
func ask[Req, Resp any](ctx context.Context, c *Client, repeatable bool, method func(*grpc.ClientConn) func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req) (Resp, error) {
	var resp Resp
	err := c.call(ctx, repeatable, func(ctx context.Context, conn *grpc.ClientConn) error {
		var err error
		resp, err = method(conn)(ctx, req)
		return err
	})
	if err != nil {
		var none Resp
		return none, err
	}
	return resp, nil
}
