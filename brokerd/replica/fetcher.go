package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/wire"
	"github.com/skiffmq/skiff/fsm"
)

const (
	fetchBytesMax          = 10 << 20 // replica.fetch.response.max.bytes
	fetchPartitionBytesMax = 1 << 20  // replica.fetch.max.bytes
	// fetchGrace is how much longer than the leader may park it a fetch may take.
	fetchGrace = 10 * time.Second
	// fetchBackoffMin and fetchBackoffMax bound the pause after a connection failed. The first is short: a broker
	// that was just elected may need a moment to open its port.
	fetchBackoffMin = 20 * time.Millisecond
	fetchBackoffMax = time.Second
	// registrationPoll is how often a broker that waits to be registered again looks whether it is. No leader takes a
	// fetch that does not say which registration it is of.
	registrationPoll = 20 * time.Millisecond
	// complainInterval is how often the log says that a leader cannot be reached.
	complainInterval = 30 * time.Second
	// partitionBackoff is the pause of one partition after the leader refused it (replica.fetch.backoff.ms is 1 s;
	// most refusals are a leader that has not read the metadata yet, which takes milliseconds).
	partitionBackoff = 50 * time.Millisecond
)

// errInterrupted is returned when a parked fetch was given up because partitions came to the fetcher: they would
// otherwise wait for as long as the leader may park it.
var errInterrupted = errors.New("the fetcher's partitions changed")

// fetcher copies partitions from one leader: one loop, one connection, one request at a time.
type fetcher struct {
	m      *Manager
	leader int32
	cancel context.CancelFunc // set by fetchers

	// wake has room for one: the partitions changed.
	wake chan struct{}

	mu sync.Mutex
	// mu guards the following.
	set map[fsm.PartitionID]*assignment
	// grown is set by add and cleared by update, which counts generations of the set.
	grown      bool
	generation int
	// interrupt gives up the request that is under way; nil if none is.
	interrupt context.CancelCauseFunc

	// loop: owned by run.
	conn    *wire.Conn
	backoff time.Duration
	// complained is when a failure was last logged.
	complained time.Time
}

// assignment is a partition that is copied in a leader epoch.
type assignment struct {
	p           *Partition
	leaderEpoch int32
	notBefore   time.Time // loop: owned by run
}

func newFetcher(m *Manager, leader int32) *fetcher {
	return &fetcher{m: m, leader: leader, wake: make(chan struct{}, 1), set: map[fsm.PartitionID]*assignment{}}
}

func (f *fetcher) add(p *Partition, leaderEpoch int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set[p.id] = &assignment{p: p, leaderEpoch: leaderEpoch}
	f.grown = true
}

func (f *fetcher) remove(id fsm.PartitionID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.set, id)
}

// update wakes the loop if partitions were added, and returns how many there are.
func (f *fetcher) update() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.grown {
		f.grown = false
		f.generation++
		if f.interrupt != nil {
			f.interrupt(errInterrupted)
		}
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
	return len(f.set)
}

func (f *fetcher) run(ctx context.Context) {
	defer f.hangUp()
	for ctx.Err() == nil {
		if f.m.cfg.BrokerEpoch() < 0 {
			pause(ctx, registrationPoll)
			continue
		}
		round := f.due(time.Now())
		if len(round.items) == 0 {
			f.rest(ctx, round.next)
			continue
		}
		switch err := f.copyRound(ctx, round); {
		case err == nil:
			f.backoff = 0
		case errors.Is(err, errInterrupted):
			f.hangUp()
		case ctx.Err() == nil:
			f.hangUp()
			f.failed(ctx, err)
		}
	}
}

// failed waits after a failure of the connection, longer each time.
func (f *fetcher) failed(ctx context.Context, err error) {
	f.m.counters.fetchFail.Add(1)
	if now := time.Now(); now.Sub(f.complained) >= complainInterval {
		f.complained = now
		f.m.logger.Warn("cannot fetch from the leader", "leader", f.leader, "error", err)
	}
	f.backoff = min(max(2*f.backoff, fetchBackoffMin), fetchBackoffMax)
	pause(ctx, f.backoff)
}

// rest waits until partitions come or the next one is due; zero means none will be.
func (f *fetcher) rest(ctx context.Context, next time.Time) {
	var timer <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(time.Until(next))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-f.wake:
	case <-timer:
	case <-ctx.Done():
	}
}

// round is what one request fetches.
type round struct {
	items []fetchItem
	// next is when a partition is due that rests now, zero if none does.
	next time.Time
	// generation of the set that items were taken from.
	generation int
}

// fetchItem is one partition of a request.
type fetchItem struct {
	*assignment
	sent FetchPartition
}

