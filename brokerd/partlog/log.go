package partlog

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// Log is one partition's log.
type Log struct {
	dir  string
	opts Options

	// mu guards the following.
	mu       sync.Mutex
	file     File
	batches  []placed
	start    int64
	end      int64
	size     int64
	epochs   epochHistory
	closed   bool
	failed   error
	recovery Recovered
}

// placed is a batch and where it stands.
type placed struct {
	header
	position int64
}

// Recovered says what Open found when the log was not closed cleanly.
type Recovered struct {
	// Unclean says that the log had not been closed, and was walked.
	Unclean bool
	// CutAt is the offset at which the log was cut, -1 if it was whole;
	// CutBytes is how much was cut, Reason why.
	CutAt, CutBytes int64
	Reason          string
}

// Open opens the log in dir, or makes a new one there.
func Open(dir string, opts Options) (*Log, error) {
	l := &Log{dir: dir, opts: opts.withDefaults(), recovery: Recovered{CutAt: -1}}
	if err := l.opts.FS.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	file, err := l.opts.FS.Open(filepath.Join(dir, fmt.Sprintf("%020d.log", 0)), true)
	if err != nil {
		return nil, fmt.Errorf("open segment in %s: %w", dir, err)
	}
	l.file = file
	return l, l.walk()
}

func (l *Log) walk() error {
	size, err := l.file.Size()
	if err != nil {
		return err
	}
	l.recovery.Unclean = size > 0
	for l.size < size {
		h, err := l.readBatch(l.size, size)
		if err != nil {
			l.recovery.CutAt, l.recovery.CutBytes, l.recovery.Reason = l.end, size-l.size, err.Error()
			return l.file.Truncate(l.size)
		}
		l.adopt(h)
	}
	return nil
}

func (l *Log) readBatch(position, size int64) (header, error) {
	if size-position < batchHeaderBytes {
		return header{}, fmt.Errorf("%w: %d bytes at the end", ErrCorruptBatch, size-position)
	}
	b := make([]byte, batchHeaderBytes)
	if _, err := l.file.ReadAt(b, position); err != nil {
		return header{}, err
	}
	h, err := parseHeader(b)
	switch {
	case err != nil:
		return h, err
	case h.size > size-position:
		return h, fmt.Errorf("%w: %d bytes of %d", ErrCorruptBatch, size-position, h.size)
	case len(l.batches) > 0 && h.baseOffset != l.end:
		return h, fmt.Errorf("%w: base offset %d, want %d", ErrCorruptBatch, h.baseOffset, l.end)
	}
	b = make([]byte, h.size)
	if _, err := l.file.ReadAt(b, position); err != nil {
		return h, err
	}
	return h, h.checkCRC(b)
}

func (l *Log) adopt(h header) {
	if len(l.batches) == 0 {
		l.start = h.baseOffset
	}
	l.batches = append(l.batches, placed{h, l.size})
	l.size += h.size
	l.end = h.nextOffset()
	l.epochs, _ = l.epochs.assign(epochEntry{h.leaderEpoch, h.baseOffset})
}

// Recovered tells what Open had to repair.
func (l *Log) Recovered() Recovered { return l.recovery }

// Append appends one record batch as leader. It stamps base offset, leader
// epoch and, if asked, the append time into batch in place.
func (l *Log) Append(batch []byte, leaderEpoch int32, opts AppendOptions) (AppendInfo, error) {
	h, err := parseHeader(batch)
	if err == nil && h.size != int64(len(batch)) {
		err = fmt.Errorf("%w: length says %d of %d bytes", ErrCorruptBatch, h.size, len(batch))
	}
	if err == nil {
		err = h.checkCRC(batch)
	}
	if err != nil {
		return AppendInfo{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return AppendInfo{}, err
	}
	if last, ok := l.epochs.latest(); ok && leaderEpoch < last.epoch {
		return AppendInfo{}, fmt.Errorf("%w: append in epoch %d, the log has %d", ErrLeaderEpoch, leaderEpoch, last.epoch)
	}
	stamp(batch, l.end, leaderEpoch)
	if opts.LogAppendTimeMs > 0 {
		stampAppendTime(batch, opts.LogAppendTimeMs)
	}
	if h, err = parseHeader(batch); err != nil {
		return AppendInfo{}, err
	}
	if err := l.write(batch); err != nil {
		return AppendInfo{}, err
	}
	l.adopt(h)
	return AppendInfo{BaseOffset: h.baseOffset, LastOffset: h.lastOffset(), MaxTimestamp: h.maxTimestamp, LogStartOffset: l.start}, nil
}

// AppendAsFollower appends batches fetched from the leader as they are. They
// must continue the log, and none may be of a leader epoch above leaderEpoch.
func (l *Log) AppendAsFollower(batches []byte, leaderEpoch int32) (AppendInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info := AppendInfo{BaseOffset: l.end, LastOffset: l.end - 1, MaxTimestamp: -1, LogStartOffset: l.start}
	if err := l.writable(); err != nil {
		return info, err
	}
	for len(batches) > 0 {
		h, err := parseHeader(batches)
		if err == nil && h.size > int64(len(batches)) {
			err = fmt.Errorf("%w: %d bytes of %d", ErrCorruptBatch, len(batches), h.size)
		}
		if err == nil {
			err = h.checkCRC(batches)
		}
		if err != nil {
			return info, err
		}
		last, ok := l.epochs.latest()
		switch {
		case h.baseOffset != l.end:
			return info, fmt.Errorf("%w: batch at %d, log ends at %d", ErrNonContiguous, h.baseOffset, l.end)
		case h.leaderEpoch > leaderEpoch || (ok && h.leaderEpoch < last.epoch):
			return info, fmt.Errorf("%w: batch of epoch %d, fetched in %d", ErrLeaderEpoch, h.leaderEpoch, leaderEpoch)
		}
		if err := l.write(batches[:h.size]); err != nil {
			return info, err
		}
		l.adopt(h)
		info.LastOffset, info.MaxTimestamp = h.lastOffset(), max(info.MaxTimestamp, h.maxTimestamp)
		batches = batches[h.size:]
	}
	return info, nil
}

func (l *Log) writable() error {
	if l.closed {
		return ErrClosed
	}
	return l.failed
}

func (l *Log) write(b []byte) error {
	_, err := l.file.WriteAt(b, l.size)
	if err == nil && l.opts.Flush == FlushBatch {
		err = l.file.Sync()
	}
	if err != nil {
		l.failed = fmt.Errorf("%w: append to %s: %w", ErrStorage, l.dir, err)
		return l.failed
	}
	return nil
}

// Read returns whole batches from the one containing offset, none of them
// reaching upTo or beyond, of at most maxBytes together; with minOneBatch the
// first is returned even if it is larger.
func (l *Log) Read(offset int64, maxBytes int, upTo int64, minOneBatch bool) (ReadInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	info := ReadInfo{FirstOffset: offset, NextOffset: offset}
	if l.closed {
		return info, ErrClosed
	}
	if offset < l.start || offset > l.end {
		return info, fmt.Errorf("%w: %d, the log holds %d to %d", ErrOffsetOutOfRange, offset, l.start, l.end)
	}
	for i, b := range l.batches {
		if b.lastOffset() < offset {
			continue
		}
		first := i
		var n int64
		for ; i < len(l.batches) && l.batches[i].lastOffset() < upTo; i++ {
			if n+l.batches[i].size > int64(maxBytes) && (n > 0 || !minOneBatch) {
				break
			}
			n += l.batches[i].size
			info.NextOffset = l.batches[i].nextOffset()
		}
		info.FirstOffset, info.Records = l.batches[first].baseOffset, make([]byte, n)
		_, err := l.file.ReadAt(info.Records, b.position)
		return info, err
	}
	return info, nil
}

// StartOffset is the first offset that may be read.
func (l *Log) StartOffset() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.start }

