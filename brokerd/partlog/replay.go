package partlog

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// replay returns the state of the producers at end: the newest snapshot that
// can be read, and the headers of the batches behind it.
func (l *Log) replay(segments []*segment, end int64) (*producers, error) {
	ps, from, err := l.newestSnapshot(segments[0].base, end)
	if err != nil {
		return nil, err
	}
	nowMs := l.opts.Now().UnixMilli()
	reached := NoOffset
	for i, s := range segments {
		if i+1 < len(segments) && segments[i+1].base <= from {
			continue
		}
		if reached != NoOffset && reached != s.base {
			// Batches are missing, which only happens below the start offset.
			// Whoever sent them must not be held to the sequence before.
			ps = newProducers(l.opts.MaxProducers)
		}
		if reached, err = s.replayInto(ps, from, end, nowMs); err != nil {
			return nil, err
		}
	}
	ps.expire(l.opts.Now(), l.opts.ProducerExpiration)
	return ps, nil
}

// newestSnapshot returns the newest readable snapshot not above end, and its
// offset. One from below the first segment is of no use: batches between the
// two are gone.
func (l *Log) newestSnapshot(first, end int64) (*producers, int64, error) {
	offsets, err := l.snapshotOffsets()
	if err != nil {
		return nil, 0, err
	}
	for _, offset := range slices.Backward(offsets) {
		if offset < first || offset > end {
			continue
		}
		ps, err := readSnapshot(l.opts.FS, l.dir, offset, l.opts.MaxProducers)
		if err == nil {
			return ps, offset, nil
		}
		if !errors.Is(err, errDamaged) && !errors.Is(err, ErrUnsupportedVersion) && !isNotExist(err) {
			return nil, 0, err
		}
	}
	return newProducers(l.opts.MaxProducers), first, nil
}

// replayInto takes note of the segment's batches between from and end. It
// returns the offset it reached, which is short of the segment's end if a batch
// is damaged there.
func (s *segment) replayInto(ps *producers, from, end, nowMs int64) (reached int64, err error) {
	reached = s.base
	err = s.withFile(func(file File) error {
		w := s.walker(file, make([]byte, scanWindowBytes), 0)
		for {
			h, err := w.header()
			if errors.Is(err, io.EOF) || errors.Is(err, ErrCorruptBatch) || err == nil && h.lastOffset() >= end {
				return nil
			}
			if err != nil {
				return err
			}
			if h.baseOffset >= from {
				ps.update(h, nowMs)
			}
			w.skip(h)
			reached = h.nextOffset()
		}
	})
	return reached, err
}

// snapshotOffsets returns the offsets of the snapshots on disk, rising.
func (l *Log) snapshotOffsets() ([]int64, error) {
	names, err := l.opts.FS.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	return offsetsOf(names, snapshotSuffix), nil
}

// offsetsOf returns the offsets that name files of one kind, rising.
func offsetsOf(names []string, suffix string) []int64 {
	var offsets []int64
	for _, name := range names {
		digits, ok := strings.CutSuffix(name, suffix)
		if !ok || len(digits) != offsetDigits {
			continue
		}
		if offset, err := strconv.ParseInt(digits, 10, 64); err == nil && offset >= 0 && digits[0] != '+' {
			offsets = append(offsets, offset)
		}
	}
	slices.Sort(offsets)
	return offsets
}

// offsetDigits is how many digits an offset has in a file's name.
const offsetDigits = 20

// removeSnapshots removes those whose offset which picks.
func (l *Log) removeSnapshots(which func(offset int64) bool) error {
	offsets, err := l.snapshotOffsets()
	if err != nil {
		return err
	}
	for _, offset := range offsets {
		if which(offset) {
			if err := removeFile(l.opts.FS, snapshotName(l.dir, offset)); err != nil {
				return err
			}
		}
	}
	return nil
}
