package brokerd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/brokerd/lifecycle"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

const (
	// sessionRetry is the pause after a session that could not be opened or a registration that failed; the client
	// itself has already looked for the active controller.
	sessionRetry = 50 * time.Millisecond
	// sessionReopen is the pause after a session that worked and broke: another controller may have claimed already.
	sessionReopen = 10 * time.Millisecond
	// registerRetry is the pause after a registration that was refused and may be taken later.
	registerRetry = 500 * time.Millisecond
	// defaultSessionTimeout until the controller grants another.
	defaultSessionTimeout = 9 * time.Second
	// heartbeatsPerSession is how often a broker is heard of in a session timeout: several may be lost.
	heartbeatsPerSession = 6
	// goodbyeTimeout bounds the last message.
	goodbyeTimeout = time.Second
)

// controller is what the session needs of quorum/client.
type controller interface {
	Register(ctx context.Context, req *controllerv1.RegisterRequest) (*controllerv1.RegisterResponse, error)
	OpenSession(ctx context.Context) (client.Session, error)
}

// session keeps the broker registered and tells the controller how it is. One goroutine runs it; the lifecycle is
// shared with those that tell it of events.
type session struct {
	controller controller
	nodeID     int32
	logger     hclog.Logger
	// registration makes the request; it pins the cluster id first.
	registration func(ctx context.Context) (*controllerv1.RegisterRequest, error)
	// applied and controllerEpoch tell how far the metadata is.
	applied         func() int64
	controllerEpoch func() int64
	// news is called, without waiting, when the broker has another broker epoch or another controller heard it.
	news func()
	// fixedInterval between heartbeats; 0 is a sixth of what the controller grants.
	fixedInterval time.Duration
	// patience for a registration that is refused because another process has the id.
	patience time.Duration

	// poke has room for one: something changed that the controller should hear at once.
	poke chan struct{}
	// stopped is closed when the lifecycle reaches the state SHUTTING_DOWN.
	stopped chan struct{}
	// leaving is closed when the process has stopped and only the goodbye is left.
	leaving chan struct{}

	mu sync.Mutex
	// mu guards the following.
	life lifecycle.Life
	// granted is the session timeout of the registration.
	granted time.Duration
	// heardBy is the controller epoch of the last heartbeat's answer, 0 before the first.
	heardBy int64
}

// update applies an event to the lifecycle and lets the controller hear of it.
func (s *session) update(event func(lifecycle.Life) lifecycle.Life) {
	s.mu.Lock()
	before := s.life
	s.life = event(s.life)
	after := s.life
	s.mu.Unlock()
	if before == after {
		return
	}
	if before.Epoch != after.Epoch {
		s.news()
	}
	if before.State != after.State {
		s.logger.Info("broker state", "from", before.State.String(), "to", after.State.String(), "broker_epoch", after.Epoch, "metadata_offset", s.applied())
		if after.State == lifecycle.StateShuttingDown {
			close(s.stopped)
		}
	}
	s.nudge()
}

// nudge sends a heartbeat as soon as possible.
func (s *session) nudge() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

func (s *session) now() lifecycle.Life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// heard notes that the controller of an epoch has heard us.
func (s *session) heard(controllerEpoch int64) {
	s.mu.Lock()
	before := s.heardBy
	s.heardBy = controllerEpoch
	s.mu.Unlock()
	if before != controllerEpoch {
		s.news()
	}
}

// lastHeardBy is the epoch of the controller that heard us last.
func (s *session) lastHeardBy() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heardBy
}

// epoch of the registration, -1 if there is none.
func (s *session) epoch() int64 { return s.now().Epoch }

func (s *session) interval() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.life.Eager():
		return lifecycle.EagerInterval
	case s.fixedInterval > 0:
		return min(s.fixedInterval, s.granted/2)
	default:
		return s.granted / heartbeatsPerSession
	}
}

// run registers and heartbeats until ctx ends or the goodbye is said, which is nil, or until the controller refuses
// us for good.
func (s *session) run(ctx context.Context) error {
	for ctx.Err() == nil && !s.left() {
		if s.now().MustRegister() {
			if err := s.register(ctx); err != nil {
				return err
			}
			continue
		}
		worked, err := s.talk(ctx)
		if err != nil && ctx.Err() == nil {
			s.logger.Warn("the session with the controller ended; opening another", "error", err)
			if worked {
				pause(ctx, sessionReopen)
			} else {
				pause(ctx, sessionRetry)
			}
		}
	}
	return nil
}

