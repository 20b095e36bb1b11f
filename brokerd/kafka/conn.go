package kafka

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/wire"
)

const (
	// readBufferBytes is read ahead on a connection; small requests arrive in one system call.
	readBufferBytes = 4 << 10
	// watchDelay is how long a request may take before its peer is watched for having gone away.
	watchDelay = 20 * time.Millisecond
)

// errGone is returned when a connection ended in a way that nobody needs to read about: the peer closed it or fell silent,
// or we are stopping.
var errGone = errors.New("connection ended")

// unsupportedError is returned for a request that is not served: an unknown key, or a version out of range.
type unsupportedError struct {
	header wire.RequestHeader
}

// Error implements error.
func (e *unsupportedError) Error() string {
	return fmt.Sprintf("%s (key %d) version %d is not served", kmsg.NameForKey(e.header.Key), e.header.Key, e.header.Version)
}

// conn is one connection of a client. The goroutine that runs serve owns it and takes one request at a time: reads it,
// handles it, writes its answer. So answers leave in the order of the requests (I18), and an idempotent producer with
// several requests in flight is appended in order.
type conn struct {
	server   *Server
	nc       net.Conn
	listener string
	// br is lent to the watcher while a handler runs; see watch.
	br *bufio.Reader
	// trusted is set by the first good request; until then limits are tight.
	trusted bool
}

// request is a request as far as it is understood without its API.
type request struct {
	header wire.RequestHeader
	// api is zero when the key is not served.
	api servedAPI
	// frame is the whole of it, and rest what follows the header.
	frame, rest []byte
	// held is what the frame took from the budget.
	held int64
}

// newConn returns the connection on nc, which came in on the named listener.
func newConn(s *Server, nc net.Conn, listener string) *conn {
	return &conn{server: s, nc: nc, listener: listener, br: bufio.NewReaderSize(nc, readBufferBytes)}
}

// serve handles requests until the connection ends, and returns why it ended.
func (c *conn) serve(ctx context.Context) error {
	for {
		req, err := c.read(ctx)
		if err != nil {
			return err
		}
		if err := c.serveOne(ctx, req); err != nil {
			return err
		}
	}
}

// serveOne handles one request.
func (c *conn) serveOne(ctx context.Context, req request) error {
	defer func() {
		c.server.inFlight.release(req.held)
		c.giveBack(req, req.frame)
	}()
	resp, err := c.handle(ctx, req)
	if err != nil {
		return err
	}
	c.trusted = true
	if resp == nil {
		return nil
	}
	return c.write(resp, req.header.CorrelationID)
}

// read reads the next request, and judges it before its body is read.
func (c *conn) read(ctx context.Context) (request, error) {
	size, header, err := c.readPrefix()
	if err != nil {
		return request{}, err
	}
	req := request{header: header, api: c.server.byKey[header.Key]}
	if err := c.admit(req, size); err != nil {
		return request{}, err
	}
	return c.readBody(ctx, req, size)
}

// readPrefix waits for a frame and reads its size and the fixed part of its header.
func (c *conn) readPrefix() (int, wire.RequestHeader, error) {
	limits := c.server.limits
	idle := limits.IdleTimeout
	if !c.trusted {
		idle = limits.FirstRequestTimeout
	}
	if err := c.expectBytes(idle); err != nil {
		return 0, wire.RequestHeader{}, err
	}
	size, err := wire.ReadSize(c.br, limits.RequestBytesMax)
	if err != nil {
		return 0, wire.RequestHeader{}, readError(err)
	}
	if err := c.expectBytes(limits.transferTime(size)); err != nil {
		return 0, wire.RequestHeader{}, err
	}
	if size < wire.RequestPrefixBytes {
		return 0, wire.RequestHeader{}, fmt.Errorf("%w: request of %d bytes", wire.ErrMalformed, size)
	}
	prefix, err := c.br.Peek(wire.RequestPrefixBytes)
	if err != nil {
		return 0, wire.RequestHeader{}, readError(err)
	}
	header, err := wire.ParsePrefix(prefix)
	return size, header, err
}

// expectBytes gives the peer some time to send. When the server drains it interrupts all reads with a deadline of its own:
// looked at in this order, that one is never lost.
func (c *conn) expectBytes(within time.Duration) error {
	if err := c.nc.SetReadDeadline(time.Now().Add(within)); err != nil || c.server.draining.Err() != nil {
		return errGone
	}
	return nil
}

// admit judges a request by its key, its version and its size.
func (c *conn) admit(req request, size int) error {
	limits := c.server.limits
	if isUnknownApiVersions(req.header) {
		return wire.CheckSize(size, limits.FirstRequestBytesMax)
	}
	if req.api.api == nil || !req.api.served.Contains(req.header.Version) {
		return &unsupportedError{c.withClientID(req.header, size)}
	}
	switch {
	case req.api.carriesRecords:
		return nil // the frame is within RequestBytesMax
	case c.trusted || req.api.opens:
		return wire.CheckSize(size, limits.SmallRequestBytesMax)
	default:
		return wire.CheckSize(size, limits.FirstRequestBytesMax)
	}
}

