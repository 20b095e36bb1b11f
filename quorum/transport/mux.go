package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// pendingMax bounds the connections whose kind is not yet known or whose handshake is not over. A quorum has a
	// handful of peers and each broker a handful of connections; more at one moment are a flood.
	pendingMax = 256
	// strangerLogInterval is the least time between two lines about the same kind of stranger.
	strangerLogInterval = 10 * time.Second
	// acceptRetryMax bounds the pause after a failed Accept (too many open files).
	acceptRetryMax = time.Second
)

// Mux serves Raft and gRPC on one listener by the first bytes of each connection. It closes every connection that it
// gave away when it is closed itself, so that no peer goes on speaking to a node that has stopped.
type Mux struct {
	listener net.Listener
	logger   hclog.Logger
	pending  chan struct{} // one element for each connection that has not been handed over

	grpc atomic.Pointer[handover]
	raft atomic.Pointer[func(net.Conn) error]

	closed chan struct{}
	wg     sync.WaitGroup // the sniffing goroutines

	mu    sync.Mutex
	conns map[*muxConn]struct{} // guarded by mu; nil once closed

	strangers strangerLog
}

// NewMux gives a mux for the listener, which it owns. Until HandleRaft and GRPC are called connections of that kind
// are closed.
func NewMux(listener net.Listener, logger hclog.Logger) *Mux {
	return &Mux{
		listener: listener, logger: logger,
		pending: make(chan struct{}, pendingMax),
		closed:  make(chan struct{}),
		conns:   make(map[*muxConn]struct{}),
	}
}

// HandleRaft sets who takes connections that open with a preamble. The handler owns the connection; its error is
// logged, a refusal at WARN.
func (m *Mux) HandleRaft(handler func(net.Conn) error) { m.raft.Store(&handler) }

// GRPC gives a listener for a gRPC server. The newest listener gets all new connections; those of the one before it
// stay with its server.
func (m *Mux) GRPC() net.Listener {
	h := &handover{conns: make(chan net.Conn), closed: make(chan struct{}), addr: m.listener.Addr()}
	m.grpc.Store(h)
	return h
}

// Addr is the address that the mux listens on.
func (m *Mux) Addr() net.Addr { return m.listener.Addr() }

// Serve accepts until the mux is closed; then it returns nil.
func (m *Mux) Serve() error {
	pause := time.Duration(0)
	for {
		conn, err := m.listener.Accept()
		if err != nil {
			if m.isClosed() {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept on %s: %w", m.listener.Addr(), err)
			}
			pause = min(max(2*pause, 5*time.Millisecond), acceptRetryMax)
			m.logger.Error("cannot accept a connection", "error", err, "retry", pause.String())
			if !m.wait(pause) {
				return nil
			}
			continue
		}
		pause = 0
		m.take(conn)
	}
}

// wait pauses; false means that the mux was closed.
func (m *Mux) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-m.closed:
		return false
	}
}

// take starts the connection's own goroutine, or closes the connection if too many are pending.
func (m *Mux) take(conn net.Conn) {
	tracked := m.track(conn)
	if tracked == nil {
		conn.Close()
		return
	}
	select {
	case m.pending <- struct{}{}:
	default:
		m.wg.Done()
		tracked.Close()
		m.strangers.log(m.logger, kindUnknown, "too many connections have not said what they want; one more was closed", conn)
		return
	}
	go func() {
		defer m.wg.Done()
		defer func() { <-m.pending }()
		m.route(tracked)
	}()
}

// route reads the first bytes and hands the connection over, or closes it.
func (m *Mux) route(conn *muxConn) {
	head, err := conn.sniff()
	if err != nil {
		conn.Close()
		return // a port scan, a health check, or a peer that gave up
	}
	switch k := classify(head); k {
	case kindGRPC:
		m.handGRPC(conn)
	case kindRaft:
		m.handRaft(conn)
	case kindTLS, kindHTTP, kindKafka, kindUnknown:
		m.strangers.log(m.logger, k, k.complaint(), conn)
		m.dismiss(conn, k)
	}
}

// dismiss tells the stranger what it can understand, and closes. The deadline of the sniffing still holds.
func (m *Mux) dismiss(conn *muxConn, k kind) {
	if farewell := k.farewell(); farewell != nil {
		conn.Write(farewell) //nolint:errcheck // a courtesy; the connection is closed either way
	}
	conn.Close()
}

func (m *Mux) handGRPC(conn *muxConn) {
	h := m.grpc.Load()
	if h == nil || conn.SetDeadline(time.Time{}) != nil || !h.deliver(conn, m.closed) {
		conn.Close()
	}
}

func (m *Mux) handRaft(conn *muxConn) {
	handler := m.raft.Load()
	if handler == nil {
		conn.Close()
		return
	}
	err := (*handler)(conn)
	var refused *RefusedError
	switch {
	case err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF):
	case errors.As(err, &refused):
		m.strangers.logRefusal(m.logger, refused, conn)
	default:
		m.strangers.log(m.logger, kindRaft, "a Raft handshake failed: "+err.Error(), conn)
	}
}

// Close closes the listener and every connection that was accepted, and waits for the sniffing goroutines.
func (m *Mux) Close() error {
	m.mu.Lock()
	conns := m.conns
	m.conns = nil
	m.mu.Unlock()
	if conns == nil {
		return nil
	}
	close(m.closed)
	err := m.listener.Close()
	for conn := range conns {
		conn.Conn.Close()
	}
	m.wg.Wait()
	return err
}

func (m *Mux) isClosed() bool {
	select {
	case <-m.closed:
		return true
	default:
		return false
	}
}

// track makes the connection the mux's; nil if the mux is closed. It counts a goroutine to come while mu is held, so
// that Close, which takes mu first, waits for every one that was counted and for none that comes later.
func (m *Mux) track(conn net.Conn) *muxConn {
	tracked := &muxConn{Conn: conn, mux: m}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conns == nil {
		return nil
	}
	m.conns[tracked] = struct{}{}
	m.wg.Add(1)
	return tracked
}

func (m *Mux) forget(conn *muxConn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.conns, conn)
}

// muxConn is a connection that gives its first bytes again, and that the mux knows until it is closed.
type muxConn struct {
	net.Conn
	mux  *Mux
	head []byte // bytes read by sniff and not yet read again; owned by the reader
}

// sniff reads the first bytes within the handshake's time. The deadline stays set: who takes the connection clears it.
func (c *muxConn) sniff() (head [sniffBytes]byte, err error) {
	if err := c.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return head, err
	}
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return head, err
	}
	c.head = append([]byte(nil), head[:]...)
	return head, nil
}

// Read gives the sniffed bytes first.
func (c *muxConn) Read(p []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// Close closes the connection and makes the mux forget it.
func (c *muxConn) Close() error {
	c.mux.forget(c)
	return c.Conn.Close()
}
