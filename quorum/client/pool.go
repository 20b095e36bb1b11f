package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
)

// Settings of the connections.
const (
	// maxMessageBytes bounds what a node may send in one message: an entry, or a piece of a snapshot, fits many times.
	maxMessageBytes = 16 << 20
	// connectTimeout bounds one attempt to connect.
	connectTimeout = 2 * time.Second
	// keepaliveAfter is how long a connection with a stream may be silent before it is pinged.
	keepaliveAfter   = 10 * time.Second
	keepaliveTimeout = 5 * time.Second
)

// pool keeps one connection for each address. Its bound is that of the addresses a client knows.
type pool struct {
	options []grpc.DialOption

	// mu guards conns; nil after close.
	mu    sync.Mutex
	conns map[string]*grpc.ClientConn
}

func newPool(dial func(context.Context, string) (net.Conn, error), unary grpc.UnaryClientInterceptor, stream grpc.StreamClientInterceptor) *pool {
	if dial == nil {
		dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	return &pool{
		conns: map[string]*grpc.ClientConn{},
		options: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(dial),
			grpc.WithNoProxy(),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: pauseMin, Multiplier: 1.6, Jitter: 0.2, MaxDelay: pauseMax},
				MinConnectTimeout: connectTimeout,
			}),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveAfter, Timeout: keepaliveTimeout}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)),
			grpc.WithChainUnaryInterceptor(unary),
			grpc.WithChainStreamInterceptor(stream),
			grpc.WithStatsHandler(sentMarker{}),
			grpc.WithDisableServiceConfig(),
			grpc.WithDisableRetry(),
		},
	}
}

// get returns the connection to an address.
func (p *pool) get(addr string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		return nil, ErrClosed
	}
	if conn, ok := p.conns[addr]; ok {
		return conn, nil
	}
	conn, err := grpc.NewClient("passthrough:///"+addr, p.options...)
	if err != nil {
		return nil, fmt.Errorf("client: connection to %s: %w", addr, err)
	}
	p.conns[addr] = conn
	return conn, nil
}

func (p *pool) close() error {
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	var errs []error
	for _, conn := range conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// attempt is one call to one node.
type attempt struct {
	// sent is set when the request was handed to a connection: from then on the node may have got it.
	sent atomic.Bool
}

type attemptKey struct{}

// withAttempt returns a context whose calls note in the attempt that they were sent.
func withAttempt(ctx context.Context) (context.Context, *attempt) {
	a := &attempt{}
	return context.WithValue(ctx, attemptKey{}, a), a
}

// sentMarker notes that requests were sent. It is a stats.Handler because only gRPC itself knows.
type sentMarker struct{}

var _ stats.Handler = sentMarker{}

// TagRPC leaves the context as it is.
func (sentMarker) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC notes that a request was handed to a connection.
func (sentMarker) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutPayload); !ok {
		return
	}
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		a.sent.Store(true)
	}
}

// TagConn leaves the context as it is.
func (sentMarker) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (sentMarker) HandleConn(context.Context, stats.ConnStats) {}
