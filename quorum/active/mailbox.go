package active

import (
	"errors"
	"sync"
)

var (
	errFull   = errors.New("mailbox is full")
	errClosed = errors.New("mailbox is closed")
)

// mailbox brings events to the goroutine of Loop.Run. Nobody waits to put one in.
//
// It is bounded (I20) although post refuses nothing: requests are counted; answers and deadlines belong to requests and
// entries in flight, which are, and so are probes; hints and observed claims replace each other; observed entries are
// those of the one claim that is open here, of which Depth are in flight.
type mailbox struct {
	// wake holds one token while there may be events.
	wake chan struct{}

	// mu guards the following.
	mu     sync.Mutex
	events []Event
	// ops and bytes count the requests in events, queued and queuedBytes those that the Core has and did not decide.
	ops, bytes          int
	queued, queuedBytes int
	// hint is the latest, nil if there is none; lost tells that one of those since take was "not leading".
	hint *LeadershipHint
	lost bool
	// brokers tells that brokers changed since take.
	brokers bool
	closed  bool
}

// submit puts a request in, or returns errFull or errClosed.
func (m *mailbox) submit(op *Op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return errClosed
	case m.ops+m.queued >= MaxQueuedOps, m.bytes+m.queuedBytes+op.size > MaxQueuedBytes:
		return errFull
	}
	m.ops++
	m.bytes += op.size
	m.events = append(m.events, Submitted{op})
	m.signal()
	return nil
}

// post puts another event in.
func (m *mailbox) post(ev Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if !m.merge(ev) {
		m.events = append(m.events, ev)
	}
	m.signal()
}

// merge adds ev to what is there where nothing is lost by it.
func (m *mailbox) merge(ev Event) bool {
	if hint, ok := ev.(LeadershipHint); ok {
		m.lost = m.lost || !hint.Leading
		m.hint = &hint
		return true
	}
	if len(m.events) == 0 {
		return false
	}
	last := &m.events[len(m.events)-1]
	switch ev := ev.(type) {
	case Restored:
		_, same := (*last).(Restored)
		return same
	case Observed:
		// A later claim says all that an earlier one did.
		before, ok := (*last).(Observed)
		if ok && before.Claim && before.Applied && ev.Claim && ev.Applied {
			*last = ev
			return true
		}
	}
	return false
}

// brokersChanged puts in one BrokersChanged, however often it is called.
func (m *mailbox) brokersChanged() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.brokers = true
	m.signal()
}

func (m *mailbox) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take empties the mailbox.
func (m *mailbox) take() []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	events := append(m.hints(), m.events...)
	if m.brokers {
		events = append(events, BrokersChanged{})
	}
	m.events, m.hint, m.lost, m.brokers = nil, nil, false, false
	m.queued += m.ops // until setQueued knows better
	m.queuedBytes += m.bytes
	m.ops, m.bytes = 0, 0
	return events
}

// hints returns the hints that say what all of them did. They come before everything else: to lose a claim early is
// always safe.
func (m *mailbox) hints() []Event {
	var events []Event
	if m.lost && m.hint.Leading {
		events = append(events, LeadershipHint{Term: m.hint.Term})
	}
	if m.hint != nil {
		events = append(events, *m.hint)
	}
	return events
}

// setQueued says how many requests wait in the Core.
func (m *mailbox) setQueued(ops, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queued, m.queuedBytes = ops, bytes
}

// close refuses what comes from now on, and returns what is left.
func (m *mailbox) close() []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	events := m.events
	m.events = nil
	return events
}
