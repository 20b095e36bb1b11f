package partlog

import (
	"errors"
	"math"
	"sync/atomic"
)

// noTimestamp is the newest timestamp of no batches, and of batches that
// carry none.
const noTimestamp int64 = -1

// segment is one log file and its indexes. All but the last of a log are
// sealed: nothing is appended to them.
type segment struct {
	opts  *Options
	dir   string
	base  int64
	log   *handle
	fresh bool // the file was made since the directory was last synced; Log.disk

	// size is how many bytes of whole batches stand in the file; readers look
	// no further. Moved by the holder of Log.writer.
	size atomic.Int64
	// index is the index in memory; nil says that the index files have it.
	index atomic.Pointer[index]
	// newest is the newest timestamp, newestOffset the base offset of the
	// first batch that has it. Known once index is set or onFile is.
	newest, newestOffset atomic.Int64

	// builder is how the index goes on. Log.writer
	builder indexBuilder
	// openedMs is when the first batch came, or the segment was made, by the
	// broker's clock. Log.writer
	openedMs int64
	// synced is how many bytes were on disk at the last fsync. Log.disk
	synced int64

	// loading is held by who reads or rebuilds the index.
	loading gate
	// onFile describes the verified index files; nil as long as they are not.
	onFile atomic.Pointer[indexFiles]
}

// indexFiles are the index files of a sealed segment, found sound.
type indexFiles struct {
	offsets, times *handle
	entries        int
}

// newSegment describes the segment at base; create lets its file be made.
func newSegment(l *Log, base int64, create bool) *segment {
	s := &segment{opts: &l.opts, dir: l.dir, base: base, fresh: create, loading: newGate()}
	s.log = newHandle(l.opts.FS, l.opts.Files, segmentFile(l.dir, base, logSuffix), create)
	s.openedMs = l.opts.Now().UnixMilli()
	if create {
		s.adopt(newIndexBuilder(base, l.opts.IndexIntervalBytes))
	}
	return s
}

// adopt takes what a walk over the segment has built as its index.
func (s *segment) adopt(b indexBuilder) {
	s.builder = b
	s.newest.Store(b.newest)
	s.newestOffset.Store(b.newestOffset)
	s.index.Store(&index{entries: b.entries})
}

// note takes a batch that was written at position into the index.
func (s *segment) note(h header, position int64) {
	entries := len(s.builder.entries)
	s.builder.add(h, position)
	s.newest.Store(s.builder.newest)
	s.newestOffset.Store(s.builder.newestOffset)
	if len(s.builder.entries) > entries {
		s.index.Store(&index{entries: s.builder.entries})
	}
}

// full says whether a batch of header h, behind pending bytes that are about
// to be written, must go to a new segment.
func (s *segment) full(h header, pending, nowMs int64) bool {
	size := s.size.Load() + pending
	switch {
	case size == 0:
		return false
	case size+h.size > s.opts.SegmentBytes:
		return true
	case h.lastOffset()-s.base > math.MaxInt32:
		return true
	}
	return nowMs-s.openedMs >= s.opts.SegmentAge.Milliseconds()
}

// walker returns a walker over the batches from position on, through window.
func (s *segment) walker(file File, window []byte, position int64) walker {
	return walker{file: file, position: position, limit: s.size.Load(), window: window}
}

// withFile runs use on the open log file.
func (s *segment) withFile(use func(File) error) error {
	file, err := s.log.acquire()
	if err != nil {
		return err
	}
	defer s.log.release()
	return use(file)
}

// close lets go of all files; who reads them may finish.
func (s *segment) close() error {
	return errors.Join(s.log.drop(), s.leaveFiles())
}

// remove closes the segment and unlinks its files, the log first: an index
// without a log is litter, a log without an index is not.
func (s *segment) remove() error {
	err := s.close()
	for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix} {
		err = errors.Join(err, removeFile(s.opts.FS, segmentFile(s.dir, s.base, suffix)))
	}
	return err
}
