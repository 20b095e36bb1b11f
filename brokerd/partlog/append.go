package partlog

import (
	"errors"
	"fmt"
)

// Append appends one record batch as leader of leaderEpoch. It stamps base
// offset, leader epoch and, if asked, the append time into batch in place.
//
// A batch an idempotent producer has sent before is not written again: its
// first offsets are answered, with Duplicate set. Errors: ErrCorruptBatch,
// ErrBatchTooLarge, ErrOutOfOrderSequence, ErrInvalidProducerEpoch,
// ErrLeaderEpoch when the log knows a newer one, ErrStorage, ErrClosed. After
// any of them but ErrStorage nothing was written; after ErrStorage the batch
// may turn up when the log is opened again.
func (l *Log) Append(batch []byte, leaderEpoch int32, opts AppendOptions) (AppendInfo, error) {
	h, err := parseWhole(batch)
	if err == nil {
		err = l.checkFromClient(h, len(batch), opts)
	}
	if err != nil {
		return AppendInfo{}, err
	}
	l.writer.lock()
	info, err := l.appendAsLeader(batch, h, leaderEpoch, opts)
	l.writer.unlock()
	return info, l.settle(info, err)
}

// parseWhole parses the batch at the start of b, which must be whole.
func parseWhole(b []byte) (header, error) {
	h, err := parseHeader(b)
	if err != nil {
		return h, err
	}
	if h.size > int64(len(b)) {
		return h, fmt.Errorf("%w: %d bytes of %d", ErrCorruptBatch, len(b), h.size)
	}
	return h, h.checkCRC(b)
}

func (l *Log) checkFromClient(h header, size int, opts AppendOptions) error {
	switch {
	case h.size != int64(size):
		return fmt.Errorf("%w: length says %d of %d bytes", ErrCorruptBatch, h.size, size)
	case size > l.opts.MaxBatchBytes:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrBatchTooLarge, size, l.opts.MaxBatchBytes)
	case h.recordCount == 0 || h.recordCount-1 != h.lastOffsetDelta:
		return fmt.Errorf("%w: %d records, last offset delta %d", ErrCorruptBatch, h.recordCount, h.lastOffsetDelta)
	case h.control() && opts.Origin != OriginCoordinator:
		return fmt.Errorf("%w: control batch from a client", ErrCorruptBatch)
	}
	return nil
}

// appendAsLeader does Append's work. Holds writer.
func (l *Log) appendAsLeader(batch []byte, h header, leaderEpoch int32, opts AppendOptions) (AppendInfo, error) {
	if err := l.writable(); err != nil {
		return AppendInfo{}, err
	}
	v := l.view.Load()
	if last, ok := v.epochs.latest(); leaderEpoch < 0 || ok && leaderEpoch < last.epoch {
		return AppendInfo{}, fmt.Errorf("%w: append in epoch %d, the log has %d", ErrLeaderEpoch, leaderEpoch, last.epoch)
	}
	repeat, err := l.producers.check(h, opts.Origin)
	if err != nil {
		return AppendInfo{}, err
	}
	if repeat != nil {
		return AppendInfo{
			BaseOffset: repeat.lastOffset - int64(repeat.offsetDelta), LastOffset: repeat.lastOffset,
			MaxTimestamp: repeat.maxTimestamp, LogStartOffset: v.start, Duplicate: true,
		}, nil
	}
	stamp(batch, l.next, leaderEpoch)
	if opts.LogAppendTimeMs > 0 {
		stampAppendTime(batch, opts.LogAppendTimeMs)
	}
	if h, err = parseHeader(batch); err != nil {
		return AppendInfo{}, err
	}
	if err := l.write(batch, []header{h}); err != nil {
		return AppendInfo{}, err
	}
	return AppendInfo{
		BaseOffset: h.baseOffset, LastOffset: h.lastOffset(),
		MaxTimestamp: h.maxTimestamp, LogStartOffset: v.start,
	}, nil
}

// AppendAsFollower appends batches fetched from the leader of leaderEpoch as
// they are. Each must continue the log (ErrNonContiguous) and be of a leader
// epoch neither below the log's nor above leaderEpoch (ErrLeaderEpoch; a
// leader that lost its epoch while it answered can send newer ones,
// KAFKA-18723). Batches before the first that may not come are appended all
// the same; info tells which. A batch cut off at the end is left for the next
// fetch.
func (l *Log) AppendAsFollower(batches []byte, leaderEpoch int32) (AppendInfo, error) {
	l.writer.lock()
	info, err := l.appendAsFollower(batches, leaderEpoch)
	l.writer.unlock()
	if info.LastOffset < info.BaseOffset {
		return info, err
	}
	return info, errors.Join(err, l.settle(info, nil))
}

// appendAsFollower does AppendAsFollower's work. Holds writer.
func (l *Log) appendAsFollower(batches []byte, leaderEpoch int32) (AppendInfo, error) {
	info := AppendInfo{BaseOffset: l.next, LastOffset: l.next - 1, MaxTimestamp: noTimestamp, LogStartOffset: l.view.Load().start}
	if err := l.writable(); err != nil {
		return info, err
	}
	headers, refused := l.checkFromLeader(batches, leaderEpoch)
	for len(headers) > 0 {
		n, size := l.run(headers)
		if err := l.write(batches[:size], headers[:n]); err != nil {
			return info, err
		}
		for _, h := range headers[:n] {
			info.LastOffset, info.MaxTimestamp = h.lastOffset(), max(info.MaxTimestamp, h.maxTimestamp)
		}
		headers, batches = headers[n:], batches[size:]
	}
	return info, refused
}