func (s *session) left() bool {
	select {
	case <-s.leaving:
		return true
	default:
		return false
	}
}

// register asks until the controller answers. A refusal that asking again cannot change is returned. A repeated
// reason is logged once.
func (s *session) register(ctx context.Context) error {
	deadline := time.Now().Add(s.patience)
	said := ""
	for {
		resp, err := s.tryRegister(ctx)
		switch {
		case err == nil:
			s.took(resp)
			return nil
		case ctx.Err() != nil:
			return nil
		}
		final, retry := s.judge(err, deadline)
		if !retry {
			return final
		}
		if reason := err.Error(); reason != said {
			said = reason
			s.logger.Warn("not registered yet; asking again", "error", err)
		}
		if !pause(ctx, registerRetry) {
			return nil
		}
	}
}

func (s *session) tryRegister(ctx context.Context) (*controllerv1.RegisterResponse, error) {
	req, err := s.registration(ctx)
	if err != nil {
		return nil, err
	}
	return s.controller.Register(ctx, req)
}

// judge tells whether asking again can help. A broker id that is alive elsewhere is waited for: its holder may just
// have died on another machine, and its session ends. After the deadline somebody has to decide.
func (s *session) judge(err error, deadline time.Time) (final error, retry bool) {
	var refused *RefusedError
	switch code := client.CodeOf(err); {
	case errors.As(err, &refused):
		return err, false
	case code == controllerv1.ErrorCode_ERROR_CODE_DUPLICATE_BROKER_REGISTRATION:
		if time.Now().Before(deadline) {
			return nil, true
		}
		return &RefusedError{
			Cause: fmt.Sprintf("broker id %d is alive elsewhere: %v", s.nodeID, err),
			Fix:   "stop the other process, or give this one a node.id of its own", Err: err,
		}, false
	case code == controllerv1.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID:
		return &RefusedError{Cause: err.Error(), Fix: "correct controller.quorum.bootstrap.servers, or set log.dirs to a directory of that cluster", Err: err}, false
	case code == controllerv1.ErrorCode_ERROR_CODE_INVALID_REGISTRATION, code == controllerv1.ErrorCode_ERROR_CODE_UNSUPPORTED_VERSION:
		return &RefusedError{Cause: fmt.Sprintf("the controller refuses broker %d: %v", s.nodeID, err), Fix: "correct what it names and start again", Err: err}, false
	default:
		return nil, true
	}
}

func (s *session) took(resp *controllerv1.RegisterResponse) {
	s.mu.Lock()
	if granted := time.Duration(resp.GetSessionTimeoutMs()) * time.Millisecond; granted > 0 {
		s.granted = granted
	}
	s.mu.Unlock()
	s.logger.Info("registered", "broker_epoch", resp.GetBrokerEpoch(), "session_timeout", time.Duration(resp.GetSessionTimeoutMs())*time.Millisecond)
	s.update(func(l lifecycle.Life) lifecycle.Life { return l.Registered(resp.GetBrokerEpoch()) })
}

// talk keeps one stream to the active controller until it breaks, the registration is stale, or a newer controller
// was heard of. Only a break is an error. It worked if a heartbeat was answered.
func (s *session) talk(ctx context.Context) (worked bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.controller.OpenSession(ctx)
	if err != nil {
		return false, fmt.Errorf("open a session: %w", err)
	}
	defer func() { _ = stream.Close() }() // it is over either way
	answers := make(chan *controllerv1.SessionResponse)
	broken := make(chan error, 1)
	go func() { broken <- receive(ctx, stream, answers) }()
	d := dialog{s: s, stream: stream}
	err = d.run(ctx, answers, broken)
	return d.answered > 0, err
}

