package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// defaultResponseBytesMax leaves room for the largest record batch a topic may allow, and more.
	defaultResponseBytesMax = 128 << 20
	// defaultTimeout ends a request whose caller set no deadline.
	defaultTimeout = 30 * time.Second
)

// ErrConnClosed is returned by [Conn.Request] when the connection was closed, by us or by an earlier error.
var ErrConnClosed = errors.New("connection closed")

// errNoAnswer is returned for the one request that has no answer to wait for.
var errNoAnswer = errors.New("a Produce request with acks=0 is not answered")

// Options of a [Conn]. The zero value is usable.
type Options struct {
	// ClientID is what we call ourselves in every request.
	ClientID string
	// Dial connects to host:port; nil means TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// ResponseBytesMax is the largest response that is read; 0 means 128 MiB.
	ResponseBytesMax int
	// Timeout bounds each request besides its context; 0 means 30 s.
	Timeout time.Duration
}

// withDefaults returns o with its zero values replaced.
func (o Options) withDefaults() Options {
	if o.Dial == nil {
		var d net.Dialer
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
	}
	if o.ResponseBytesMax == 0 {
		o.ResponseBytesMax = defaultResponseBytesMax
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return o
}

// Conn is the client side of a connection to a broker: one request in flight, answers in order.
//
// Its methods may be called from any goroutine; concurrent requests wait for each other. The first error of any kind, a
// context that ends included, closes the connection, because what would come next on it could answer an older request.
type Conn struct {
	opts Options
	nc   net.Conn

	// turn holds one token; whoever has it owns correlationID and both directions of nc.
	turn          chan struct{}
	correlationID int32

	closeOnce sync.Once
	closed    chan struct{}
	closeErr  error
}

// Dial connects to address (host:port). The context bounds the dialing only.
func Dial(ctx context.Context, address string, opts Options) (*Conn, error) {
	opts = opts.withDefaults()
	nc, err := opts.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("dial broker %s: %w", address, err)
	}
	return NewConn(nc, opts), nil
}

// NewConn returns a Conn on nc, which it owns from now on. The Dial of opts is not used.
func NewConn(nc net.Conn, opts Options) *Conn {
	c := &Conn{opts: opts.withDefaults(), nc: nc, turn: make(chan struct{}, 1), closed: make(chan struct{})}
	c.turn <- struct{}{}
	return c
}

// Request sends req, whose version the caller has set, and returns its answer, which has the type of req.ResponseKind().
// The answer owns its memory. Any error closes the connection; after one it is unknown whether the broker acted.
func (c *Conn) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		return nil, errNoAnswer
	}
	select {
	case <-c.turn:
	case <-c.closed:
		return nil, ErrConnClosed
	case <-ctx.Done():
		return nil, ctx.Err() // nothing was sent: the connection stays good
	}
	defer func() { c.turn <- struct{}{} }()
	resp, err := c.exchange(ctx, req)
	if err != nil {
		_ = c.Close() // the error that matters is err
		return nil, fmt.Errorf("%s v%d to %s: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), c.nc.RemoteAddr(), err)
	}
	return resp, nil
}

// Close closes the connection; a request in flight ends with an error. It may be called more than once.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() {
		close(c.closed)
		c.closeErr = c.nc.Close()
	})
	return c.closeErr
}

// exchange writes one request and reads its answer. The caller holds the turn.
func (c *Conn) exchange(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()

	resp, err := c.roundTrip(req)
	switch {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case c.isClosed():
		return nil, ErrConnClosed
	default:
		return nil, err
	}
}

// roundTrip does the I/O of one request. Only closing the connection interrupts it.
func (c *Conn) roundTrip(req kmsg.Request) (kmsg.Response, error) {
	c.correlationID++
	if _, err := c.nc.Write(FormatRequest(req, c.opts.ClientID, c.correlationID)); err != nil {
		return nil, err
	}
	frame, err := ReadFrame(c.nc, c.opts.ResponseBytesMax)
	if err != nil {
		return nil, unexpectedEOF(err)
	}
	resp := req.ResponseKind()
	if err := ParseResponse(frame, resp, c.correlationID); err != nil {
		return nil, err
	}
	return resp, nil
}

// isClosed tells whether Close was called.
func (c *Conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}
