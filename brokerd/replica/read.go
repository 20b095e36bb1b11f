package replica

import (
	"errors"
	"fmt"

	"github.com/skiffmq/skiff/brokerd/partlog"
)

// reader says for whom a partition is read.
type reader struct {
	replicaID    int32
	replicaEpoch int64
	// note is set on the first look at a request: only then does a follower's fetch count as a sign of life.
	note bool
}

func (r reader) follows() bool { return r.replicaID != ConsumerReplicaID }

// room is what a partition may still add to a response.
type room struct {
	bytes int
	// atLeastOne lets the first batch in even if it is larger.
	atLeastOne bool
}

// read reads one partition as its leader. A wish is returned when a follower's fetch makes it a candidate for
// the ISR.
func (p *Partition) read(f FetchPartition, who reader, space room) (FetchResult, *wish) {
	res := FetchResult{ID: f.ID, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, Records: []byte{}, LeaderID: noLeader, LeaderEpoch: noEpoch}
	w, upTo, err := p.beginRead(f, who, &res)
	if err != nil || res.Diverging != nil || space.bytes <= 0 && !space.atLeastOne || f.Offset >= upTo {
		res.Err = err
		return res, w
	}
	info, err := p.log.Read(f.Offset, min(f.MaxBytes, space.bytes), upTo, space.atLeastOne)
	if err == nil && info.Records != nil {
		res.Records = info.Records
	}
	if err := p.endRead(err, res.LeaderEpoch); err != nil {
		res.Err, res.Records = err, []byte{}
	}
	return res, w
}

// beginRead judges the request, takes note of a follower's progress, and fills in what the response tells of the
// partition. It returns the offset up to which the caller may read.
func (p *Partition) beginRead(f FetchPartition, who reader, res *FetchResult) (w *wish, upTo int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	res.LeaderID, res.LeaderEpoch = p.leaderID, p.leaderEpoch
	if err := p.checkLeader(f.CurrentLeaderEpoch); err != nil {
		return nil, 0, err
	}
	end := p.log.EndOffset()
	p.describe(res)
	if f.LastFetchedEpoch != noEpoch {
		if res.Diverging, err = p.divergence(f); err != nil || res.Diverging != nil {
			return nil, 0, err
		}
	}
	if start := p.log.StartOffset(); f.Offset < start || f.Offset > end {
		return nil, 0, fmt.Errorf("%s: offset %d, log has %d to %d: %w", p.name(), f.Offset, start, end, ErrOffsetOutOfRange)
	}
	if !who.follows() {
		return nil, p.leader.high, nil
	}
	if who.note {
		if w, err = p.follow(f, who); err != nil {
			return nil, 0, err
		}
		p.describe(res)
	}
	return w, end, nil
}

// describe fills in the offsets of the partition. There are no transactions yet, so that everything below the high
// watermark is stable. Called with mu held.
func (p *Partition) describe(res *FetchResult) {
	res.HighWatermark, res.LastStableOffset, res.LogStartOffset = p.leader.high, p.leader.high, p.log.StartOffset()
}

// divergence tells whether the caller's log is not a prefix of ours (KIP-595): the leader epoch of its last
// record ended earlier here, or never was.
func (p *Partition) divergence(f FetchPartition) (*EpochEnd, error) {
	epoch, end := p.log.EndOffsetForEpoch(f.LastFetchedEpoch)
	if epoch == partlog.NoEpoch || end == partlog.NoOffset {
		return nil, fmt.Errorf("%s: leader epoch %d is not known here: %w", p.name(), f.LastFetchedEpoch, ErrOffsetOutOfRange)
	}
	if epoch < f.LastFetchedEpoch || end < f.Offset {
		return &EpochEnd{Epoch: epoch, EndOffset: end}, nil
	}
	return nil, nil
}

