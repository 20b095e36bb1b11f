package active

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// modelLog is a Log that commits in order after a while, as the only node of its quorum does.
type modelLog struct {
	t       *testing.T
	loop    *Loop
	latency time.Duration
	queue   chan func()

	// mu guards the following.
	mu   sync.Mutex
	img  *fsm.Image
	term uint64
	// hang keeps answers back for ever.
	hang bool
}

func (m *modelLog) image() *fsm.Image {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.img
}

func (m *modelLog) setHang(hang bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hang = hang
}

// Propose queues the entry for the goroutine that folds.
func (m *modelLog) Propose(data []byte, _ time.Duration) <-chan Answer {
	answer := make(chan Answer, 1)
	m.queue <- func() {
		time.Sleep(m.latency)
		m.mu.Lock()
		hang := m.hang
		m.mu.Unlock()
		if !hang {
			answer <- Answer{Result: m.fold(data)}
		}
	}
	return answer
}

func (m *modelLog) fold(data []byte) fsm.Result {
	env, err := fsm.DecodeEnvelope(data)
	if err != nil {
		m.t.Error(err)
	}
	m.mu.Lock()
	res := fsm.Apply(m.img, fsm.Entry{Envelope: env, ControllerEpoch: m.img.EpochBase() + int64(m.term)})
	m.img = res.Image
	m.mu.Unlock()
	if res.Outcome == fsm.Broken || res.Alarm != nil {
		m.t.Errorf("entry: %v, %v", res.Err, res.Alarm)
	}
	m.loop.Observe(res, env)
	return res
}

// inLoop runs a test with a loop that leads in term 1, in a bubble.
func inLoop(t *testing.T, mutate func(*Config), test func(t *testing.T, l *Loop, m *modelLog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &modelLog{t: t, img: genesis(t), term: 1, latency: time.Millisecond, queue: make(chan func(), 1000)}
		rnd := rand.New(rand.NewPCG(3, 4))
		cfg := Config{
			NodeID: 101, DirectoryID: fsm.UUID{3}, IncarnationID: fsm.UUID{4}, Log: m, Image: m.image,
			Env: func() *controller.Env {
				return &controller.Env{Now: time.Now(), Rand: rnd, Limits: controller.DefaultLimits(), Defaults: controller.KafkaDefaults()}
			},
		}
		if mutate != nil {
			mutate(&cfg)
		}
		l := New(cfg)
		m.loop = l
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for {
				select {
				case f := <-m.queue:
					f()
				case <-ctx.Done():
					return
				}
			}
		})
		l.Leadership(true, 1)
		test(t, l, m)
		cancel()
		wg.Wait()
	})
}

