package partlog

import (
	"errors"
	"fmt"
	"io"
)

// recovery is one walk over a log that was not closed.
type recovery struct {
	log *Log
	contents
	// point is where checksums begin to be compared.
	point int64
	// epochs and end are what the walk has established so far.
	epochs epochHistory
	end    int64
	// checked is the index of the first segment that is walked.
	checked int
}

// recover checks what is not known to be sound and cuts the log where it
// ends. A crash in the middle is harmless: it begins again.
func (l *Log) recover(c contents) error {
	l.recovered.Unclean = len(c.segments) > 0 || c.known
	r := &recovery{log: l, contents: c, point: c.meta.recoveryPoint}
	if err := r.begin(); err != nil {
		return err
	}
	bad, position, reason, err := r.walk()
	if err != nil {
		return err
	}
	l.recovered.CheckedFrom = min(r.point, r.end)
	if err := r.dropSnapshots(); err != nil {
		return err
	}
	if reason != nil {
		if err := r.cut(bad, position, reason); err != nil {
			return err
		}
	}
	return r.finish()
}

// begin chooses the first segment to walk: the one with the recovery point, or
// an earlier one that is empty and should not be. Without a partition.meta or
// leader-epochs to trust it is the one with the start offset: what lies below
// is of no use, and may be what is left of a deletion.
func (r *recovery) begin() error {
	l := r.log
	epochs, err := readEpochs(l.opts.FS, l.dir)
	if err != nil && !errors.Is(err, errDamaged) && !isNotExist(err) {
		return err
	}
	if l.epochsSaved, l.epochsUnsaved = epochs, errors.Is(err, errDamaged); l.epochsUnsaved {
		l.recovered.repaired(epochsName)
	}
	if len(r.segments) == 0 {
		r.end = r.meta.start
		return nil
	}
	trusted := r.meta.recoveryPoint
	if err != nil || !r.known {
		trusted = r.meta.start
	}
	for i := range r.segments[1:] {
		next := r.segments[i+1].base
		if next <= r.meta.start || next <= trusted && r.segments[i].size.Load() > 0 && r.checked == i {
			r.checked = i + 1
		}
	}
	r.end = r.segments[r.checked].base
	if r.point = trusted; trusted < r.end || trusted != r.meta.recoveryPoint {
		r.point = r.end
	}
	r.epochs = epochs.truncateEnd(r.end)
	return nil
}

// walk goes over the segments until one does not continue the log. It returns
// which, from which position on it is bad, and why; a nil reason says that all
// are sound.
func (r *recovery) walk() (bad int, position int64, reason, err error) {
	for i := r.checked; i < len(r.segments); i++ {
		s := r.segments[i]
		if s.base != r.end {
			return i, 0, fmt.Errorf("%w: segment %d follows offset %d", ErrCorruptBatch, s.base, r.end), nil
		}
		position, err := r.walkSegment(s)
		switch {
		case errors.Is(err, ErrCorruptBatch):
			return i, position, err, nil
		case err != nil:
			return 0, 0, nil, err
		}
		r.log.recovered.CheckedBytes += position
	}
	return 0, 0, nil, nil
}

// walkSegment goes over the batches of a segment, builds its index, and
// returns where it stopped: at the end or, with ErrCorruptBatch, before it.
func (r *recovery) walkSegment(s *segment) (position int64, err error) {
	b := newIndexBuilder(s.base, s.opts.IndexIntervalBytes)
	err = s.withFile(func(file File) error {
		w := s.walker(file, make([]byte, scanWindowBytes), 0)
		defer func() { position = w.position }()
		for {
			h, err := w.header()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := r.check(&w, h); err != nil {
				return err
			}
			b.add(h, w.position)
			w.skip(h)
			r.end = h.nextOffset()
			r.epochs, _ = r.epochs.assign(epochEntry{h.leaderEpoch, h.baseOffset})
		}
	})
	s.adopt(b)
	return position, err
}

// check compares a batch with what must come next. Base offset and leader
// epoch are outside the checksum, so only the order of the log vouches for
// them.
func (r *recovery) check(w *walker, h header) error {
	last, ok := r.epochs.latest()
	switch {
	case h.baseOffset != r.end:
		return fmt.Errorf("%w: batch at offset %d, expected %d", ErrCorruptBatch, h.baseOffset, r.end)
	case h.leaderEpoch < 0 || ok && h.leaderEpoch < last.epoch:
		return fmt.Errorf("%w: batch at offset %d of leader epoch %d after %d", ErrCorruptBatch, h.baseOffset, h.leaderEpoch, last.epoch)
	case h.nextOffset() <= r.point:
		return nil
	}
	return w.checkCRC(h)
}

// cut removes what lies at and behind position of segment bad.
func (r *recovery) cut(bad int, position int64, reason error) error {
	report := &r.log.recovered
	s := r.segments[bad]
	report.CutAt, report.Reason, report.LostTo = r.end, reason.Error(), r.lostTo(bad, position)
	report.CutBytes = s.size.Load() - position
	gone := r.segments[bad+1:]
	if s.base != r.end && position == 0 {
		// The segment does not continue the log at all.
		report.CutBytes, gone = 0, r.segments[bad:]
	} else {
		s.size.Store(position)
	}
	for _, s := range gone {
		report.CutBytes += s.size.Load()
	}
	report.CutSegments = len(gone)
	r.segments = r.segments[:len(r.segments)-len(gone)]
	for i := len(gone) - 1; i >= 0; i-- {
		if err := gone[i].remove(); err != nil {
			return err
		}
	}
	return r.shorten()
}

