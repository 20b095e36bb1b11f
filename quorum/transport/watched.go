package transport

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// watched is a connection with a peer that tells, once, when the peer's end of it is gone. Raft reads each connection
// that it accepted without a pause, so the end of the peer's process is seen when the system closes its sockets.
type watched struct {
	net.Conn
	lost func()
	once sync.Once
}

// watch gives the connection, and has lost called with the peer when it ends by the peer's side.
func (l *Layer) watch(conn net.Conn, peer PeerID) net.Conn {
	if l.lost == nil {
		return conn
	}
	return &watched{Conn: conn, lost: func() { l.lost(peer) }}
}

// Read reads, and looks at the error.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.judge(err)
	return n, err
}

// Write writes, and looks at the error.
func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.judge(err)
	return n, err
}

func (w *watched) judge(err error) {
	if err != nil && isGone(err) {
		w.once.Do(w.lost)
	}
}

// isGone tells that the peer ended the connection; a deadline and our own Close do not say so.
func isGone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
