package history

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/klauspost/compress/zstd"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// Bounds by default.
const (
	// DefaultMaxBytes of all segments.
	DefaultMaxBytes = 1 << 30
	// DefaultMaxAge of the last entry of a segment.
	DefaultMaxAge = 30 * 24 * time.Hour
	// DefaultSegmentBytes after which a new segment begins.
	DefaultSegmentBytes = 64 << 20
	// blockBytes of entries make a block, however little time has passed.
	blockBytes = 256 << 10
)

// Options of a Log; what is 0 takes its default.
type Options struct {
	// Dir is where the segments are. It is made if it is not there.
	Dir string
	// MaxBytes of all segments: the oldest go first, the newest never.
	MaxBytes int64
	// MaxAge of a segment's last entry.
	MaxAge time.Duration
	// SegmentBytes after which a new segment begins.
	SegmentBytes int64
	Logger       hclog.Logger
}

func (o Options) withDefaults() Options {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxAge <= 0 {
		o.MaxAge = DefaultMaxAge
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = min(DefaultSegmentBytes, max(o.MaxBytes/4, 1))
	}
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	return o
}

// Log is the history on disk. Begin, Append, Flush, Sync, Retain and Close are the writer's; all else is for any goroutine.
type Log struct {
	o       Options
	encoder *zstd.Encoder

	// What follows is the writer's.
	image   *fsm.Image // after the last entry that was appended; nil before the first Begin
	file    *os.File   // of the last segment, nil before the first Begin
	pending block      // appended and not yet written
	written bool       // to file and not yet synced

	// mu guards the following. It is never held across I/O.
	mu sync.Mutex
	// segments by metadata offset, as far as they are written.
	segments []segment
}

// Open opens the history in a directory and reads its last segment. What a crash left unfinished at its end is cut off; an
// older segment is read when somebody asks for it.
func Open(o Options) (*Log, error) {
	o = o.withDefaults()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, err
	}
	l := &Log{o: o, encoder: encoder}
	if err := l.load(); err != nil {
		return nil, fmt.Errorf("open the history in %s: %w", o.Dir, err)
	}
	return l, nil
}

// load finds the segments. One that cannot be read is left where it is and not used.
func (l *Log) load() error {
	offsets, leftovers, err := segmentFiles(l.o.Dir)
	if err != nil {
		return err
	}
	for _, name := range leftovers {
		if err := os.Remove(filepath.Join(l.o.Dir, name)); err != nil {
			return err
		}
	}
	for _, first := range offsets {
		s, err := skim(segmentPath(l.o.Dir, first))
		if err != nil {
			l.o.Logger.Warn("a segment of the history cannot be read and is left out", "error", err)
			continue
		}
		l.segments = append(l.segments, s)
	}
	return l.loadLast()
}

// loadLast reads the newest segment that is sound at its head, and goes on behind what is whole of it.
func (l *Log) loadLast() error {
	decoder, err := newDecoder()
	if err != nil {
		return err
	}
	defer decoder.Close()
	for n := len(l.segments) - 1; n >= 0; n-- {
		s, err := scan(l.segments[n].path, decoder)
		if err != nil {
			l.o.Logger.Warn("a segment of the history cannot be read and is left out", "error", err)
			l.segments = l.segments[:n]
			continue
		}
		if s.fault != nil {
			l.o.Logger.Warn("the history is cut off behind what is whole of it", "file", s.path, "next-metadata-offset", s.Next, "error", s.fault)
		}
		l.segments[n] = s.segment
		return l.resume(s)
	}
	return nil
}

// resume makes the last segment the one that is written.
func (l *Log) resume(last *scanned) error {
	f, err := os.OpenFile(last.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err := f.Truncate(last.Bytes); err != nil {
		return errors.Join(err, f.Close())
	}
	if _, err := f.Seek(last.Bytes, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.image = f, last.image
	return nil
}

// Image is the image after the last entry, nil if there is no segment yet.
func (l *Log) Image() *fsm.Image { return l.image }

// Spans lists what is there, oldest first.
func (l *Log) Spans() []Span {
	l.mu.Lock()
	defer l.mu.Unlock()
	spans := make([]Span, 0, len(l.segments))
	for _, s := range l.segments {
		spans = append(spans, s.Span)
	}
	return spans
}

// copySegments returns the segments as they are now.
func (l *Log) copySegments() []segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.segments)
}

// Begin starts a new segment at an image: the first one, or after a gap.
func (l *Log) Begin(img *fsm.Image) error {
	if err := l.finish(); err != nil {
		return err
	}
	s, err := create(l.o.Dir, img, l.encoder)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.segments = slices.DeleteFunc(l.segments, func(old segment) bool { return old.path == s.path })
	l.segments = append(l.segments, s)
	l.mu.Unlock()
	return l.resume(&scanned{segment: s, image: img})
}

// finish writes what is pending and closes the segment that is being written.
func (l *Log) finish() error {
	if l.file == nil {
		return nil
	}
	err := errors.Join(l.Sync(), l.file.Close())
	l.file = nil
	return err
}

// Append takes the entry that follows the image. It is written with the next Flush, or when enough has come together.
func (l *Log) Append(e *controllerv1.EntryApplied) error {
	img, err := follow(l.image, e)
	if err != nil {
		return err
	}
	if err := l.pending.add(e, img.NextOffset(), img.LastBatchTimeMs()); err != nil {
		return err
	}
	l.image = img
	if len(l.pending.entries) < blockBytes {
		return nil
	}
	return l.Flush()
}

// Flush writes what is pending, so that readers see it, and begins a new segment when the present one is full.
func (l *Log) Flush() error {
	if len(l.pending.entries) == 0 {
		return nil
	}
	frame := appendFrame(nil, frameBlock, l.pending.payload(l.encoder))
	if _, err := l.file.Write(frame); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	l.written = true
	l.mu.Lock()
	last := &l.segments[len(l.segments)-1]
	last.Next, last.LastMs, last.Bytes = l.pending.next, l.pending.timeMs, last.Bytes+int64(len(frame))
	full := last.Bytes >= l.o.SegmentBytes
	l.mu.Unlock()
	l.pending = block{}
	if !full {
		return nil
	}
	return l.Begin(l.image)
}

// Sync makes everything that was appended survive a power cut.
func (l *Log) Sync() error {
	if err := l.Flush(); err != nil || !l.written {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync the history: %w", err)
	}
	l.written = false
	return nil
}

// Retain removes the oldest segments beyond the bounds and returns how many. The newest one stays.
func (l *Log) Retain(now time.Time) (int, error) {
	segments := l.copySegments()
	bytes := int64(0)
	for _, s := range segments {
		bytes += s.Bytes
	}
	oldest := now.Add(-l.o.MaxAge).UnixMilli()
	removed := 0
	for _, s := range segments[:max(len(segments)-1, 0)] {
		if bytes <= l.o.MaxBytes && s.LastMs >= oldest {
			break
		}
		if err := os.Remove(s.path); err != nil {
			return removed, err
		}
		bytes -= s.Bytes
		removed++
		l.mu.Lock()
		l.segments = l.segments[1:]
		l.mu.Unlock()
	}
	return removed, nil
}

// Abandon gives up what is pending and the segment that is being written, after a fault of the disk: the next Begin starts
// another one. What is written of it stays.
func (l *Log) Abandon() {
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.image, l.pending, l.written = nil, nil, block{}, false
}

// Close writes and syncs what is pending.
func (l *Log) Close() error { return l.finish() }