// withClientID completes the header of a request that is not going to be read, as far as its bytes are here already.
func (c *conn) withClientID(header wire.RequestHeader, size int) wire.RequestHeader {
	arrived, err := c.br.Peek(min(size, c.br.Buffered()))
	if err != nil {
		return header
	}
	if whole, _, err := wire.ParseRequestHeader(arrived); err == nil {
		return whole
	}
	return header
}

// readBody reads a frame of size bytes. A large one waits for room in the budget once as much of it has arrived as a frame may
// have for nothing: a promise alone takes no room away from others.
func (c *conn) readBody(ctx context.Context, req request, size int) (_ request, err error) {
	frame, err := wire.ReadRest(c.br, c.frameBuffer(req, min(size, wire.FirstChunkBytes)), min(size, wire.FirstChunkBytes))
	if err != nil {
		return request{}, readError(err)
	}
	if size > len(frame) {
		if err := c.server.inFlight.acquire(ctx, int64(size)); err != nil {
			return request{}, errGone
		}
		req.held = int64(size)
		defer func() {
			if err != nil {
				c.server.inFlight.release(int64(size))
			}
		}()
		if frame, err = c.readMore(req, frame, size); err != nil {
			return request{}, err
		}
	}
	req.frame = frame
	req.header, req.rest, err = wire.ParseRequestHeader(frame)
	return req, err
}

// readMore reads what is missing of a large frame.
func (c *conn) readMore(req request, begin []byte, size int) ([]byte, error) {
	// The wait for room was ours, not the peer's.
	if err := c.expectBytes(c.server.limits.transferTime(size)); err != nil {
		return nil, err
	}
	frame := append(c.frameBuffer(req, min(size, bufferClasses[len(bufferClasses)-1])), begin...)
	c.giveBack(req, begin)
	frame, err := wire.ReadRest(c.br, frame, size)
	if err != nil {
		return nil, readError(err)
	}
	return frame, nil
}

// frameBuffer returns an empty buffer for n bytes of a frame. Those of records are used again; handlers of other APIs may
// keep parts of theirs.
func (c *conn) frameBuffer(req request, n int) []byte {
	if req.api.api != nil && req.api.carriesRecords {
		return c.server.buffers.get(n)
	}
	return make([]byte, 0, n)
}

// giveBack returns the buffer of a frame.
func (c *conn) giveBack(req request, frame []byte) {
	if req.api.api != nil && req.api.carriesRecords {
		c.server.buffers.put(frame)
	}
}

// handle decodes a request and has it answered.
func (c *conn) handle(ctx context.Context, req request) (kmsg.Response, error) {
	if isUnknownApiVersions(req.header) {
		return c.server.apiVersionsFallback(), nil
	}
	body := kmsg.RequestForKey(req.header.Key)
	body.SetVersion(req.header.Version)
	if err := wire.DecodeRequest(body, req.rest); err != nil {
		return nil, err
	}
	begun := time.Now()
	ctx, done := c.watch(ctx)
	defer func() {
		done()
		req.api.counters.observe(time.Since(begun))
	}()
	return req.api.handle(ctx, c.server, &call{header: req.header, listener: c.listener, peer: c.peer()}, body)
}

// watch returns a context that ends when the peer goes away, and a function to call when the request has been handled.
//
// A request that takes longer than watchDelay has probably been parked. From then on the watcher waits for the next byte
// on the connection, without taking it: there is one, or the connection ended. With another request already waiting the end
// is not noticed; what is parked has a deadline of its own.
func (c *conn) watch(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	_ = c.nc.SetReadDeadline(time.Time{}) // fails on a closed connection only, and the next read will tell
	watched := make(chan struct{})
	timer := time.AfterFunc(watchDelay, func() {
		defer close(watched)
		if _, err := c.br.Peek(1); err != nil && !isTimeout(err) {
			cancel()
		}
	})
	return ctx, func() {
		if !timer.Stop() {
			_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // wakes the watcher, which must give br back
			<-watched
		}
		cancel()
	}
}

// write sends an answer.
func (c *conn) write(resp kmsg.Response, correlationID int32) error {
	buf := wire.AppendResponse(c.server.buffers.get(sizeHint(resp)), resp, correlationID)
	defer c.server.buffers.put(buf)
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.server.limits.transferTime(len(buf)))); err != nil {
		return errGone
	}
	if _, err := c.nc.Write(buf); err != nil {
		return fmt.Errorf("%w: write: %w", errGone, err)
	}
	return nil
}

// peer is the host:port of the client.
func (c *conn) peer() string { return c.nc.RemoteAddr().String() }

// readError returns err as errGone unless it says that the peer broke the protocol.
func readError(err error) error {
	var size *wire.FrameSizeError
	if errors.As(err, &size) || errors.Is(err, wire.ErrMalformed) {
		return err
	}
	if errors.Is(err, io.EOF) {
		return errGone
	}
	return fmt.Errorf("%w: read: %w", errGone, err)
}

// isTimeout tells whether err is that of a deadline.
func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}