// follow takes note of a follower's fetch: its log ends at f.Offset. Called with mu held, as leader.
func (p *Partition) follow(f FetchPartition, who reader) (*wish, error) {
	v := p.view()
	p.leader.localEnd(p.countedEnd())
	fetch := followerFetch{broker: who.replicaID, brokerEpoch: who.replicaEpoch, offset: f.Offset, logStart: f.LogStartOffset}
	if err := p.leader.fetched(fetch, v); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name(), err)
	}
	w, ok := p.leader.maybeExpand(who.replicaID, v)
	p.advance()
	if !ok {
		return nil, nil
	}
	return &w, nil
}

// endRead makes sure that what was read was the leader's log: after a change of role it may have been cut.
func (p *Partition) endRead(err error, leaderEpoch int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.leader == nil || p.leaderEpoch != leaderEpoch:
		return fmt.Errorf("%s: no longer leader in epoch %d: %w", p.name(), leaderEpoch, ErrNotLeaderOrFollower)
	case errors.Is(err, partlog.ErrOffsetOutOfRange):
		return fmt.Errorf("%s: %w: %w", p.name(), ErrOffsetOutOfRange, err)
	case err != nil:
		return fmt.Errorf("read %s: %w: %w", p.name(), ErrStorage, err)
	}
	return nil
}

// listOffset answers a ListOffsets query as leader.
func (p *Partition) listOffset(q ListOffsetQuery) (ListOffsetResult, error) {
	high, err := p.listable(q)
	if err != nil {
		return ListOffsetResult{}, err
	}
	switch q.Timestamp {
	case TimestampEarliest:
		return p.positioned(p.log.StartOffset()), nil
	case TimestampLatest:
		return p.positioned(high), nil
	case TimestampMax:
		return p.found(high)(p.log.MaxTimestampOffset())
	default:
		return p.found(high)(p.log.OffsetForTimestamp(q.Timestamp))
	}
}

// listable checks the leadership and returns the high watermark. A new leader whose high watermark has not reached
// its leader epoch could answer with an offset that its predecessor's consumers are past (KIP-207).
func (p *Partition) listable(q ListOffsetQuery) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkLeader(q.CurrentLeaderEpoch); err != nil {
		return 0, err
	}
	if q.Timestamp != TimestampEarliest && p.leader.high < p.leader.epochStart {
		return 0, fmt.Errorf("%s: high watermark %d, leader epoch began at %d: %w", p.name(), p.leader.high, p.leader.epochStart, ErrOffsetNotAvailable)
	}
	return p.leader.high, nil
}

// positioned is the answer for an offset that was not found by time.
func (p *Partition) positioned(offset int64) ListOffsetResult {
	res := ListOffsetResult{Offset: offset, Timestamp: -1, LeaderEpoch: noEpoch}
	if latest, ok := p.log.LatestEpoch(); ok {
		res.LeaderEpoch = latest
	}
	return res
}

// found is the answer for a look-up by time; what is not below the high watermark is not there yet.
func (p *Partition) found(high int64) func(offset, timestamp int64, epoch int32, found bool, err error) (ListOffsetResult, error) {
	return func(offset, timestamp int64, epoch int32, found bool, err error) (ListOffsetResult, error) {
		if err != nil {
			return ListOffsetResult{}, fmt.Errorf("look up in %s: %w: %w", p.name(), ErrStorage, err)
		}
		if !found || offset >= high {
			return ListOffsetResult{Offset: -1, Timestamp: -1, LeaderEpoch: noEpoch}, nil
		}
		return ListOffsetResult{Offset: offset, Timestamp: timestamp, LeaderEpoch: epoch}, nil
	}
}

// epochEnd answers OffsetForLeaderEpoch as leader.
func (p *Partition) epochEnd(currentLeaderEpoch, epoch int32) (EpochEnd, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkLeader(currentLeaderEpoch); err != nil {
		return EpochEnd{Epoch: noEpoch, EndOffset: -1}, err
	}
	e, end := p.log.EndOffsetForEpoch(epoch)
	return EpochEnd{Epoch: e, EndOffset: end}, nil
}
