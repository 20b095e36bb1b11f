package quorumtest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// halfBytesMax is what one direction of a connection holds before its writer waits, like a socket's buffers.
const halfBytesMax = 1 << 20

// conn is one end of a connection.
type conn struct {
	net           *Network
	in, out       *half
	local, remote address
	read, write   deadline
	closing       sync.Once
}

var _ net.Conn = (*conn)(nil)

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p, &c.read) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p, &c.write) }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.remote }

// Close ends both directions: the peer reads what was sent and then EOF.
func (c *conn) Close() error {
	c.closing.Do(func() {
		c.out.finish()
		c.in.leave()
		c.read.set(time.Time{})
		c.write.set(time.Time{})
		c.net.mu.Lock()
		defer c.net.mu.Unlock()
		delete(c.net.conns, c)
	})
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return nil
}

// half is one direction of a connection.
type half struct {
	link *link

	mu       sync.Mutex
	chunks   []chunk       // in order; guarded by mu
	size     int           // guarded by mu
	finished bool          // the writer has closed; guarded by mu
	left     bool          // the reader has closed; guarded by mu
	err      error         // the connection is broken; guarded by mu
	changed  chan struct{} // closed and replaced at every change; guarded by mu
}

// chunk is what one Write sent.
type chunk struct {
	data []byte
	sent time.Time
}

func newHalf(l *link) *half { return &half{link: l, changed: make(chan struct{})} }

// change runs f under the lock and wakes everybody who waits.
func (h *half) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	h.wake()
}

// wake is called with mu held.
func (h *half) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *half) finish() { h.change(func() { h.finished = true }) }

// leave tells that nobody reads any more. The writer learns of it when the link lets it: across a cut it goes on
// writing into nothing, as TCP does. If it failed at once while its own reads still hang, gRPC would take the
// connection for usable and try it again and again without a pause.
func (h *half) leave() { h.change(func() { h.left = true }) }

func (h *half) abort(err error) {
	h.change(func() {
		if h.err == nil {
			h.err = err
		}
	})
}

// write queues the bytes; what the reader gets when is the link's business.
func (h *half) write(p []byte, d *deadline) (int, error) {
	for {
		expired := d.wait()
		down, _, _ := h.link.state()
		done, changed, n, err := h.tryWrite(p, down)
		if done {
			return n, err
		}
		select {
		case <-changed:
		case <-expired:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (h *half) tryWrite(p []byte, down bool) (done bool, changed <-chan struct{}, n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.err != nil:
		return true, nil, 0, h.err
	case h.finished, h.left && !down:
		return true, nil, 0, net.ErrClosed
	case h.left:
		return true, nil, len(p), nil
	case h.size > halfBytesMax:
		return false, h.changed, 0, nil
	}
	h.chunks = append(h.chunks, chunk{data: append([]byte(nil), p...), sent: time.Now()})
	h.size += len(p)
	h.wake()
	return true, nil, len(p), nil
}

// read gives the bytes that have arrived.
func (h *half) read(p []byte, d *deadline) (int, error) {
	for {
		expired := d.wait()
		select {
		case <-expired:
			return 0, os.ErrDeadlineExceeded
		default:
		}
		down, delay, healed := h.link.state()
		done, arrives, changed, n, err := h.tryRead(p, down, delay)
		if done {
			return n, err
		}
		if err := waitAny(arrives, changed, healed, expired); err != nil {
			return 0, err
		}
	}
}

// waitAny waits for news, for at most d if d is positive.
func waitAny(d time.Duration, changed, healed, expired <-chan struct{}) error {
	var arrived <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		arrived = timer.C
	}
	select {
	case <-changed:
	case <-healed:
	case <-arrived:
	case <-expired:
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (h *half) tryRead(p []byte, down bool, delay time.Duration) (done bool, arrives time.Duration, changed <-chan struct{}, n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.err != nil:
		return true, 0, nil, 0, h.err
	case h.left:
		return true, 0, nil, 0, net.ErrClosed
	case down:
		return false, 0, h.changed, 0, nil
	case len(h.chunks) == 0 && h.finished:
		return true, 0, nil, 0, io.EOF
	case len(h.chunks) == 0:
		return false, 0, h.changed, 0, nil
	}
	first := &h.chunks[0]
	if wait := time.Until(first.sent.Add(delay)); wait > 0 {
		return false, wait, h.changed, 0, nil
	}
	n = copy(p, first.data)
	first.data = first.data[n:]
	h.size -= n
	if len(first.data) == 0 {
		h.chunks = h.chunks[1:]
	}
	h.wake()
	return true, 0, nil, n, nil
}

// deadline is a point in time that can be moved while somebody waits for it.
type deadline struct {
	mu      sync.Mutex
	timer   *time.Timer
	expired chan struct{} // closed when the time has come; guarded by mu
}

// wait gives a channel that is closed when the time has come.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.expired == nil {
		d.expired = make(chan struct{})
	}
	return d.expired
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.expired // the timer has run, or runs now without the lock
	}
	d.timer = nil
	if d.expired == nil || isClosed(d.expired) {
		d.expired = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	expired := d.expired
	if wait := time.Until(t); wait > 0 {
		d.timer = time.AfterFunc(wait, func() { close(expired) })
	} else {
		close(expired)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
