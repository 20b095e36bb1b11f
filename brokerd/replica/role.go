package replica

import (
	"fmt"
	"slices"
	"time"
)

// noEpoch stands for a broker epoch or leader epoch that is not known, as in Kafka's protocol.
const noEpoch = -1

// view is what a leader must know of the world to judge its followers. Callers build one for each call, so
// that the role itself has neither clock nor metadata.
type view struct {
	now time.Time
	lag time.Duration // replica.lag.time.max.ms
	// minISR is min.insync.replicas as configured; see leader.effectiveMinISR.
	minISR int
	// member tells the registered broker epoch of a broker and whether it is unfenced and not shutting down.
	member func(broker int32) (brokerEpoch int64, active bool)
}

// progress is what a leader knows of one follower in its leader epoch, from the follower's fetches alone.
type progress struct {
	end         int64     // its log end offset; -1 until it fetched in this leader epoch
	start       int64     // its log start offset; -1 until it fetched
	brokerEpoch int64     // carried in its last fetch; noEpoch until then
	caughtUp    time.Time // the last moment at which it had everything we had; zero if never
	fetched     time.Time // its last fetch
	leaderEnd   int64     // our log end offset at its last fetch
}

// note records a fetch at offset. A follower that reaches what was our end at its previous fetch was caught up
// at that previous fetch: under steady writes it would otherwise never be seen caught up (Kafka's Replica).
func (p *progress) note(f followerFetch, leaderEnd int64, now time.Time) {
	switch {
	case f.offset >= leaderEnd:
		p.caughtUp = later(p.caughtUp, now)
	case f.offset >= p.leaderEnd && !p.fetched.IsZero():
		p.caughtUp = later(p.caughtUp, p.fetched)
	}
	p.end, p.start, p.brokerEpoch = f.offset, f.logStart, f.brokerEpoch
	p.fetched, p.leaderEnd = now, leaderEnd
}

