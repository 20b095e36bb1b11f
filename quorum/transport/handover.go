package transport

import (
	"net"
	"sync"
)

// handover is a net.Listener whose connections the mux accepted.
type handover struct {
	conns   chan net.Conn
	closed  chan struct{}
	closing sync.Once
	addr    net.Addr
}

// deliver hands the connection to whoever accepts; false means that nobody will.
func (h *handover) deliver(conn net.Conn, stop <-chan struct{}) bool {
	select {
	case h.conns <- conn:
		return true
	case <-h.closed:
		return false
	case <-stop:
		return false
	}
}

// Accept gives the next connection.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close stops Accept; the mux's own listener stays open.
func (h *handover) Close() error {
	h.closing.Do(func() { close(h.closed) })
	return nil
}

// Addr is the address of the mux.
func (h *handover) Addr() net.Addr { return h.addr }