func TestDoAnswersWithTheOffset(t *testing.T) {
	inLoop(t, nil, func(t *testing.T, l *Loop, m *modelLog) {
		reply, offset, err := Do(t.Context(), l, put, "a", nil, fsm.UUID{})
		if err != nil || reply != "put a" || offset != m.image().AppliedOffset() {
			t.Fatalf("%q, %d, %v", reply, offset, err)
		}
		if !l.Active() || l.Status().Phase != Open {
			t.Fatal("not active")
		}
		img, err := l.Barrier(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := img.ConfigValue(brokerDefaults, "a"); !ok {
			t.Fatal("the barrier's image misses what was committed before")
		}
	})
}

// A decision that takes a minute must not cost a broker its session: heartbeats count when they arrive. The grace after
// a stall is switched off, so that nothing but the stamps can keep the sessions alive.
func TestDecisionOfAMinuteLeavesAHundredSessionsAlive(t *testing.T) {
	inLoop(t, nil, func(t *testing.T, l *Loop, m *modelLog) {
		l.core.stallMax = time.Hour
		const brokers, silent = 100, 100
		epochs := make([]int64, brokers+1)
		for id := range int32(brokers + 1) {
			epochs[id] = unfenced(t, l, m, id)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for id := range int32(brokers) {
			wg.Go(func() { // the session's goroutine
				for ctx.Err() == nil {
					l.Sessions().Touch(id, epochs[id], m.image().AppliedOffset())
					select {
					case <-ctx.Done():
					case <-time.After(1500 * time.Millisecond):
					}
				}
			})
		}
		blocked := func(*fsm.Image, *controller.Env, int) controller.Decision[int] {
			time.Sleep(time.Minute)
			return controller.Decision[int]{Reply: 1}
		}
		if _, _, err := Do(t.Context(), l, blocked, 0, nil, fsm.UUID{}); err == nil {
			t.Log("answered within its time")
		}
		time.Sleep(3 * time.Second) // ticks run
		img := m.image()
		for id := range int32(brokers) {
			if b, _ := img.Broker(id); b.Fenced {
				t.Fatalf("broker %d lost its session behind a decision", id)
			}
		}
		if b, _ := img.Broker(silent); !b.Fenced {
			t.Fatal("the silent broker is not fenced: the test proves nothing")
		}
		cancel()
		wg.Wait()
	})
}

// unfenced registers a broker and unfences it; it returns its epoch.
func unfenced(t *testing.T, l *Loop, m *modelLog, id int32) int64 {
	t.Helper()
	reg, _, err := Do(t.Context(), l, controller.RegisterBroker, &controllerv1.RegisterRequest{
		BrokerId: id, IncarnationId: fsm.UUID{byte(id), 1}.Bytes(), PreviousBrokerEpoch: -1,
		Directories: [][]byte{fsm.UUID{byte(id), 2}.Bytes()},
		Listeners:   []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "localhost", Port: 9092}},
	}, nil, fsm.UUID{})
	if err != nil {
		t.Fatal(err)
	}
	l.Sessions().Touch(id, reg.GetBrokerEpoch(), m.image().AppliedOffset())
	beat := &controllerv1.SessionRequest{BrokerId: id, BrokerEpoch: reg.GetBrokerEpoch(), MetadataOffset: m.image().AppliedOffset()}
	if _, _, err := Do(t.Context(), l, controller.Heartbeat, beat, nil, fsm.UUID{}); err != nil {
		t.Fatal(err)
	}
	return reg.GetBrokerEpoch()
}

func TestCallersReturnByTheirDeadlineWhateverTheLogDoes(t *testing.T) {
	inLoop(t, nil, func(t *testing.T, l *Loop, m *modelLog) {
		if _, _, err := Do(t.Context(), l, put, "a", nil, fsm.UUID{}); err != nil {
			t.Fatal(err)
		}
		m.setHang(true)
		var wg sync.WaitGroup
		begin := time.Now()
		for i := range 64 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				_, _, err := Do(ctx, l, put, fmt.Sprintf("k%d", i), nil, fsm.UUID{})
				if !IsRefused(err, unknown) && !IsRefused(err, controllerv1.ErrorCode_ERROR_CODE_OVERLOADED) {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begin); took != 2*time.Second {
			t.Fatalf("callers returned after %s", took)
		}
		m.setHang(false)
		// The loop notices by itself that the entry will not be answered, and claims anew.
		time.Sleep(DefaultProposeTimeout + 2*answerGrace)
		if _, _, err := Do(t.Context(), l, put, "b", nil, fsm.UUID{}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestShutdownWith64CallersInFlight(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			m := &modelLog{t: t, img: genesis(t), term: 1, latency: time.Millisecond, queue: make(chan func(), 1000)}
			rnd := rand.New(rand.NewPCG(3, 4))
			l := New(Config{DirectoryID: fsm.UUID{3}, IncarnationID: fsm.UUID{4}, Log: m, Image: m.image, Depth: 3, Env: func() *controller.Env {
				return &controller.Env{Now: time.Now(), Rand: rnd, Limits: controller.DefaultLimits()}
			}})
			m.loop = l
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { _ = l.Run(ctx) })
			wg.Go(func() {
				for {
					select {
					case f := <-m.queue:
						f()
					case <-ctx.Done():
						return
					}
				}
			})
			l.Leadership(true, 1)
			begin := time.Now()
			for i := range 64 {
				wg.Go(func() {
					for j := 0; ; j++ {
						ctx, cancel := context.WithTimeout(context.Background(), time.Second)
						_, _, err := Do(ctx, l, put, fmt.Sprintf("k%d-%d", i, j), nil, fsm.UUID{})
						cancel()
						var r *controller.Refusal
						if err != nil && !errors.As(err, &r) {
							t.Errorf("got %v", err)
						}
						if err != nil {
							return
						}
					}
				})
			}
			time.Sleep(time.Duration(rand.N(20)) * time.Millisecond / 3)
			cancel()
			wg.Wait()
			if took := time.Since(begin); took > 50*time.Millisecond {
				t.Fatalf("callers hung for %s", took)
			}
			if _, _, err := Do(context.Background(), l, put, "after", nil, fsm.UUID{}); !IsRefused(err, tryAgain) {
				t.Fatalf("after the end: %v", err)
			}
		})
	}
}

