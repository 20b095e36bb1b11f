package replica

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
)

// noLeader is the leader of a partition that has none.
const noLeader int32 = -1

// Partition is one replica: a log, and the role that this broker plays for it.
type Partition struct {
	id    fsm.PartitionID
	topic string
	log   *partlog.Log
	// world gives the view that the pure core judges by.
	world func(topicconfig.Settings) view
	// flusher makes the log durable, batch by batch, where there is no other replica.
	flusher flusher

	// turn holds one token. Whoever changes the role, or the log as a follower, holds it meanwhile; it may be held
	// across disk work, which mu may not. The leader's append does not take it: it appends under mu, as leader.
	turn chan struct{}

	mu sync.Mutex
	// mu guards the following. At most one of leader and follower is set; none while the role changes, after a
	// refused role, and after the partition was closed.
	leader         *leader
	follower       *follower
	leaderID       int32
	leaderEpoch    int32
	partitionEpoch int32
	// high is the high watermark while no role holds it. Invariant (I16): start <= high <= end.
	high     int64
	settings topicconfig.Settings
	waiters  waitList
	// failed is why the partition serves nothing: its log failed, its role was refused, or it was closed.
	failed error
}

// newPartition wraps an open log. The checkpointed high watermark is only a hint: it is brought into the log.
func newPartition(id fsm.PartitionID, topic string, log *partlog.Log, high int64) *Partition {
	high = min(max(high, log.StartOffset()), log.EndOffset())
	p := &Partition{
		id: id, topic: topic, log: log, high: high, turn: make(chan struct{}, 1),
		leaderID: noLeader, leaderEpoch: noEpoch, partitionEpoch: noEpoch,
	}
	p.turn <- struct{}{}
	return p
}

// registration is the partition as the metadata has it.
type registration struct {
	fsm.Partition
	settings topicconfig.Settings
	self     int32
}

func (r registration) committed() committed {
	return committed{replicas: r.Replicas, isr: r.ISR, partitionEpoch: r.PartitionEpoch}
}

// stale tells whether the metadata is older than what this broker already knows, for example from the answer to
// a wish (I19). Called with mu held.
func (p *Partition) stale(r registration) bool {
	return r.LeaderEpoch < p.leaderEpoch || r.PartitionEpoch < p.partitionEpoch
}

