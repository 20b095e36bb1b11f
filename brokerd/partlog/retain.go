package partlog

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// SetStartOffset makes offset the first that may be read, durably. At or
// below the present start it does nothing; above the end it returns
// ErrOffsetOutOfRange. What lies below is deleted by Retain, by whole segments.
func (l *Log) SetStartOffset(offset int64) error {
	l.disk.lock()
	defer l.disk.unlock()
	return l.moveStart(offset)
}

// moveStart does SetStartOffset's work. Holds disk.
func (l *Log) moveStart(offset int64) error {
	l.writer.lock()
	err := l.writable()
	v := l.view.Load()
	switch {
	case err != nil || offset <= v.start:
		l.writer.unlock()
		return err
	case offset > l.next:
		l.writer.unlock()
		return fmt.Errorf("%w: start at %d, the log ends at %d", ErrOffsetOutOfRange, offset, l.next)
	}
	l.view.Store(&view{segments: v.segments, start: offset, epochs: v.epochs.truncateStart(offset)})
	l.writer.unlock()
	if err := l.saveMeta(false); err != nil {
		return l.fail("move the start of", err)
	}
	return nil
}

// Retain deletes whole segments from the old end of the log that policy no
// longer keeps, and returns how many. The start offset is moved first; readers
// in the middle of a segment finish.
//
// It is also the log's housekeeping, to be called every minute or so whatever
// the policy: it makes sealed segments durable, saves their indexes and the
// producers, and moves the point from which the next Open has to check.
func (l *Log) Retain(policy RetentionPolicy, now time.Time) (deleted int, err error) {
	l.disk.lock()
	defer l.disk.unlock()
	if err := l.settleSealed(now); err != nil {
		return 0, err
	}
	v := l.view.Load()
	n, err := l.expired(v, policy, now)
	if err != nil {
		return 0, fmt.Errorf("retain %s: %w", l.dir, err)
	}
	if n == len(v.segments) {
		if n, err = l.rollExpired(v); err != nil {
			return 0, err
		}
	}
	if n == 0 {
		return 0, nil
	}
	return l.deleteOldest(n)
}

// expired returns how many segments, from the oldest on, may go. It is all of
// them if the active one has expired as well: then it must be sealed first.
func (l *Log) expired(v *view, policy RetentionPolicy, now time.Time) (int, error) {
	excess := int64(-1)
	if policy.Bytes >= 0 {
		excess = l.SizeBytes() - policy.Bytes
	}
	for i, s := range v.segments {
		end, active := l.end.Load(), i == len(v.segments)-1
		if !active {
			end = v.segments[i+1].base
		}
		size := s.size.Load()
		if size == 0 && active || end > max(policy.UpTo, v.start) {
			return i, nil
		}
		old, err := s.olderThan(policy.Age, now)
		if err != nil {
			return 0, err
		}
		tooMuch := policy.Bytes >= 0 && excess >= size && !active
		if !old && !tooMuch && (end > v.start || active) {
			return i, nil
		}
		excess -= size
	}
	return len(v.segments), nil
}

// olderThan says whether the segment's newest record is older than age.
// Records without timestamps never age.
func (s *segment) olderThan(age time.Duration, now time.Time) (bool, error) {
	if age <= 0 {
		return false, nil
	}
	newest, _, err := s.newestTimestamp()
	return newest != noTimestamp && newest < now.Add(-age).UnixMilli(), err
}

// rollExpired seals the active segment, unless it was appended to since it was
// judged, and returns how many segments may go.
func (l *Log) rollExpired(v *view) (int, error) {
	l.writer.lock()
	defer l.writer.unlock()
	if err := l.writable(); err != nil {
		return 0, err
	}
	if l.view.Load() != v || l.next != l.end.Load() || l.next != l.flushed.Load() && l.opts.Flush == FlushBatch {
		return len(v.segments) - 1, nil
	}
	_, err := l.roll()
	return len(v.segments), err
}

// deleteOldest deletes the n oldest segments. Holds disk.
func (l *Log) deleteOldest(n int) (int, error) {
	v := l.view.Load()
	n = min(n, len(v.segments)-1)
	if err := l.moveStart(v.segments[n].base); err != nil {
		return 0, err
	}
	l.writer.lock()
	v = l.view.Load()
	gone := v.segments[:n]
	l.view.Store(&view{segments: slices.Clone(v.segments[n:]), start: v.start, epochs: v.epochs})
	l.writer.unlock()
	first := v.segments[n].base
	err := l.removeSnapshots(func(offset int64) bool { return offset < first })
	for _, s := range gone {
		err = errors.Join(err, s.remove())
	}
	if err != nil {
		return n, fmt.Errorf("retain %s: %w", l.dir, err)
	}
	return n, nil
}

// settleSealed is the housekeeping of Retain. Holds disk.
func (l *Log) settleSealed(now time.Time) error {
	l.writer.lock()
	err := l.writable()
	l.producers.expire(now, l.opts.ProducerExpiration)
	v, pending := l.view.Load(), l.snapshot
	l.writer.unlock()
	if err != nil {
		return err
	}
	if v.unsynced() {
		if err := l.flush(); err != nil {
			return err
		}
	}
	if err := l.saveSealed(v, pending); err != nil {
		return fmt.Errorf("housekeeping of %s: %w", l.dir, err)
	}
	if l.flushed.Load() == l.savedPoint {
		return nil
	}
	if err := l.saveMeta(false); err != nil {
		return fmt.Errorf("housekeeping of %s: %w", l.dir, err)
	}
	return nil
}

// unsynced says whether a sealed segment, or much of the active one, is not
// known to be on disk.
func (v *view) unsynced() bool {
	for _, s := range v.segments[:len(v.segments)-1] {
		if s.synced < s.size.Load() {
			return true
		}
	}
	return v.active().size.Load()-v.active().synced >= checkpointBytes
}

// saveSealed writes what the next Open would have to find out again.
func (l *Log) saveSealed(v *view, pending *pendingSnapshot) error {
	for _, s := range v.segments[:len(v.segments)-1] {
		if err := s.saveIndex(false); err != nil {
			return err
		}
	}
	if pending == nil {
		return nil
	}
	if err := l.saveSnapshot(pending); err != nil {
		return err
	}
	l.writer.lock()
	if l.snapshot == pending {
		l.snapshot = nil
	}
	l.writer.unlock()
	return nil
}

// saveSnapshot writes a snapshot and removes those it makes superfluous. It is
// durable, since the batches it was made of may be deleted next; one that
// knows nobody need not be.
func (l *Log) saveSnapshot(p *pendingSnapshot) error {
	durable := len(p.body) > snapshotHeadBytes
	if err := writeSmallFile(l.opts.FS, snapshotName(l.dir, p.offset), snapshotMagic, p.body, durable); err != nil {
		return err
	}
	offsets, err := l.snapshotOffsets()
	if err != nil || len(offsets) <= keptSnapshots {
		return err
	}
	oldest := offsets[len(offsets)-keptSnapshots]
	return l.removeSnapshots(func(offset int64) bool { return offset < oldest })
}
