package partlog

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// readRetries is how often a read is tried beside truncations; the last try
// keeps them out.
const readRetries = 4

// Read returns whole batches from the one that contains offset, as many as
// fit maxBytes and end below upTo; with minOneBatch the first is returned even
// if it is larger than maxBytes. It reads from one segment at a time, so less
// than maxBytes is no sign that there is no more. At the end offset it returns
// nothing; outside start and end offset ErrOffsetOutOfRange. It waits for no
// writer.
func (l *Log) Read(offset int64, maxBytes int, upTo int64, minOneBatch bool) (ReadInfo, error) {
	request := readRequest{offset, max(maxBytes, 0), upTo, minOneBatch}
	var info ReadInfo
	err := l.stable(func(v *view, end int64) (err error) {
		info, err = l.readFrom(v, end, request)
		return err
	})
	return info, err
}

type readRequest struct {
	offset      int64
	maxBytes    int
	upTo        int64
	minOneBatch bool
}

// stable runs read until no truncation and no retention took away beneath it
// what it read. The end offset it passes is one that the view reaches.
func (l *Log) stable(read func(v *view, end int64) error) error {
	for range readRetries {
		before, end := l.generation.Load(), l.end.Load()
		v := l.view.Load()
		if before%2 == 0 {
			err := read(v, end)
			if l.generation.Load() == before && (err == nil || l.view.Load() == v || errors.Is(err, ErrOffsetOutOfRange)) {
				return l.readError(err)
			}
		}
		// Whoever truncates holds the gate: wait for it.
		l.writer.lock()
		l.writer.unlock()
	}
	l.writer.lock()
	defer l.writer.unlock()
	return l.readError(read(l.view.Load(), l.end.Load()))
}

// readError says of a failed read that the log was closed, if it was.
func (l *Log) readError(err error) error {
	if err != nil && l.closed.Load() {
		return ErrClosed
	}
	return err
}

func (l *Log) readFrom(v *view, end int64, r readRequest) (ReadInfo, error) {
	info := ReadInfo{FirstOffset: r.offset, NextOffset: r.offset}
	if l.closed.Load() {
		return info, ErrClosed
	}
	if r.offset < v.start || r.offset > end {
		return info, fmt.Errorf("%w: %d, the log holds %d to %d", ErrOffsetOutOfRange, r.offset, v.start, end)
	}
	r.upTo = min(r.upTo, end)
	if r.offset >= r.upTo {
		return info, nil
	}
	s := v.containing(r.offset)
	err := s.withFile(func(file File) error {
		first, position, err := s.find(file, r.offset)
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: offset %d is in no batch of segment %d", ErrCorruptBatch, r.offset, s.base)
		}
		if err != nil || first.lastOffset() >= r.upTo || first.size > int64(r.maxBytes) && !r.minOneBatch {
			return err
		}
		info.FirstOffset = first.baseOffset
		info.Records, err = readBatches(file, position, s.size.Load(), first, &r)
		info.NextOffset = r.offset
		return err
	})
	return info, err
}

// containing returns the segment in which offset lies.
func (v *view) containing(offset int64) *segment {
	low, high := 0, len(v.segments)
	for high-low > 1 {
		if middle := (low + high) / 2; v.segments[middle].base <= offset {
			low = middle
		} else {
			high = middle
		}
	}
	return v.segments[low]
}

// find returns the batch that contains offset and where it stands, io.EOF if
// the segment ends before.
func (s *segment) find(file File, offset int64) (header, int64, error) {
	position, err := s.seekOffset(offset)
	if err != nil {
		return header{}, 0, err
	}
	window := seekWindows.Get().(*[]byte)
	defer seekWindows.Put(window)
	w := s.walker(file, *window, position)
	for {
		h, err := w.header()
		if err != nil {
			return header{}, 0, err
		}
		if h.lastOffset() >= offset {
			return h, w.position, nil
		}
		w.skip(h)
	}
}

// readBatches reads the first batch, at position, and those behind it that
// the request asks for, and moves the request's offset behind the last. What
// it allocates is bounded by maxBytes or the first batch, and by the segment.
func readBatches(file File, position, size int64, first header, r *readRequest) ([]byte, error) {
	if first.size > size-position {
		return nil, fmt.Errorf("%w: batch at %d was taken back", ErrCorruptBatch, first.baseOffset)
	}
	n := min(max(int64(r.maxBytes), first.size), size-position, math.MaxInt32)
	b := make([]byte, n)
	if err := readFull(file, b, position); err != nil {
		return nil, err
	}
	var whole int64
	for whole+batchHeaderBytes <= n {
		h, err := parseHeader(b[whole:])
		if err != nil {
			return nil, fmt.Errorf("at %d: %w", position+whole, err)
		}
		if whole+h.size > n || h.lastOffset() >= r.upTo {
			break
		}
		whole += h.size
		r.offset = h.nextOffset()
	}
	return b[:whole:whole], nil
}