func TestQueueIsBounded(t *testing.T) {
	inLoop(t, nil, func(t *testing.T, l *Loop, m *modelLog) {
		blocked := func(*fsm.Image, *controller.Env, int) controller.Decision[int] {
			time.Sleep(10 * time.Second)
			return controller.Decision[int]{}
		}
		var wg sync.WaitGroup
		wg.Go(func() { _, _, _ = Do(t.Context(), l, blocked, 0, nil, fsm.UUID{}) })
		time.Sleep(time.Second)
		var mu sync.Mutex
		outcomes := map[controllerv1.ErrorCode]int{}
		for i := range MaxQueuedOps - 1 + 100 { // the one being decided counts, too
			wg.Go(func() {
				_, _, err := Do(t.Context(), l, put, fmt.Sprintf("k%d", i%100), nil, fsm.UUID{})
				code := done
				var r *controller.Refusal
				if errors.As(err, &r) {
					code = r.Code
				}
				mu.Lock()
				defer mu.Unlock()
				outcomes[code]++
			})
		}
		wg.Wait()
		if got := outcomes[controllerv1.ErrorCode_ERROR_CODE_OVERLOADED]; got != 100 {
			t.Fatalf("%d were refused as too many, want 100: %v", got, outcomes)
		}
		if outcomes[done] != 100 || outcomes[exists] != MaxQueuedOps-1-100 {
			t.Fatalf("outcomes %v", outcomes)
		}
	})
}

func TestMailboxIsBoundedWhileTheLoopIsBusy(t *testing.T) {
	m := mailbox{wake: make(chan struct{}, 1)}
	for i := range 1000 {
		m.post(LeadershipHint{Leading: i%2 == 1, Term: uint64(i)})
		m.post(Observed{Claim: true, Applied: true, ClaimOffset: int64(i)})
	}
	events := m.take()
	if len(events) != 3 {
		t.Fatalf("%d events: %v", len(events), events)
	}
	if events[0] != (LeadershipHint{Term: 999}) || events[1] != (LeadershipHint{Leading: true, Term: 999}) {
		t.Fatalf("the hints became %v", events[:2])
	}
}

func TestSessionsStampOnArrival(t *testing.T) {
	now := time.UnixMilli(1000)
	woken := 0
	s := newSessions(func() time.Time { return now }, func() { woken++ })
	s.Touch(2, 7, 50)
	now = now.Add(time.Second)
	s.Touch(1, 5, 60)
	s.Touch(2, 6, 70) // an older incarnation
	now = now.Add(time.Minute)
	got, _ := s.drain()
	want := []Contact{{1, 5, 60, time.UnixMilli(2000)}, {2, 7, 50, time.UnixMilli(1000)}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Fatalf("got %v, want %v", got, want)
	}
	s.Closed(3, 9)
	s.Closed(3, 9)
	contacts, closings := s.drain()
	if len(contacts) != 0 || woken != 2 || len(closings) != 1 || closings[0] != (Closing{3, 9, now}) {
		t.Fatalf("then %v and %v, woken %d times", contacts, closings, woken)
	}
	if _, closings = s.drain(); len(closings) != 0 {
		t.Fatal("closings are reported twice")
	}
}
