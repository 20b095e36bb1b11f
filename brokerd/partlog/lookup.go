package partlog

import (
	"errors"
	"io"
	"math"
)

// found is a record found by its time.
type found struct {
	offset, timestamp int64
	epoch             int32
	ok                bool
}

// nothingFound is the answer of a look-up without a hit.
var nothingFound = found{offset: NoOffset, timestamp: noTimestamp, epoch: NoEpoch}

func (f found) result(err error) (int64, int64, int32, bool, error) {
	if err != nil {
		f = nothingFound
	}
	return f.offset, f.timestamp, f.epoch, f.ok, err
}

// OffsetForTimestamp finds the first record whose timestamp is ts or later,
// between start and end offset: its offset, its timestamp and the leader epoch
// of its batch. Without Options.Timestamps it answers with the first offset of
// the batch and the batch's newest timestamp.
func (l *Log) OffsetForTimestamp(ts int64) (offset, timestamp int64, epoch int32, ok bool, err error) {
	hit := nothingFound
	err = l.stable(func(v *view, end int64) (err error) {
		hit, err = l.firstAtOrAfter(v, end, ts)
		return err
	})
	return hit.result(err)
}

// MaxTimestampOffset finds the first record that has the newest timestamp,
// between start and end offset. Records without timestamps are not found.
func (l *Log) MaxTimestampOffset() (offset, timestamp int64, epoch int32, ok bool, err error) {
	hit := nothingFound
	err = l.stable(func(v *view, end int64) error {
		newest, err := l.newest(v, end)
		if err != nil || newest == noTimestamp {
			hit = nothingFound
			return err
		}
		hit, err = l.firstAtOrAfter(v, end, newest)
		return err
	})
	return hit.result(err)
}

func (l *Log) firstAtOrAfter(v *view, end, ts int64) (found, error) {
	if l.closed.Load() {
		return nothingFound, ErrClosed
	}
	for _, s := range v.from(v.start) {
		newest, _, err := s.newestTimestamp()
		if err != nil {
			return nothingFound, err
		}
		if newest < ts {
			continue
		}
		position, err := s.seekTime(ts)
		if err != nil {
			return nothingFound, err
		}
		hit := nothingFound
		err = s.visit(position, func(file File, h header, position int64) (more bool, err error) {
			if h.nextOffset() > end {
				return false, nil
			}
			if h.maxTimestamp < ts || h.lastOffset() < v.start {
				return true, nil
			}
			hit, err = l.firstInBatch(file, h, position, max(v.start, h.baseOffset), ts)
			return !hit.ok, err
		})
		if err != nil || hit.ok {
			return hit, err
		}
	}
	return nothingFound, nil
}

// newest returns the newest timestamp of a batch between start and end.
func (l *Log) newest(v *view, end int64) (int64, error) {
	if l.closed.Load() {
		return noTimestamp, ErrClosed
	}
	newest := noTimestamp
	for _, s := range v.from(v.start) {
		timestamp, offset, err := s.newestTimestamp()
		if err != nil {
			return noTimestamp, err
		}
		if timestamp <= newest {
			continue
		}
		if offset >= v.start && offset < end {
			newest = timestamp
			continue
		}
		// The batch that has it is not to be seen: look at each that is.
		err = s.visit(0, func(_ File, h header, _ int64) (bool, error) {
			if h.lastOffset() >= v.start && h.nextOffset() <= end {
				newest = max(newest, h.maxTimestamp)
			}
			return h.nextOffset() <= end, nil
		})
		if err != nil {
			return noTimestamp, err
		}
	}
	return newest, nil
}

// from returns the segments from the one that contains offset on.
func (v *view) from(offset int64) []*segment {
	first := v.containing(offset)
	for i, s := range v.segments {
		if s == first {
			return v.segments[i:]
		}
	}
	return nil
}

// visit walks over the headers from position on until visitor has enough.
func (s *segment) visit(position int64, visitor func(file File, h header, position int64) (more bool, err error)) error {
	return s.withFile(func(file File) error {
		window := seekWindows.Get().(*[]byte)
		defer seekWindows.Put(window)
		w := s.walker(file, *window, position)
		for {
			h, err := w.header()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if more, err := visitor(file, h, w.position); err != nil || !more {
				return err
			}
			w.skip(h)
		}
	})
}

// firstInBatch finds the first record of a batch at or above offset from
// whose timestamp is ts or later.
func (l *Log) firstInBatch(file File, h header, position, from, ts int64) (found, error) {
	hit := found{offset: from, timestamp: h.maxTimestamp, epoch: h.leaderEpoch, ok: true}
	if l.opts.Timestamps == nil || h.size > math.MaxInt32 {
		return hit, nil
	}
	batch := make([]byte, h.size)
	if err := readFull(file, batch, position); err != nil {
		return nothingFound, err
	}
	hit = nothingFound
	err := l.opts.Timestamps(batch, func(offset, timestampMs int64) bool {
		if offset < from || timestampMs < ts {
			return true
		}
		hit = found{offset, timestampMs, h.leaderEpoch, true}
		return false
	})
	return hit, err
}
