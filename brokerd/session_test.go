package brokerd

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/brokerd/lifecycle"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// desk is a controller as a session sees it.
type desk struct {
	// registers and opened count.
	registers, opened atomic.Int64
	// known is the controller epoch that the metadata tells.
	known atomic.Int64
	// register answers a registration; nil grants epoch 7 and a session of 6 s.
	register func(n int64) (*controllerv1.RegisterResponse, error)
	// answer answers a heartbeat on the n-th stream; nil is no answer.
	answer func(stream int64, req *controllerv1.SessionRequest) *controllerv1.SessionResponse
	heard  chan *controllerv1.SessionRequest
	// opening is called while a session is being opened, if it is set.
	opening func()
}

func (d *desk) Register(context.Context, *controllerv1.RegisterRequest) (*controllerv1.RegisterResponse, error) {
	n := d.registers.Add(1)
	if d.register != nil {
		return d.register(n)
	}
	return &controllerv1.RegisterResponse{BrokerEpoch: 6 + n, SessionTimeoutMs: 6000}, nil
}

func (d *desk) OpenSession(ctx context.Context) (client.Session, error) {
	if d.opening != nil {
		d.opening()
	}
	return &deskStream{desk: d, ctx: ctx, n: d.opened.Add(1), out: make(chan *controllerv1.SessionResponse, 100)}, nil
}

type deskStream struct {
	desk *desk
	ctx  context.Context //nolint:containedctx // the life of the stream, as gRPC's streams have it
	n    int64
	out  chan *controllerv1.SessionResponse
}

func (s *deskStream) Send(req *controllerv1.SessionRequest) error {
	select {
	case s.desk.heard <- req:
	default:
	}
	resp := &controllerv1.SessionResponse{IsCaughtUp: true, ControllerEpoch: 1}
	if s.desk.answer != nil {
		resp = s.desk.answer(s.n, req)
	}
	if resp != nil {
		resp.Sequence = req.GetSequence()
		s.out <- resp
	}
	return nil
}

func (s *deskStream) Recv() (*controllerv1.SessionResponse, error) {
	select {
	case resp := <-s.out:
		return resp, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *deskStream) Close() error { return nil }

// converse runs a session with the desk until the test is through with it.
func converse(t *testing.T, d *desk, during func(*session)) error {
	t.Helper()
	d.heard = make(chan *controllerv1.SessionRequest, 1000)
	s := &session{
		controller: d, nodeID: 1, logger: hclog.NewNullLogger(), applied: func() int64 { return 5 }, controllerEpoch: d.known.Load,
		registration: func(context.Context) (*controllerv1.RegisterRequest, error) {
			return &controllerv1.RegisterRequest{}, nil
		},
		patience: 10 * time.Second, poke: make(chan struct{}, 1), stopped: make(chan struct{}), leaving: make(chan struct{}),
		life: lifecycle.New(), granted: defaultSessionTimeout, news: func() {},
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	during(s)
	cancel()
	return <-done
}

func TestHeartbeatsComeSixTimesASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		err := converse(t, d, func(*session) { time.Sleep(60 * time.Second) })
		if n := len(d.heard); err != nil || n < 58 || n > 63 {
			t.Fatalf("%d heartbeats in ten sessions, %v", n, err)
		}
		if d.opened.Load() != 1 || d.registers.Load() != 1 {
			t.Fatalf("%d streams, %d registrations", d.opened.Load(), d.registers.Load())
		}
	})
}

func TestAStaleRegistrationIsRenewedOnANewStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{answer: func(_ int64, req *controllerv1.SessionRequest) *controllerv1.SessionResponse {
			if req.GetBrokerEpoch() == 7 {
				return &controllerv1.SessionResponse{Error: &controllerv1.Error{Code: controllerv1.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH}}
			}
			return &controllerv1.SessionResponse{}
		}}
		var epoch int64
		if err := converse(t, d, func(s *session) { time.Sleep(time.Second); epoch = s.epoch() }); err != nil {
			t.Fatal(err)
		}
		if epoch != 8 || d.registers.Load() != 2 {
			t.Fatalf("broker epoch %d after %d registrations", epoch, d.registers.Load())
		}
	})
}

