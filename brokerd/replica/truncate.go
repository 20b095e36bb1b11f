package replica

import "fmt"

// truncationPoint is where a follower cuts its log when the leader answered that it diverges: the leader's records
// of leader epoch diverging.Epoch, or of the greatest below, end at diverging.EndOffset. own tells the same of the
// follower's log, which ends at end; it answers (-1, -1) if it knows no such leader epoch. KIP-595, KIP-279.
//
// When the follower has nothing of the leader's epoch it cuts to the end of the greatest epoch below and asks
// again: where the two logs part is still not known, only that it is not later.
func truncationPoint(diverging EpochEnd, own func(leaderEpoch int32) (int32, int64), end int64) int64 {
	ownEpoch, ownEnd := own(diverging.Epoch)
	switch {
	case ownEpoch == noEpoch:
		return min(diverging.EndOffset, end)
	case ownEpoch != diverging.Epoch:
		return min(ownEnd, end)
	default:
		return min(ownEnd, diverging.EndOffset, end)
	}
}

// truncate cuts a follower's log where it parts from the leader's. Cutting below the high watermark is right only
// after an unclean election, and is never done silently (I17).
func (p *Partition) truncate(diverging EpochEnd, high int64) (truncation, error) {
	end := p.log.EndOffset()
	to := truncationPoint(diverging, p.log.EndOffsetForEpoch, end)
	if to < p.log.StartOffset() {
		return truncation{from: end, to: to, high: high}, p.restartAt(to)
	}
	if err := p.log.TruncateTo(to); err != nil {
		return truncation{}, fmt.Errorf("truncate %s to %d: %w: %w", p.name(), to, ErrStorage, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.follower != nil {
		p.follower.truncated(p.log.EndOffset())
	}
	return truncation{from: end, to: p.log.EndOffset(), high: high}, nil
}

// restartAt drops the log: the leader no longer has the record that would be next.
func (p *Partition) restartAt(offset int64) error {
	if err := p.log.TruncateFullyAndStartAt(offset); err != nil {
		return fmt.Errorf("restart %s at %d: %w: %w", p.name(), offset, ErrStorage, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.follower != nil {
		p.follower.high = offset
	}
	return nil
}

// truncation tells what a truncation took, for the log.
type truncation struct{ from, to, high int64 }

// none tells whether nothing was cut.
func (t truncation) none() bool { return t.from == t.to }

// belowHigh tells whether records went that had been below the high watermark.
func (t truncation) belowHigh() bool { return t.to < t.high }
