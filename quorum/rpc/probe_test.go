package rpc_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
	"github.com/skiffmq/skiff/quorum/rpc/rpctest"
)

// port is where a broker of a test listens.
type port struct {
	closed atomic.Bool
	dials  atomic.Int64
}

// dial connects, is refused, or fails the test when something is sent.
func (p *port) dial(t *testing.T) func(context.Context, string) (net.Conn, error) {
	return func(_ context.Context, address string) (net.Conn, error) {
		p.dials.Add(1)
		if p.closed.Load() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		near, far := net.Pipe()
		go func() {
			if n, _ := far.Read(make([]byte, 1)); n > 0 {
				t.Error("the probe sent something")
			}
			_ = far.Close()
		}()
		return addressed{Conn: near, remote: address}, nil
	}
}

// addressed is a connection with the address of its peer.
type addressed struct {
	net.Conn
	remote string
}

func (a addressed) RemoteAddr() net.Addr { return remote(a.remote) }

type remote string

func (remote) Network() string  { return "tcp" }
func (r remote) String() string { return string(r) }

// serving opens a session of broker 1 that is unfenced, on a connection of its own.
func serving(t *testing.T, conn *grpc.ClientConn, epoch int64) (stream, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s := openSession(t, ctx, conn)
	if resp := exchange(t, s, &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch, MetadataOffset: epoch}); resp.GetIsFenced() {
		t.Fatal("the broker is fenced")
	}
	time.Sleep(10 * time.Millisecond)
	return s, cancel
}

func isFenced(n *rpctest.Node) bool {
	b, ok := n.Image().Broker(1)
	return ok && b.Fenced
}

func TestTheEndOfABrokersLastSessionIsProbed(t *testing.T) {
	p := &port{}
	edge(t, rpctest.Options{Probe: p.dial(t)}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		epoch := registerBroker(t, conn, 1)
		_, endFirst := serving(t, conn, epoch)
		_, endSecond := serving(t, conn, epoch)
		if p.dials.Load() != 1 {
			t.Fatalf("%d connections to a broker that was unfenced once", p.dials.Load())
		}
		p.closed.Store(true)
		endFirst()
		time.Sleep(time.Second)
		if p.dials.Load() != 1 || isFenced(n) {
			t.Fatal("the end of one of two sessions was taken for the end of the broker")
		}
		endSecond()
		time.Sleep(100 * time.Millisecond)
		if p.dials.Load() != 2 || !isFenced(n) {
			t.Fatalf("%d connections, fenced %t", p.dials.Load(), isFenced(n))
		}
	})
}

// TestASessionThatThisSideEndsIsNotProbed: the broker broke a rule, or this node is no longer active.
func TestASessionThatThisSideEndsIsNotProbed(t *testing.T) {
	p := &port{}
	edge(t, rpctest.Options{Probe: p.dial(t)}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		epoch := registerBroker(t, conn, 1)
		s, _ := serving(t, conn, epoch)
		p.closed.Store(true)
		if err := s.Send(&controllerv1.SessionRequest{BrokerId: 2}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err == nil {
			t.Fatal("a session serves two brokers")
		}
		time.Sleep(2 * time.Second)
		if p.dials.Load() != 1 || isFenced(n) {
			t.Fatalf("%d connections, fenced %t", p.dials.Load(), isFenced(n))
		}
	})
}

// blocked keeps the loop busy.
func blocked(d time.Duration) func(*fsm.Image, *controller.Env, int) controller.Decision[int] {
	return func(*fsm.Image, *controller.Env, int) controller.Decision[int] {
		time.Sleep(d)
		return controller.Decision[int]{}
	}
}

// TestAGoodbyeIsDecidedAlthoughAHeartbeatIsPending: a broker says it once.
func TestAGoodbyeIsDecidedAlthoughAHeartbeatIsPending(t *testing.T) {
	p := &port{}
	edge(t, rpctest.Options{Probe: p.dial(t)}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		epoch := registerBroker(t, conn, 1)
		go func() { _, _, _ = active.Do(context.Background(), n.Loop, blocked(5*time.Second), 0, nil, fsm.UUID{}) }()
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		s := openSession(t, ctx, conn)
		for _, goodbye := range []bool{false, true} { // to be unfenced, and at once to go
			if err := s.Send(&controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch, MetadataOffset: epoch, Goodbye: goodbye}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		cancel() // the process is gone
		time.Sleep(6 * time.Second)
		if c := n.Loop.Status().Counts; !isFenced(n) || c.Fencings[active.FencedGoodbye] != 1 {
			t.Fatalf("fenced %t, counts %+v", isFenced(n), c)
		}
	})
}

// TestAGoodbyeThatCannotBeDecidedIsAClosing: the broker is gone all the same.
func TestAGoodbyeThatCannotBeDecidedIsAClosing(t *testing.T) {
	p := &port{}
	edge(t, rpctest.Options{Probe: p.dial(t), SessionTimeout: time.Minute}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		epoch := registerBroker(t, conn, 1)
		s, cancel := serving(t, conn, epoch)
		p.closed.Store(true)
		go func() { _, _, _ = active.Do(context.Background(), n.Loop, blocked(15*time.Second), 0, nil, fsm.UUID{}) }()
		time.Sleep(time.Second)
		if err := s.Send(&controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch, MetadataOffset: epoch, Goodbye: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		time.Sleep(16 * time.Second)
		if c := n.Loop.Status().Counts; !isFenced(n) || c.Fencings[active.FencedProbeRefused] != 1 {
			t.Fatalf("fenced %t, counts %+v", isFenced(n), c)
		}
	})
}
