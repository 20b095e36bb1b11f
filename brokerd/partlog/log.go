package partlog

import (
	"fmt"
	"math"
	"sync/atomic"
)

const logSuffix = ".log"

// Log is one partition's log. Open makes one.
//
// Two gates order its changes. writer is held to append and to change what
// readers see; disk by slow work on files: flush, truncate, retain, close. Who
// needs both takes disk first. An append holds only writer, and with
// FlushBatch waits for disk after it has let writer go, so appends that wait
// together are flushed together. Readers hold neither.
type Log struct {
	dir       string
	opts      Options
	recovered Recovered

	disk, writer gate

	// view, end, flushed and generation are what readers go by.
	view atomic.Pointer[view]
	// end is the offset behind the last batch that may be read: all that were
	// written or, with FlushBatch, all that are on disk.
	end atomic.Int64
	// flushed is an offset below which all is on disk. It moves under disk.
	flushed atomic.Int64
	// generation is odd while written batches are being taken back; a reader
	// that saw it change reads again.
	generation atomic.Uint64

	// failure, once set, is what every later change returns.
	failure atomic.Pointer[error]
	closed  atomic.Bool
	// untouched says that nothing changed since the files were left clean.
	untouched atomic.Bool

	// next is the offset of the next batch. Under writer, as the following.
	next      int64
	producers *producers
	// snapshot is the state of the producers at the last roll, truncation or
	// recovery, to be saved when the sealed segments are.
	snapshot *pendingSnapshot
	// savedPoint is the recovery point in partition.meta. Under disk, as the
	// following.
	savedPoint int64
	// epochsSaved is the history that leader-epochs holds; epochsUnsaved says
	// that it holds nothing of use.
	epochsSaved   epochHistory
	epochsUnsaved bool
	// foundSynced says that the names Open found, the directory's own among
	// them, are on disk: a killed process may not have got that far.
	foundSynced bool
}

// view is what the log consists of at one moment. It is never changed.
type view struct {
	// segments by base offset, at least one; the last is appended to.
	segments []*segment
	start    int64
	epochs   epochHistory
}

func (v *view) active() *segment { return v.segments[len(v.segments)-1] }

type pendingSnapshot struct {
	offset int64
	body   []byte
}

// Recovered tells what Open had to repair.
func (l *Log) Recovered() Recovered { return l.recovered }

// Dir is the log's directory.
func (l *Log) Dir() string { return l.dir }

// StartOffset is the first offset that may be read.
func (l *Log) StartOffset() int64 { return l.view.Load().start }

// EndOffset is the offset behind the last record that may be read. It is the
// offset the next record gets, but with FlushBatch moves only once the
// records below it are on disk.
func (l *Log) EndOffset() int64 { return l.end.Load() }

// FlushedOffset is an offset below which everything is on disk.
func (l *Log) FlushedOffset() int64 { return l.flushed.Load() }

// SizeBytes is the size of all batches on disk.
func (l *Log) SizeBytes() int64 {
	var sum int64
	for _, s := range l.view.Load().segments {
		sum += s.size.Load()
	}
	return sum
}

// Segments is how many segments the log has.
func (l *Log) Segments() int { return len(l.view.Load().segments) }

// SetSegmentBytes changes Options.SegmentBytes (segment.bytes) for the appends
// to come.
func (l *Log) SetSegmentBytes(bytes int64) {
	l.writer.lock()
	defer l.writer.unlock()
	l.opts.SegmentBytes = min(max(bytes, 1), math.MaxInt32)
}

// LatestEpoch is the newest leader epoch the log knows, false if none.
func (l *Log) LatestEpoch() (int32, bool) {
	last, ok := l.view.Load().epochs.latest()
	return last.epoch, ok
}

// EndOffsetForEpoch returns the largest leader epoch of the log not above
// epoch and the offset where it ends (Kafka's
// LeaderEpochFileCache.endOffsetFor). NoEpoch and NoOffset say that the log
// knows nothing of it: epoch is negative or newer than all, or there are none.
func (l *Log) EndOffsetForEpoch(epoch int32) (int32, int64) {
	end := l.end.Load()
	return l.view.Load().epochs.endOffsetFor(epoch, end)
}

// AssignEpoch notes that the records from startOffset on are of leader epoch
// epoch: what a replica does when it becomes leader. Later entries that
// contradict it are dropped. The note reaches the disk no later than the
// records it is about.
func (l *Log) AssignEpoch(epoch int32, startOffset int64) error {
	if epoch < 0 || startOffset < 0 {
		return fmt.Errorf("%w: epoch %d from offset %d", ErrLeaderEpoch, epoch, startOffset)
	}
	l.writer.lock()
	defer l.writer.unlock()
	if err := l.writable(); err != nil {
		return err
	}
	l.assignEpoch(epochEntry{epoch, startOffset})
	return nil
}

// assignEpoch publishes a history that knows entry. Holds writer.
func (l *Log) assignEpoch(entry epochEntry) {
	v := l.view.Load()
	epochs, changed := v.epochs.assign(entry)
	if !changed {
		return
	}
	l.untouched.Store(false)
	l.view.Store(&view{segments: v.segments, start: v.start, epochs: epochs})
}

// writable says why nothing may be changed any more, if so.
func (l *Log) writable() error {
	if l.closed.Load() {
		return ErrClosed
	}
	if failure := l.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// fail makes err the answer to every later change: the files may no longer be
// what the log believes.
func (l *Log) fail(action string, err error) error {
	failed := fmt.Errorf("%w: %s %s: %w", ErrStorage, action, l.dir, err)
	l.failure.CompareAndSwap(nil, &failed)
	return failed
}
