package partlog

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// TruncateTo drops the batches from the one that contains offset on, so that
// the log ends at the largest batch boundary not above offset. At or above the
// end nothing happens; below the first segment everything goes, and the log
// starts and ends at offset. It returns once that is on disk: what was taken
// back cannot come back after a crash, where it would stand between batches
// that were appended since.
func (l *Log) TruncateTo(offset int64) error {
	if offset < 0 {
		return fmt.Errorf("%w: truncate to %d", ErrOffsetOutOfRange, offset)
	}
	defer l.exclusive()()
	if err := l.writable(); err != nil {
		return err
	}
	v := l.view.Load()
	if offset >= l.next {
		return nil
	}
	if offset < v.segments[0].base {
		return l.takeBack(func() error { return l.startOver(v, offset) })
	}
	kept := v.segments[:1+slices.Index(v.segments, v.containing(offset))]
	end, position, err := kept[len(kept)-1].boundary(offset)
	if err != nil {
		return fmt.Errorf("truncate %s to %d: %w", l.dir, offset, err)
	}
	return l.takeBack(func() error { return l.cut(v, slices.Clip(kept), end, position) })
}

// TruncateFullyAndStartAt drops everything; the log then starts and ends at
// offset. A follower does so when its leader has nothing left of what the
// follower would need next.
func (l *Log) TruncateFullyAndStartAt(offset int64) error {
	if offset < 0 {
		return fmt.Errorf("%w: start at %d", ErrOffsetOutOfRange, offset)
	}
	defer l.exclusive()()
	if err := l.writable(); err != nil {
		return err
	}
	v := l.view.Load()
	return l.takeBack(func() error { return l.startOver(v, offset) })
}

// exclusive takes both gates and returns what opens them.
func (l *Log) exclusive() (release func()) {
	l.disk.lock()
	l.writer.lock()
	return func() {
		l.writer.unlock()
		l.disk.unlock()
	}
}

// takeBack runs change with readers told that written batches go. A change
// that fails half way fails the log. Holds both gates.
func (l *Log) takeBack(change func() error) error {
	l.generation.Add(1)
	defer l.generation.Add(1)
	if err := change(); err != nil {
		return l.fail("truncate", err)
	}
	return nil
}

// boundary returns the base offset and position of the batch that contains
// offset.
func (s *segment) boundary(offset int64) (end, position int64, err error) {
	err = s.withFile(func(file File) error {
		h, at, err := s.find(file, offset)
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: offset %d is in no batch of segment %d", ErrCorruptBatch, offset, s.base)
		}
		end, position = h.baseOffset, at
		return err
	})
	return end, position, err
}

// cut makes the log end at end, which is at position of the last segment that
// is kept. Holds both gates.
func (l *Log) cut(v *view, kept []*segment, end, position int64) error {
	last := kept[len(kept)-1]
	l.publish(&view{segments: kept, start: min(v.start, end), epochs: v.epochs.truncateEnd(end)}, end)
	last.size.Store(position)
	if err := l.persistCut(v.segments[len(kept):], end); err != nil {
		return err
	}
	if err := last.cutTo(position); err != nil {
		return err
	}
	if l.opts.Flush == FlushBatch {
		if err := l.syncSegments(kept, sizesOf(kept)); err != nil {
			return err
		}
		l.flushed.Store(end)
	}
	var err error
	if l.producers, err = l.replay(kept, end); err != nil {
		return err
	}
	l.keepProducers(end)
	return nil
}

// publish makes readers see a shorter log. Holds both gates.
func (l *Log) publish(v *view, end int64) {
	l.untouched.Store(false)
	l.next = end
	l.end.Store(end)
	l.flushed.Store(min(l.flushed.Load(), end))
	l.view.Store(v)
}

// persistCut makes durable all of a cut at end but the shortening of the last
// segment that stays. First partition.meta no longer vouches for what goes;
// then whole segments go, the last first, so that a crash leaves no gap.
func (l *Log) persistCut(dropped []*segment, end int64) error {
	if l.snapshot != nil && l.snapshot.offset > end {
		l.snapshot = nil
	}
	if err := l.writeMeta(l.describe(false), l.view.Load().epochs); err != nil {
		return err
	}
	if err := l.removeSnapshots(func(offset int64) bool { return offset > end }); err != nil {
		return err
	}
	for i := len(dropped) - 1; i >= 0; i-- {
		if err := dropped[i].remove(); err != nil {
			return err
		}
	}
	return l.syncNames(l.view.Load().segments)
}

// cutTo shortens the segment's file and index to position, durably. A reader
// that is about to load the index waits, so that it cannot bring the old one
// back.
func (s *segment) cutTo(position int64) error {
	s.loading.lock()
	defer s.loading.unlock()
	if err := s.leaveFiles(); err != nil {
		return err
	}
	for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
		if err := removeFile(s.opts.FS, segmentFile(s.dir, s.base, suffix)); err != nil {
			return err
		}
	}
	err := s.withFile(func(file File) error {
		return errors.Join(file.Truncate(position), file.Sync())
	})
	if err != nil {
		return err
	}
	s.synced = position
	// The newest timestamp may have been in what went: walk what stays.
	b, err := s.buildIndex()
	if err == nil {
		s.adopt(b)
	}
	return err
}

// startOver drops everything and opens an empty segment at offset. Holds both
// gates.
func (l *Log) startOver(v *view, offset int64) error {
	empty := newSegment(l, offset, true)
	l.producers, l.snapshot = newProducers(l.opts.MaxProducers), nil
	l.publish(&view{segments: []*segment{empty}, start: offset}, offset)
	if err := l.writeMeta(l.describe(false), l.view.Load().epochs); err != nil {
		return err
	}
	if err := l.removeSnapshots(func(int64) bool { return true }); err != nil {
		return err
	}
	for i := len(v.segments) - 1; i >= 0; i-- {
		if err := v.segments[i].remove(); err != nil {
			return err
		}
	}
	if err := empty.withFile(func(file File) error { return errors.Join(file.Truncate(0), file.Sync()) }); err != nil {
		return err
	}
	l.flushed.Store(offset)
	return l.syncNames(l.view.Load().segments)
}