// EndOffset is the offset the next record gets.
func (l *Log) EndOffset() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.end }

// SizeBytes is the size of all batches.
func (l *Log) SizeBytes() int64 { l.mu.Lock(); defer l.mu.Unlock(); return l.size }

// LatestEpoch is the leader epoch last assigned, false if there is none.
func (l *Log) LatestEpoch() (int32, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, ok := l.epochs.latest()
	return last.epoch, ok
}

// EndOffsetForEpoch returns the largest leader epoch of the log not above
// epoch and the offset where it ends, or NoEpoch and NoOffset.
func (l *Log) EndOffsetForEpoch(epoch int32) (int32, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.endOffsetFor(epoch, l.end)
}

// AssignEpoch records that leader epoch epoch starts at startOffset.
func (l *Log) AssignEpoch(epoch int32, startOffset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochs, _ = l.epochs.assign(epochEntry{epoch, startOffset})
	return l.writable()
}

// TruncateTo cuts the log to the largest batch boundary not above offset.
func (l *Log) TruncateTo(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	for n := len(l.batches); n > 0 && l.batches[n-1].lastOffset() >= offset; n = len(l.batches) {
		l.end, l.size = l.batches[n-1].baseOffset, l.batches[n-1].position
		l.batches = l.batches[:n-1]
	}
	l.epochs = l.epochs.truncateEnd(l.end)
	return l.file.Truncate(l.size)
}

// TruncateFullyAndStartAt drops everything; the log then starts and ends at
// offset.
func (l *Log) TruncateFullyAndStartAt(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	l.batches, l.size, l.start, l.end, l.epochs = nil, 0, offset, offset, nil
	return l.file.Truncate(0)
}

// OffsetForTimestamp finds the first record of timestamp ts or newer.
func (l *Log) OffsetForTimestamp(ts int64) (offset, timestamp int64, epoch int32, found bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.batches {
		if b.maxTimestamp >= ts {
			return b.baseOffset, b.maxTimestamp, b.leaderEpoch, true, nil
		}
	}
	return NoOffset, -1, NoEpoch, false, nil
}

// MaxTimestampOffset finds the first record with the newest timestamp.
func (l *Log) MaxTimestampOffset() (offset, timestamp int64, epoch int32, found bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	offset, timestamp, epoch = NoOffset, -1, NoEpoch
	for _, b := range l.batches {
		if b.maxTimestamp > timestamp {
			offset, timestamp, epoch, found = b.baseOffset, b.maxTimestamp, b.leaderEpoch, true
		}
	}
	return offset, timestamp, epoch, found, nil
}

// SetStartOffset moves the start offset up; below the present one it does
// nothing.
func (l *Log) SetStartOffset(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset > l.end {
		return fmt.Errorf("%w: start %d above end %d", ErrOffsetOutOfRange, offset, l.end)
	}
	l.start = max(l.start, offset)
	return l.writable()
}

// Retain deletes whole sealed segments the policy no longer keeps and returns
// how many.
func (l *Log) Retain(policy RetentionPolicy, now time.Time) (deleted int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 0, l.writable()
}

// Flush makes durable everything appended before the call.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writable(); err != nil {
		return err
	}
	return l.file.Sync()
}

// Close flushes the log and marks it clean, so that the next Open trusts it.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return l.file.Close()
}

// Delete closes the log and removes its directory.
func (l *Log) Delete() error {
	if err := l.Close(); err != nil {
		return err
	}
	return l.opts.FS.RemoveAll(l.dir)
}