// dropSnapshots removes snapshots of producers from behind the end, durably:
// the log may grow past their offsets again, with other batches. They can be
// there though nothing was cut, when a whole tail is missing.
func (r *recovery) dropSnapshots() error {
	l := r.log
	offsets, err := l.snapshotOffsets()
	if err != nil || len(offsets) == 0 || offsets[len(offsets)-1] <= r.end {
		return err
	}
	if err := l.removeSnapshots(func(offset int64) bool { return offset > r.end }); err != nil {
		return err
	}
	return l.opts.FS.SyncDir(l.dir)
}

// shorten makes the cut durable: the names that are gone, then the size of the
// last segment that stays.
func (r *recovery) shorten() error {
	l := r.log
	if err := l.opts.FS.SyncDir(l.dir); err != nil {
		return err
	}
	if len(r.segments) == 0 {
		return nil
	}
	last := r.segments[len(r.segments)-1]
	return last.withFile(func(file File) error {
		return errors.Join(file.Truncate(last.size.Load()), file.Sync())
	})
}

// lostTo returns the last offset of any batch that can still be made out at
// or behind position of segment bad: what a cut there loses.
func (r *recovery) lostTo(bad int, position int64) int64 {
	lost := NoOffset
	for _, s := range r.segments[bad:] {
		err := s.withFile(func(file File) error {
			w := s.walker(file, make([]byte, scanWindowBytes), position)
			for {
				h, err := w.header()
				if err != nil {
					return err
				}
				// A batch that stands where it should but fails its checksum
				// is no torn tail either if another follows it.
				if w.checkCRC(h) == nil && h.lastOffset() >= r.end {
					lost = max(lost, h.lastOffset())
				}
				w.skip(h)
			}
		})
		// The walk ends where nothing can be made out; that is no news here.
		_ = err
		position = 0
	}
	return lost
}

// finish opens the log with what was found sound.
func (r *recovery) finish() error {
	l := r.log
	start := r.meta.start
	if !r.known && len(r.segments) > 0 {
		start = r.segments[0].base
	}
	if len(r.segments) > 0 && start < r.segments[0].base {
		l.recovered.lostHead(start, r.segments[0].base)
		start = r.segments[0].base
	}
	if r.end >= start || len(r.segments) == 0 {
		l.recovered.lostTail(max(r.end, start), r.meta.recoveryPoint)
	}
	if len(r.segments) == 0 || r.end < start {
		return r.finishEmpty(start)
	}
	l.savedPoint = min(r.meta.recoveryPoint, r.end)
	if !r.known {
		l.savedPoint = 0
	}
	if err := l.install(&view{segments: r.segments, start: start, epochs: r.epochs.truncateStart(start)}, r.end); err != nil {
		return err
	}
	l.flushed.Store(l.savedPoint)
	for i, s := range r.segments[:len(r.segments)-1] {
		if r.segments[i+1].base <= l.savedPoint {
			s.synced = s.size.Load()
		}
	}
	return r.settle()
}

// finishEmpty opens a log without batches, for a new one or one of which
// nothing is left.
func (r *recovery) finishEmpty(start int64) error {
	l := r.log
	for i := len(r.segments) - 1; i >= 0; i-- {
		if err := r.segments[i].remove(); err != nil {
			return err
		}
	}
	if err := l.removeSnapshots(func(int64) bool { return true }); err != nil {
		return err
	}
	empty := newSegment(l, start, true)
	if err := empty.withFile(func(file File) error { return file.Truncate(0) }); err != nil {
		return err
	}
	if err := l.install(&view{segments: []*segment{empty}, start: start}, start); err != nil {
		return err
	}
	l.flushed.Store(start)
	return r.settle()
}

// settle writes partition.meta where it says something that is no longer so.
func (r *recovery) settle() error {
	l := r.log
	v := l.view.Load()
	if !r.known && !l.recovered.Unclean {
		// A new log: nothing needs to be durable before its first flush.
		return writeMeta(l.opts.FS, l.dir, l.describe(false), false)
	}
	if r.known && !r.meta.clean && r.meta.recoveryPoint <= l.next && r.meta.start == v.start {
		return nil
	}
	return l.writeMeta(l.describe(false), v.epochs)
}

// lostTail notes that the log ends at end although it had been on disk up to
// the recovery point: whatever is missing in between was no torn write.
func (r *Recovered) lostTail(end, recoveryPoint int64) {
	if end >= recoveryPoint {
		return
	}
	if r.CutAt == NoOffset {
		r.CutAt, r.Reason = end, fmt.Sprintf("what follows had been on disk up to offset %d and is not there", recoveryPoint)
	}
	r.LostTo = max(r.LostTo, recoveryPoint-1)
}

// lostHead notes that the log begins later than its start offset.
func (r *Recovered) lostHead(start, first int64) {
	r.Reason = fmt.Sprintf("the first segment begins at %d, the log at %d", first, start)
	r.CutAt, r.LostTo = start, first-1
}
