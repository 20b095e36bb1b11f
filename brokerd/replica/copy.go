package replica

import (
	"errors"
	"fmt"

	"github.com/skiffmq/skiff/brokerd/partlog"
)

// errNotFollowing is returned when the role changed while a fetch was under way: its answer means nothing now.
var errNotFollowing = errors.New("no longer following in that leader epoch")

// position tells what to fetch next in a leader epoch.
func (p *Partition) position(leaderEpoch int32) (FetchPartition, error) {
	if err := p.following(leaderEpoch); err != nil {
		return FetchPartition{}, err
	}
	f := FetchPartition{
		ID: p.id, Offset: p.log.EndOffset(), LogStartOffset: p.log.StartOffset(),
		CurrentLeaderEpoch: leaderEpoch, LastFetchedEpoch: lastRecordEpoch(p.log),
	}
	return f, nil
}

// lastRecordEpoch is the leader epoch of the last record, noEpoch in an empty log. A leader that was deposed before
// it appended anything has an epoch in its history without a record: to fetch under that one would let the next
// leader find a divergence that no truncation can end.
func lastRecordEpoch(log *partlog.Log) int32 {
	end := log.EndOffset()
	latest, ok := log.LatestEpoch()
	if !ok || log.StartOffset() == end {
		return noEpoch
	}
	if before, start := log.EndOffsetForEpoch(latest - 1); start >= end {
		return before
	}
	return latest
}

func (p *Partition) following(leaderEpoch int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failed != nil:
		return p.failed
	case p.follower == nil || p.leaderEpoch != leaderEpoch:
		return errNotFollowing
	default:
		return nil
	}
}

// copied is a leader's answer to a fetch.
type copied struct {
	leaderEpoch    int32 // that the fetch was sent in
	records        []byte
	high, logStart int64 // -1 if the leader did not tell
	diverging      *EpochEnd
	outOfRange     bool
}

// copy brings a leader's answer into the log: the truncation it asks for, or its records (I14). It holds the turn,
// so that the role cannot change meanwhile.
func (p *Partition) copy(c copied) (truncation, error) {
	<-p.turn
	defer func() { p.turn <- struct{}{} }()
	if err := p.following(c.leaderEpoch); err != nil {
		return truncation{}, err
	}
	t, err := p.bring(c)
	if errors.Is(err, ErrStorage) {
		p.mu.Lock()
		p.fail(err)
		p.mu.Unlock()
	}
	return t, err
}

func (p *Partition) bring(c copied) (truncation, error) {
	p.mu.Lock()
	high := p.highWatermark()
	p.mu.Unlock()
	switch {
	case c.diverging != nil:
		return p.truncate(*c.diverging, high)
	case c.outOfRange:
		return p.returnToRange(c, high)
	}
	if len(c.records) > 0 {
		if _, err := p.log.AppendAsFollower(c.records, c.leaderEpoch); err != nil {
			return truncation{}, p.copyFailed(err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follower.heard(c.high, p.log.EndOffset())
	return truncation{}, p.followStart(c.logStart)
}

// returnToRange starts anew where the leader's log starts, when ours ends before it. In the other direction, an
// end beyond the leader's, the leader answers with where the logs diverge.
func (p *Partition) returnToRange(c copied, high int64) (truncation, error) {
	end := p.log.EndOffset()
	if c.logStart <= end {
		return truncation{}, fmt.Errorf("%s: leader's log starts at %d, ours ends at %d: %w", p.name(), c.logStart, end, ErrOffsetOutOfRange)
	}
	return truncation{from: end, to: c.logStart, high: high}, p.restartAt(c.logStart)
}

// followStart moves the log's start up to the leader's, within what is known to be replicated. Called with mu held.
func (p *Partition) followStart(leaderStart int64) error {
	start := min(leaderStart, p.follower.high)
	if start <= p.log.StartOffset() {
		return nil
	}
	if err := p.log.SetStartOffset(start); err != nil {
		return p.copyFailed(err)
	}
	return nil
}

func (p *Partition) copyFailed(err error) error {
	if errors.Is(err, partlog.ErrStorage) {
		return fmt.Errorf("copy to %s: %w: %w", p.name(), ErrStorage, err)
	}
	return fmt.Errorf("copy to %s: %w", p.name(), err)
}