// becomeLeader takes the role of the leader, or news of it. It returns ErrLeaderEpochNotAbove when the log has
// seen the leader epoch before (I14); the partition then serves nothing until a later one.
func (p *Partition) becomeLeader(r registration) error {
	<-p.turn
	defer func() { p.turn <- struct{}{} }()
	if !p.vacate(r) {
		p.recommit(r)
		return nil
	}
	if latest, ok := p.log.LatestEpoch(); ok && r.LeaderEpoch <= latest {
		return p.refuse(fmt.Errorf("lead %s in epoch %d, log has epoch %d: %w", p.name(), r.LeaderEpoch, latest, ErrLeaderEpochNotAbove))
	}
	end := p.log.EndOffset()
	if err := p.log.AssignEpoch(r.LeaderEpoch, end); err != nil {
		return p.refuse(fmt.Errorf("lead %s: %w: %w", p.name(), ErrStorage, err))
	}
	if err := p.flusher.reset(p.log, flushesBatches(r)); err != nil {
		return p.refuse(fmt.Errorf("lead %s: %w: %w", p.name(), ErrStorage, err))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = nil
	p.leader = newLeader(r.self, r.LeaderEpoch, r.committed(), end, p.high, p.view().now)
	p.advance()
	p.waiters.wakeAll()
	return nil
}

// becomeFollower takes the role of a follower of r.Leader, which may be -1, or news of it. It tells whether the
// leader epoch is new, so that fetching starts anew.
func (p *Partition) becomeFollower(r registration) (newEpoch bool, err error) {
	<-p.turn
	defer func() { p.turn <- struct{}{} }()
	if !p.vacate(r) {
		p.recommit(r)
		return false, nil
	}
	if latest, ok := p.log.LatestEpoch(); ok && r.LeaderEpoch < latest {
		return false, p.refuse(fmt.Errorf("follow %s in epoch %d, log has epoch %d: %w", p.name(), r.LeaderEpoch, latest, ErrLeaderEpochNotAbove))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = nil
	p.follower = &follower{leaderID: r.Leader, leaderEpoch: r.LeaderEpoch, high: p.high}
	p.waiters.wakeAll()
	return true, nil
}

// vacate leaves the present role if the metadata gives a new leader epoch, and tells whether it did. Nobody
// appends from then on until the next role stands. Within a leader epoch the role never changes.
func (p *Partition) vacate(r registration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stale(r) || r.LeaderEpoch == p.leaderEpoch {
		return false
	}
	p.rest()
	p.leaderID, p.leaderEpoch, p.partitionEpoch, p.settings = r.Leader, r.LeaderEpoch, r.PartitionEpoch, r.settings
	p.waiters.wakeAll()
	return true
}

// forget leaves the role, and with it all that was known of leader epochs: another lineage begins, and what the one
// before it said is no longer so. What the log holds stays.
func (p *Partition) forget() {
	<-p.turn
	defer func() { p.turn <- struct{}{} }()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest()
	p.leaderID, p.leaderEpoch, p.partitionEpoch = noLeader, noEpoch, noEpoch
	p.waiters.wakeAll()
}

// rest leaves the role and keeps its high watermark. Called with mu held.
func (p *Partition) rest() {
	p.high = p.highWatermark()
	p.leader, p.follower = nil, nil
}

// recommit takes a newer partition epoch in the same leader epoch.
func (p *Partition) recommit(r registration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stale(r) {
		return
	}
	newer := r.PartitionEpoch > p.partitionEpoch
	p.partitionEpoch, p.settings = r.PartitionEpoch, r.settings
	if p.leader == nil {
		return
	}
	if newer {
		p.leader.commit(r.committed(), p.view().now)
	}
	if !flushesBatches(r) {
		p.flusher.stop()
	}
	p.leader.localEnd(p.countedEnd())
	p.advance()
}

// refuse leaves the partition without a role; requests are answered with err.
func (p *Partition) refuse(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail(err)
	return err
}

// fail ends the role for good, or until a later leader epoch. Called with mu held.
func (p *Partition) fail(err error) {
	p.rest()
	p.failed = err
	p.waiters.wakeAll()
}

// close ends the role and closes the log; requests are answered with ErrUnknownPartition.
func (p *Partition) close() error {
	<-p.turn
	defer func() { p.turn <- struct{}{} }()
	p.mu.Lock()
	p.fail(fmt.Errorf("%s was closed: %w", p.name(), ErrUnknownPartition))
	p.mu.Unlock()
	if err := p.log.Close(); err != nil {
		return fmt.Errorf("close log of %s: %w", p.name(), err)
	}
	return nil
}

// advance raises the high watermark as far as the leader may and wakes those who wait for it. Called with mu
// held and as leader.
func (p *Partition) advance() {
	if p.leader.advance(p.view()) {
		p.waiters.wake(forHigh)
	}
}

// highWatermark of the role, or of the last one. Called with mu held.
func (p *Partition) highWatermark() int64 {
	switch {
	case p.leader != nil:
		return p.leader.high
	case p.follower != nil:
		return p.follower.high
	default:
		return p.high
	}
}

// checkLeader returns nil if this broker leads in the caller's leader epoch. The epoch is judged before the
// leadership, so that a client with old metadata learns that its metadata is old. Called with mu held.
func (p *Partition) checkLeader(currentLeaderEpoch int32) error {
	switch {
	case currentLeaderEpoch != noEpoch && currentLeaderEpoch < p.leaderEpoch:
		return fmt.Errorf("%s: leader epoch %d, here %d: %w", p.name(), currentLeaderEpoch, p.leaderEpoch, ErrFencedLeaderEpoch)
	case currentLeaderEpoch != noEpoch && currentLeaderEpoch > p.leaderEpoch:
		return fmt.Errorf("%s: leader epoch %d, here %d: %w", p.name(), currentLeaderEpoch, p.leaderEpoch, ErrUnknownLeaderEpoch)
	case p.failed != nil && !errors.Is(p.failed, ErrLeaderEpochNotAbove):
		return p.failed
	case p.leader == nil:
		return fmt.Errorf("%s: leader is %d: %w", p.name(), p.leaderID, ErrNotLeaderOrFollower)
	}
	return nil
}

// reconsider judges the high watermark anew: who may join the ISR, or min.insync.replicas, changed.
func (p *Partition) reconsider() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader != nil {
		p.advance()
	}
}

// configure takes the topic's new configs.
func (p *Partition) configure(s topicconfig.Settings) {
	p.log.SetSegmentBytes(int64(s.SegmentBytes))
	p.mu.Lock()
	p.settings = s
	p.mu.Unlock()
	p.reconsider()
}

// shrink wishes members out of the ISR that are late.
func (p *Partition) shrink() (wish, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader == nil {
		return wish{}, false
	}
	p.leader.localEnd(p.countedEnd())
	return p.leader.maybeShrink(p.view())
}

// countedEnd is how far our own log counts for the high watermark. Called with mu held.
func (p *Partition) countedEnd() int64 {
	if durable, only := p.flusher.durable(); only {
		return durable
	}
	return p.log.EndOffset()
}

// wished tells whether w is still what this partition waits for.
func (p *Partition) wished(w wish) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leader != nil && p.leader.waitsFor(w)
}

// granted takes the controller's answer to a wish: the partition as committed. Older news than ours is ignored.
func (p *Partition) granted(w wish, isr []int32, leaderEpoch, partitionEpoch int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader == nil || leaderEpoch != p.leaderEpoch || partitionEpoch < p.partitionEpoch {
		return
	}
	if partitionEpoch == p.partitionEpoch {
		p.leader.refused(w) // nothing changed: the ISR was already so
		return
	}
	p.partitionEpoch = partitionEpoch
	p.leader.commit(committed{replicas: slices.Clone(p.leader.replicas), isr: isr, partitionEpoch: partitionEpoch}, p.view().now)
	p.advance()
}

// denied drops a wish that the controller refused for good.
func (p *Partition) denied(w wish) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader != nil {
		p.leader.refused(w)
		p.advance()
	}
}

// view of the world at this moment. Called with mu held.
func (p *Partition) view() view { return p.world(p.settings) }

func (p *Partition) name() string { return fmt.Sprintf("%s-%d", p.topic, p.id.Partition) }

// flushesBatches tells whether an append is flushed before it is answered: where no other replica has it.
func flushesBatches(r registration) bool { return len(r.Replicas) == 1 }
