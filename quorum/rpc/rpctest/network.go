package rpctest

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// listener accepts in-memory connections.
type listener struct {
	addr   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	// blackhole swallows what is sent in either direction, and lets dials hang.
	blackhole atomic.Bool
}

func newListener(addr string) *listener {
	return &listener{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for a connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close refuses connections from now on.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr names the listener.
func (l *listener) Addr() net.Addr { return memAddr(l.addr) }

func (l *listener) dial(ctx context.Context) (net.Conn, error) {
	if l.blackhole.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- &conn{Conn: theirs, via: l}:
		return &conn{Conn: ours, via: l}, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "mem", Addr: memAddr(l.addr), Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), ours.Close(), theirs.Close())
	}
}

// conn is one end of a connection.
type conn struct {
	net.Conn
	via *listener
}

// Write sends, or seems to.
func (c *conn) Write(b []byte) (int, error) {
	if c.via.blackhole.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// RemoteAddr names the node at the listening end.
func (c *conn) RemoteAddr() net.Addr { return memAddr(c.via.addr) }

type memAddr string

// Network is "mem".
func (memAddr) Network() string { return "mem" }

// String is the address.
func (a memAddr) String() string { return string(a) }