// receive hands over answers until the stream ends.
func receive(ctx context.Context, stream client.Session, answers chan<- *controllerv1.SessionResponse) error {
	for {
		resp, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case answers <- resp:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dialog is the state of one stream.
type dialog struct {
	s      *session
	stream client.Session
	// sequence of the last heartbeat; answered is the last that was answered, when it was sent is in asked.
	sequence, answered int64
	waitingSince       time.Time
	// epoch of the controller that answers, 0 before its first answer.
	controllerEpoch int64
}

func (d *dialog) run(ctx context.Context, answers <-chan *controllerv1.SessionResponse, broken <-chan error) error {
	if d.overtaken() {
		return nil // while the stream was being opened
	}
	if err := d.send(); err != nil {
		return err
	}
	timer := time.NewTimer(d.s.interval())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.s.leaving:
			d.goodbye(answers, broken)
			return nil
		case err := <-broken:
			return fmt.Errorf("session: %w", err)
		case resp := <-answers:
			if over, err := d.take(resp); over || err != nil {
				return err
			}
			timer.Reset(d.s.interval())
			continue
		case <-d.s.poke:
		case <-timer.C:
		}
		if d.overtaken() {
			return nil
		}
		if err := d.send(); err != nil {
			return err
		}
		timer.Reset(d.s.interval())
	}
}

// overtaken tells whether this stream is of no use any more: another lineage has ended the registration that it is about,
// or the metadata knows of a newer claim than the one this stream's controller answered with.
func (d *dialog) overtaken() bool {
	if d.s.now().MustRegister() {
		return true
	}
	return d.controllerEpoch > 0 && d.s.controllerEpoch() > d.controllerEpoch
}

// send sends a heartbeat. A controller that has not answered for half a session may be gone without the stream
// having noticed: another stream finds out.
func (d *dialog) send() error {
	l := d.s.now()
	if l.Epoch < 0 {
		return nil
	}
	now := time.Now()
	if d.sequence > d.answered && now.Sub(d.waitingSince) > d.s.silence() {
		return fmt.Errorf("no answer for %s", now.Sub(d.waitingSince).Round(time.Millisecond))
	}
	if d.sequence == d.answered {
		d.waitingSince = now
	}
	d.sequence++
	says := l.Says()
	err := d.stream.Send(&controllerv1.SessionRequest{
		BrokerId: d.s.nodeID, BrokerEpoch: l.Epoch, MetadataOffset: d.s.applied(),
		WantFence: says.WantFence, WantShutDown: says.WantShutDown, Sequence: d.sequence,
	})
	if err != nil {
		return fmt.Errorf("send a heartbeat: %w", err)
	}
	return nil
}

// silence is how long an answer may take.
func (s *session) silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted / 2
}

// take handles an answer and tells whether the stream is over.
func (d *dialog) take(resp *controllerv1.SessionResponse) (over bool, err error) {
	d.answered = max(d.answered, resp.GetSequence())
	d.waitingSince = time.Now()
	d.controllerEpoch = max(d.controllerEpoch, resp.GetControllerEpoch())
	d.s.heard(d.controllerEpoch)
	switch e := resp.GetError(); e.GetCode() {
	case controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED:
	case controllerv1.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH:
		d.s.logger.Warn("the controller no longer knows this registration; registering again", "error", e.GetMessage())
		d.s.update(lifecycle.Life.Stale)
		return true, nil
	default:
		return true, fmt.Errorf("the controller answers %s: %s", e.GetCode(), e.GetMessage())
	}
	d.s.update(func(l lifecycle.Life) lifecycle.Life { return l.Answered(resp.GetIsFenced(), resp.GetShouldShutDown()) })
	return false, nil
}

// goodbye ends the session at the controller, so that the next process need not wait for it. It may fail: the
// session then ends by itself.
func (d *dialog) goodbye(answers <-chan *controllerv1.SessionResponse, broken <-chan error) {
	d.sequence++
	err := d.stream.Send(&controllerv1.SessionRequest{
		BrokerId: d.s.nodeID, BrokerEpoch: d.s.epoch(), MetadataOffset: d.s.applied(),
		WantFence: true, WantShutDown: true, Goodbye: true, Sequence: d.sequence,
	})
	timeout := time.NewTimer(goodbyeTimeout)
	defer timeout.Stop()
	for err == nil && d.answered < d.sequence {
		select {
		case resp := <-answers:
			d.answered = max(d.answered, resp.GetSequence())
		case err = <-broken:
		case <-timeout.C:
			err = errors.New("not answered in time")
		}
	}
	if err != nil {
		d.s.logger.Debug("no goodbye", "error", err)
	}
}

// pause waits and returns false when ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