// TestARegistrationThatAnotherLineageEndedIsRenewed while a stream is open, and while one is being opened.
func TestARegistrationThatAnotherLineageEndedIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		err := converse(t, d, func(s *session) {
			time.Sleep(200 * time.Millisecond)
			s.update(lifecycle.Life.Stale)
			time.Sleep(100 * time.Millisecond)
			if s.epoch() != 8 {
				t.Errorf("broker epoch %d after a stream that was open", s.epoch())
			}
			d.opening = func() {
				d.opening = nil
				s.update(lifecycle.Life.Stale)
			}
			s.update(lifecycle.Life.Stale)
			time.Sleep(100 * time.Millisecond)
			if s.epoch() != 10 {
				t.Errorf("broker epoch %d after one that was being opened", s.epoch())
			}
		})
		if err != nil || d.registers.Load() != 4 {
			t.Fatalf("%d registrations, %v", d.registers.Load(), err)
		}
	})
}

func TestASilentControllerIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{answer: func(stream int64, _ *controllerv1.SessionRequest) *controllerv1.SessionResponse {
			if stream == 1 {
				return nil
			}
			return &controllerv1.SessionResponse{}
		}}
		if err := converse(t, d, func(*session) { time.Sleep(5500 * time.Millisecond) }); err != nil {
			t.Fatal(err)
		}
		if d.opened.Load() != 2 {
			t.Fatalf("%d streams after most of a session without an answer", d.opened.Load())
		}
	})
}

func TestANewClaimIsHeardAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{answer: func(stream int64, _ *controllerv1.SessionRequest) *controllerv1.SessionResponse {
			return &controllerv1.SessionResponse{ControllerEpoch: stream}
		}}
		err := converse(t, d, func(s *session) {
			time.Sleep(500 * time.Millisecond)
			d.known.Store(2) // the metadata tells of a newer claim
			s.nudge()
			time.Sleep(100 * time.Millisecond)
		})
		if err != nil || d.opened.Load() != 2 {
			t.Fatalf("%d streams, %v", d.opened.Load(), err)
		}
	})
}

func TestGoodbyeIsTheLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		err := converse(t, d, func(s *session) {
			time.Sleep(time.Second)
			close(s.leaving)
			time.Sleep(time.Second)
		})
		if err != nil {
			t.Fatal(err)
		}
		var last *controllerv1.SessionRequest
		for len(d.heard) > 0 {
			last = <-d.heard
		}
		if !last.GetGoodbye() || last.GetBrokerEpoch() != 7 {
			t.Fatalf("the last word is %v", last)
		}
	})
}

func TestRefusedRegistrations(t *testing.T) {
	cases := []struct {
		name  string
		code  controllerv1.ErrorCode
		final bool
		want  string
	}{
		{"another holder of the id", controllerv1.ErrorCode_ERROR_CODE_DUPLICATE_BROKER_REGISTRATION, true, "broker id 1 is alive elsewhere"},
		{"another cluster", controllerv1.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID, true, "INCONSISTENT_CLUSTER_ID"},
		{"a bad registration", controllerv1.ErrorCode_ERROR_CODE_INVALID_REGISTRATION, true, "the controller refuses broker 1"},
		{"no controller yet", controllerv1.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, false, ""},
		{"outcome unknown", controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN, false, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &desk{register: func(int64) (*controllerv1.RegisterResponse, error) {
					return nil, &client.Error{Code: c.code, Message: "because"}
				}}
				err := converse(t, d, func(*session) { time.Sleep(30 * time.Second) })
				var refused *RefusedError
				if errors.As(err, &refused) != c.final {
					t.Fatalf("ended with %v", err)
				}
				if c.final && (!strings.Contains(refused.Cause, c.want) || refused.Fix == "") {
					t.Fatalf("cause %q, fix %q", refused.Cause, refused.Fix)
				}
			})
		})
	}
}

func TestAHolderThatDiesGivesTheIDUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{register: func(n int64) (*controllerv1.RegisterResponse, error) {
			if n < 10 {
				return nil, &client.Error{Code: controllerv1.ErrorCode_ERROR_CODE_DUPLICATE_BROKER_REGISTRATION, Message: "alive"}
			}
			return &controllerv1.RegisterResponse{BrokerEpoch: 7, SessionTimeoutMs: 6000}, nil
		}}
		epoch := int64(-1)
		if err := converse(t, d, func(s *session) { time.Sleep(9 * time.Second); epoch = s.epoch() }); err != nil || epoch != 7 {
			t.Fatalf("epoch %d, %v", epoch, err)
		}
	})
}