// due lists what to fetch now.
func (f *fetcher) due(now time.Time) round {
	f.mu.Lock()
	r := round{generation: f.generation}
	assigned := make([]*assignment, 0, len(f.set))
	for _, a := range f.set {
		assigned = append(assigned, a)
	}
	f.mu.Unlock()
	for _, a := range assigned {
		if a.notBefore.After(now) {
			if r.next.IsZero() || a.notBefore.Before(r.next) {
				r.next = a.notBefore
			}
			continue
		}
		if pos, err := a.p.position(a.leaderEpoch); err == nil {
			r.items = append(r.items, fetchItem{assignment: a, sent: pos})
		}
	}
	return r
}

// copyRound sends one request and brings its answer into the logs.
func (f *fetcher) copyRound(ctx context.Context, r round) error {
	ctx, done := f.interruptible(ctx, r.generation)
	defer done()
	if err := f.connect(ctx); err != nil {
		return f.cause(ctx, err)
	}
	wait := f.m.cfg.FetchWaitMax
	if !r.next.IsZero() {
		wait = min(wait, max(0, time.Until(r.next)))
	}
	resp, err := f.conn.Request(ctx, f.request(r.items, wait))
	if err != nil {
		return f.cause(ctx, err)
	}
	fetched, ok := resp.(*kmsg.FetchResponse)
	if !ok {
		return fmt.Errorf("fetch from broker %d: answer is a %T", f.leader, resp)
	}
	return f.bring(r.items, fetched)
}

// interruptible derives the context of one request. It is interrupted at once if partitions came since its round was
// made.
func (f *fetcher) interruptible(ctx context.Context, generation int) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, f.m.cfg.FetchWaitMax+fetchGrace)
	ctx, interrupt := context.WithCancelCause(ctx)
	f.mu.Lock()
	f.interrupt = interrupt
	if f.generation != generation {
		interrupt(errInterrupted)
	}
	f.mu.Unlock()
	return ctx, func() {
		f.mu.Lock()
		f.interrupt = nil
		f.mu.Unlock()
		interrupt(nil)
		cancel()
	}
}

// cause prefers the reason why the request was given up to what the connection says of it.
func (f *fetcher) cause(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return errInterrupted
	}
	return fmt.Errorf("fetch from broker %d: %w", f.leader, err)
}

// connect dials the leader where its registration says, unless there is a connection.
func (f *fetcher) connect(ctx context.Context) error {
	if f.conn != nil {
		return nil
	}
	b, ok := f.m.image.Load().Broker(f.leader)
	if !ok {
		return fmt.Errorf("broker %d is not registered", f.leader)
	}
	l, ok := b.Listener(f.m.cfg.Listener)
	if !ok {
		return fmt.Errorf("broker %d has no listener %s", f.leader, f.m.cfg.Listener)
	}
	conn, err := wire.Dial(ctx, l.Address(), wire.Options{ClientID: fmt.Sprintf("broker-%d-fetcher", f.m.cfg.NodeID), Dial: f.m.cfg.Dial, Timeout: f.m.cfg.FetchWaitMax + fetchGrace})
	if err != nil {
		return err
	}
	f.conn = conn
	return nil
}

func (f *fetcher) hangUp() {
	if f.conn != nil {
		f.m.complain("a connection did not close", f.conn.Close())
		f.conn = nil
	}
}

// request writes a Fetch as a replica does: by topic id, with our broker epoch, without a session.
func (f *fetcher) request(items []fetchItem, wait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version = wire.ReplicaFetchVersion
	req.ReplicaState.ID, req.ReplicaState.Epoch = f.m.cfg.NodeID, f.m.cfg.BrokerEpoch()
	// Rounded up: what is left of a rest is less than a millisecond in the end, and must not be spent asking.
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32((wait + time.Millisecond - 1).Milliseconds()), 1, fetchBytesMax
	req.SessionID, req.SessionEpoch = 0, -1
	topics := map[fsm.UUID]int{}
	for _, item := range items {
		i, ok := topics[item.sent.ID.Topic]
		if !ok {
			i = len(req.Topics)
			topics[item.sent.ID.Topic] = i
			t := kmsg.NewFetchRequestTopic()
			t.TopicID = item.sent.ID.Topic
			req.Topics = append(req.Topics, t)
		}
		q := kmsg.NewFetchRequestTopicPartition()
		q.Partition, q.CurrentLeaderEpoch = item.sent.ID.Partition, item.sent.CurrentLeaderEpoch
		q.FetchOffset, q.LogStartOffset = item.sent.Offset, item.sent.LogStartOffset
		q.LastFetchedEpoch, q.PartitionMaxBytes = item.sent.LastFetchedEpoch, fetchPartitionBytesMax
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, q)
	}
	return req
}