// inTime tells whether the follower is or lately was caught up.
func (p *progress) inTime(leaderEnd int64, v view) bool {
	return p.end == leaderEnd || (!p.caughtUp.IsZero() && v.now.Sub(p.caughtUp) <= v.lag)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// committed is a partition as the metadata has it, as far as its leader cares.
type committed struct {
	replicas, isr  []int32
	partitionEpoch int32
}

// leader is the state of a partition's leader in one leader epoch (I14). It is pure: no clock, lock or I/O.
// The shell around it, Partition, guards it with its mutex.
type leader struct {
	self        int32
	leaderEpoch int32
	// epochStart is the log end offset at which this leader epoch began.
	epochStart int64
	replicas   []int32
	isr        isrState
	// followers has an entry for each replica but self.
	followers map[int32]*progress
	// end is the offset below which this broker's own records count: its log end offset, or, where each batch
	// is flushed before it is answered, the end of what is flushed.
	end int64
	// high is the high watermark. Invariant (I12): at most the end of every member of isr.maximal; never falls.
	high int64
}

// newLeader starts a leader epoch at the log end offset end. Nothing is known of the followers' logs yet; those
// in the ISR get a full lag window before they can be wished out.
func newLeader(self, leaderEpoch int32, c committed, end, high int64, now time.Time) *leader {
	l := &leader{self: self, leaderEpoch: leaderEpoch, epochStart: end, end: end, high: high, followers: map[int32]*progress{}}
	l.commit(c, now)
	return l
}

// commit takes a committed state of the partition in the same leader epoch. A wish that was out dies: it was
// based on an older partition epoch.
func (l *leader) commit(c committed, now time.Time) {
	wasISR := l.isr
	l.isr = committedISR(c.isr, c.partitionEpoch)
	l.replicas = slices.Clone(c.replicas)
	for _, id := range l.replicas {
		if id == l.self {
			continue
		}
		p, known := l.followers[id]
		if !known {
			p = &progress{end: -1, start: -1, brokerEpoch: noEpoch, leaderEnd: -1}
			l.followers[id] = p
		}
		if l.isr.has(id) && !wasISR.has(id) {
			p.caughtUp = later(p.caughtUp, now)
		}
	}
	for id := range l.followers {
		if !slices.Contains(l.replicas, id) {
			delete(l.followers, id)
		}
	}
}

// followerFetch is the part of a follower's Fetch that tells its state.
type followerFetch struct {
	broker      int32
	brokerEpoch int64 // noEpoch from a broker that is not registered
	offset      int64 // its log end offset
	logStart    int64
}

// fetched takes note of a follower's fetch. It refuses a broker that is no replica, and a fetch of an earlier
// incarnation than one already seen (I19): an old process's request must not count for the new one. Unlike Kafka
// (KIP-903) it also refuses a fetch without a broker epoch, which could be of any incarnation: every follower sends one.
func (l *leader) fetched(f followerFetch, v view) error {
	p, ok := l.followers[f.broker]
	if !ok {
		return fmt.Errorf("broker %d is not a replica: %w", f.broker, ErrNotLeaderOrFollower)
	}
	if f.brokerEpoch == noEpoch {
		return fmt.Errorf("broker %d fetches before it is registered: %w", f.broker, ErrNotLeaderOrFollower)
	}
	if p.brokerEpoch > f.brokerEpoch {
		return fmt.Errorf("broker %d fetches with broker epoch %d after %d: %w", f.broker, f.brokerEpoch, p.brokerEpoch, ErrNotLeaderOrFollower)
	}
	p.note(f, l.end, v.now)
	return nil
}

// wish is an ISR that the leader asks the controller for (Kafka's AlterPartition).
type wish struct {
	leaderEpoch, partitionEpoch int32
	isr                         []wishMember
	// grows tells whether a follower joins; otherwise members leave.
	grows bool
}

// wishMember is a broker with the broker epoch under which it fetched, noEpoch if it did not yet.
type wishMember struct {
	broker      int32
	brokerEpoch int64
}

// eligible tells whether the metadata lets a follower join the ISR: active, and the broker epoch in its fetches
// is the registered one, so that a process that lost its log cannot be counted for what its predecessor had.
func (l *leader) eligible(id int32, v view) bool {
	registered, active := v.member(id)
	seen := l.followers[id].brokerEpoch
	return active && (seen == noEpoch || seen == registered)
}

// maybeExpand wishes a follower into the ISR if it is not in it, may be, and has every record below the high
// watermark and the start of this leader epoch.
func (l *leader) maybeExpand(id int32, v view) (wish, bool) {
	p, ok := l.followers[id]
	if !ok || l.isr.pending() || l.isr.has(id) {
		return wish{}, false
	}
	if p.end < l.high || p.end < l.epochStart || !l.eligible(id, v) {
		return wish{}, false
	}
	l.isr = l.isr.expand(id)
	return l.wishNow(), true
}

// maybeShrink wishes out every member that has not been caught up for the lag time.
func (l *leader) maybeShrink(v view) (wish, bool) {
	if l.isr.pending() {
		return wish{}, false
	}
	var out []int32
	for _, id := range l.isr.committed {
		if p, ok := l.followers[id]; ok && !p.inTime(l.end, v) {
			out = append(out, id)
		}
	}
	if len(out) == 0 {
		return wish{}, false
	}
	l.isr = l.isr.shrink(out)
	return l.wishNow(), true
}

// wishNow writes the wish that is out.
func (l *leader) wishNow() wish {
	w := wish{leaderEpoch: l.leaderEpoch, partitionEpoch: l.isr.partitionEpoch, grows: l.isr.phase == isrPendingExpand}
	for _, id := range l.isr.wished {
		m := wishMember{broker: id, brokerEpoch: noEpoch}
		if p, ok := l.followers[id]; ok {
			m.brokerEpoch = p.brokerEpoch
		}
		w.isr = append(w.isr, m)
	}
	return w
}

// waitsFor tells whether w is the wish that is out.
func (l *leader) waitsFor(w wish) bool {
	return l.isr.pending() && l.isr.partitionEpoch == w.partitionEpoch && l.leaderEpoch == w.leaderEpoch
}

// refused drops the wish w if it is still the one that is out.
func (l *leader) refused(w wish) {
	if l.waitsFor(w) {
		l.isr = l.isr.revert()
	}
}

// follower is the state of a replica that copies another broker's log, or waits for a leader.
type follower struct {
	// leaderID is the broker to copy, or -1 while the partition has none.
	leaderID    int32
	leaderEpoch int32
	// high is what the leader said of its high watermark, as far as our log goes. Never falls in a leader epoch
	// but for truncation, which the leader's epoch history demands (I12, I17).
	high int64
}

// heard takes the leader's high watermark from a fetch after which our log ends at end.
func (f *follower) heard(leaderHigh, end int64) bool {
	high := min(leaderHigh, end)
	if high <= f.high {
		return false
	}
	f.high = high
	return true
}

// truncated tells that the log now ends at end.
func (f *follower) truncated(end int64) { f.high = min(f.high, end) }