// checkFromLeader returns the headers of the batches that may be appended,
// and why the next may not.
func (l *Log) checkFromLeader(batches []byte, leaderEpoch int32) ([]header, error) {
	var headers []header
	next := l.next
	// An epoch without a record, of a leader that was deposed before it appended anything, binds nobody.
	last, _ := l.view.Load().epochs.truncateEnd(next).latest()
	for newest := last.epoch; len(batches) > 0; {
		h, err := parseHeader(batches)
		if len(headers) > 0 && (len(batches) < batchHeaderBytes || err == nil && h.size > int64(len(batches))) {
			return headers, nil
		}
		if err == nil {
			h, err = parseWhole(batches)
		}
		switch {
		case err != nil:
			return headers, err
		case h.baseOffset != next:
			return headers, fmt.Errorf("%w: batch at %d, log ends at %d", ErrNonContiguous, h.baseOffset, next)
		case h.leaderEpoch < newest || h.leaderEpoch > leaderEpoch:
			return headers, fmt.Errorf("%w: batch at %d of epoch %d, the log has %d, fetched in %d",
				ErrLeaderEpoch, h.baseOffset, h.leaderEpoch, newest, leaderEpoch)
		}
		headers = append(headers, h)
		next, newest = h.nextOffset(), h.leaderEpoch
		batches = batches[h.size:]
	}
	return headers, nil
}

// run returns how many of the batches go into one segment, and their bytes.
func (l *Log) run(headers []header) (n int, size int64) {
	active, nowMs := l.view.Load().active(), l.opts.Now().UnixMilli()
	if active.full(headers[0], 0, nowMs) {
		// They open a new segment: only its own bounds count.
		active = &segment{opts: &l.opts, base: headers[0].baseOffset, openedMs: nowMs}
	}
	for n = 0; n < len(headers) && !active.full(headers[n], size, nowMs); n++ {
		size += headers[n].size
	}
	return n, size
}

// write puts batches that belong into one segment behind the last and makes
// them known. When the disk refuses, what was written of them is taken back;
// if it refuses that too the log has failed. Holds writer.
func (l *Log) write(batches []byte, headers []header) error {
	active, err := l.rollFor(headers[0])
	if err != nil {
		return err
	}
	position := active.size.Load()
	err = active.withFile(func(file File) error {
		if _, err := file.WriteAt(batches, position); err != nil {
			if undo := file.Truncate(position); undo != nil {
				return l.fail("append to", errors.Join(err, undo))
			}
			return fmt.Errorf("%w: append to %s: %w", ErrStorage, l.dir, err)
		}
		return nil
	})
	switch {
	case errors.Is(err, ErrStorage):
		return err
	case err != nil:
		return fmt.Errorf("%w: append to %s: %w", ErrStorage, l.dir, err)
	}
	l.commit(active, headers)
	return nil
}

// commit makes written batches known: to the indexes, to the history of
// epochs, to the producers, at last to readers. Holds writer.
func (l *Log) commit(active *segment, headers []header) {
	nowMs := l.opts.Now().UnixMilli()
	position := active.size.Load()
	if position == 0 {
		active.openedMs = nowMs
	}
	for _, h := range headers {
		l.assignEpoch(epochEntry{h.leaderEpoch, h.baseOffset})
		l.producers.update(h, nowMs)
		active.note(h, position)
		position += h.size
	}
	l.untouched.Store(false)
	l.next = headers[len(headers)-1].nextOffset()
	active.size.Store(position)
	if l.opts.Flush == FlushNone {
		l.end.Store(l.next)
	}
}

// rollFor returns the segment the batch goes to, a new one if the active one
// is full. Holds writer.
func (l *Log) rollFor(h header) (*segment, error) {
	active := l.view.Load().active()
	if !active.full(h, 0, l.opts.Now().UnixMilli()) {
		return active, nil
	}
	return l.roll()
}

// roll seals the active segment and opens the next. Holds writer.
func (l *Log) roll() (*segment, error) {
	v := l.view.Load()
	active := newSegment(l, l.next, true)
	if err := active.withFile(func(file File) error { return file.Truncate(0) }); err != nil {
		return nil, fmt.Errorf("%w: new segment in %s: %w", ErrStorage, l.dir, errors.Join(err, active.close()))
	}
	l.untouched.Store(false)
	l.keepProducers(l.next)
	segments := append(v.segments[:len(v.segments):len(v.segments)], active)
	l.view.Store(&view{segments: segments, start: v.start, epochs: v.epochs})
	return active, nil
}

// settle waits, with FlushBatch, until an append is on disk.
func (l *Log) settle(info AppendInfo, err error) error {
	if err != nil || l.opts.Flush != FlushBatch {
		return err
	}
	return l.flushTo(info.LastOffset + 1)
}
