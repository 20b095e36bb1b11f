package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/brokerd/wire"
)

// ErrServerClosed is returned by [Server.Serve] after [Server.Shutdown].
var ErrServerClosed = errors.New("kafka: server closed")

const (
	// acceptPauseMin and acceptPauseMax bound the wait after an Accept that failed, for example for want of file descriptors.
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// Server serves Kafka's protocol on any number of listeners.
type Server struct {
	config Config
	limits Limits
	logger hclog.Logger
	// hostile logs what peers can provoke.
	hostile *quiet
	apis    []api
	byKey   map[int16]servedAPI
	// counters of what happened.
	counters counters
	// inFlight bounds the bytes of requests being handled.
	inFlight    *budget
	buffers     buffers
	autoCreate  *autoCreator
	producerIDs *producerIDs

	// draining ends when Shutdown begins: what is parked for news answers with what there is, and no connection takes another
	// request. closing ends when its patience is over: everything stops.
	draining, closing context.Context //nolint:containedctx // they are states of the server, not of a call
	drain, closeAll   context.CancelFunc

	// mu guards the following.
	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	// running counts connections; it is only added to under mu and before draining.
	running sync.WaitGroup
}

// New returns a server that serves nothing yet.
func New(config Config) (*Server, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	s := &Server{
		config:    config,
		limits:    config.Limits.withDefaults(),
		logger:    config.Logger,
		hostile:   newQuiet(config.Logger),
		apis:      allAPIs(),
		byKey:     map[int16]servedAPI{},
		listeners: map[net.Listener]struct{}{},
		conns:     map[*conn]struct{}{},
	}
	s.counters.apis = make([]apiCounters, len(s.apis))
	for i := range s.apis {
		s.byKey[s.apis[i].key] = servedAPI{&s.apis[i], &s.counters.apis[i]}
	}
	s.inFlight = newBudget(s.limits.InFlightBytesMax)
	s.autoCreate = newAutoCreator(s)
	s.producerIDs = newProducerIDs(s.reserveProducerIDs)
	s.draining, s.drain = context.WithCancel(context.Background())
	s.closing, s.closeAll = context.WithCancel(context.Background())
	return s, nil
}

// Serve accepts connections from l until [Server.Shutdown], and then returns ErrServerClosed. It closes l. Answers on
// these connections name the addresses that brokers advertise under the given listener name.
func (s *Server) Serve(name string, l net.Listener) error {
	if !s.addListener(l) {
		_ = l.Close() // it served nobody
		return ErrServerClosed
	}
	pause := acceptPauseMin
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = acceptPauseMin
			s.start(nc, name)
		case s.draining.Err() != nil:
			return ErrServerClosed
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		default:
			s.hostile.warn("cannot accept connections", "address", l.Addr().String(), "error", err)
			s.pause(pause)
			pause = min(2*pause, acceptPauseMax)
		}
	}
}

// Shutdown stops the server: listeners close at once, idle connections too, and requests in flight are answered until ctx ends.
// Fetches that wait for records are answered with what there is. It returns when no connection is left, with ctx's
// error if some had to be cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopAccepting()
	defer s.autoCreate.stop()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.closeAll()
		return nil
	case <-ctx.Done():
	}
	s.closeAll()
	s.eachConn(func(c *conn) { _ = c.nc.Close() }) // what was in flight is lost, and its owner is told by the end of the connection
	<-done
	return ctx.Err()
}

// stopAccepting closes the listeners and interrupts connections that wait for a request.
func (s *Server) stopAccepting() {
	s.mu.Lock()
	s.drain()
	listeners := s.listeners
	s.listeners = nil
	s.mu.Unlock()
	for l := range listeners {
		_ = l.Close() // Accept returns with the error, if it matters
	}
	s.eachConn(func(c *conn) { _ = c.nc.SetReadDeadline(time.Unix(1, 0)) })
}

// eachConn calls f with each connection, without the lock.
func (s *Server) eachConn(f func(*conn)) {
	s.mu.Lock()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		f(c)
	}
}

// addListener remembers l for Shutdown; false after Shutdown.
func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Err() != nil {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

// start serves nc in its own goroutine, or closes it when there are too many.
func (s *Server) start(nc net.Conn, listener string) {
	c := newConn(s, nc, listener)
	if !s.addConn(c) {
		if s.draining.Err() == nil {
			s.counters.refused.Add(1)
			s.hostile.warn("connection refused: too many are open", "peer", c.peer(), "limit", s.limits.ConnectionsMax)
		}
		_ = nc.Close()
		return
	}
	go s.run(c)
}

// addConn counts c in, unless the server stops or is full.
func (s *Server) addConn(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Err() != nil || len(s.conns) >= s.limits.ConnectionsMax {
		return false
	}
	s.conns[c] = struct{}{}
	s.running.Add(1)
	return true
}

// removeConn undoes addConn.
func (s *Server) removeConn(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.running.Done()
}

// run serves c to its end. A panic of a handler is a bug of ours that costs this connection and no other.
func (s *Server) run(c *conn) {
	defer s.removeConn(c)
	defer func() {
		_ = c.nc.Close()
		if p := recover(); p != nil {
			s.logger.Error("bug: a request handler panicked; its connection is closed", "peer", c.peer(), "panic", p, "stack", string(debug.Stack()))
		}
	}()
	s.logEnd(c, c.serve(s.closing))
}

// logEnd says why a connection ended, if that is worth a line.
func (s *Server) logEnd(c *conn, err error) {
	if errors.Is(err, errGone) {
		s.logger.Trace("connection ended", "peer", c.peer(), "reason", err)
		return
	}
	s.counters.broken.Add(1)
	var size *wire.FrameSizeError
	var unsupported *unsupportedError
	switch {
	case errors.As(err, &size):
		s.hostile.warn("connection closed: bad frame size", "peer", c.peer(), "size", size.Size, "limit", size.Limit)
	case errors.As(err, &unsupported):
		h := unsupported.header
		s.hostile.warn("connection closed: request is not served", "peer", c.peer(), "client", h.ClientID, "key", h.Key, "version", h.Version, "error", err)
	case errors.Is(err, wire.ErrMalformed):
		s.hostile.warn("connection closed: malformed request", "peer", c.peer(), "error", err)
	default:
		s.hostile.warn("connection closed", "peer", c.peer(), "error", err)
	}
}

// pause waits for d or until the server stops.
func (s *Server) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.draining.Done():
	}
}
