package partlog

import (
	"fmt"
	"path/filepath"
	"slices"
)

// checkpointBytes is how much of the active segment may be written before
// Retain makes it durable: it bounds what recovery has to check.
const checkpointBytes = 64 << 20

// Flush makes durable everything appended before the call. Calls that wait
// for each other share one fsync. A failed fsync fails the log (ErrStorage):
// what the kernel then still holds in memory says nothing about the disk.
func (l *Log) Flush() error {
	l.writer.lock()
	next, err := l.next, l.writable()
	l.writer.unlock()
	if err != nil {
		return err
	}
	return l.flushTo(next)
}

// flushTo returns once everything below target is on disk.
func (l *Log) flushTo(target int64) error {
	if l.flushed.Load() >= target {
		return nil
	}
	l.disk.lock()
	defer l.disk.unlock()
	if l.flushed.Load() >= target {
		return nil
	}
	if err := l.flush(); err != nil {
		return err
	}
	if l.flushed.Load() < target {
		return fmt.Errorf("%w: %s was truncated below %d before it was flushed", ErrStorage, l.dir, target)
	}
	return nil
}

// flush makes durable all that is written. Holds disk.
func (l *Log) flush() error {
	l.writer.lock()
	err := l.writable()
	target, v := l.next, l.view.Load()
	sizes := sizesOf(v.segments)
	l.writer.unlock()
	if err != nil {
		return err
	}
	if err := l.syncSegments(v.segments, sizes); err != nil {
		return l.fail("flush", err)
	}
	l.flushed.Store(target)
	l.writer.lock()
	if l.opts.Flush == FlushBatch && l.failure.Load() == nil {
		l.end.Store(target)
	}
	l.writer.unlock()
	return nil
}

func sizesOf(segments []*segment) []int64 {
	sizes := make([]int64, len(segments))
	for i, s := range segments {
		sizes[i] = s.size.Load()
	}
	return sizes
}

// syncSegments makes the segments durable up to the given sizes, and their
// names. Holds disk.
func (l *Log) syncSegments(segments []*segment, sizes []int64) error {
	fresh := !l.foundSynced
	for i, s := range segments {
		fresh = fresh || s.fresh
		if s.synced >= sizes[i] {
			continue
		}
		if err := s.withFile(func(file File) error { return file.Sync() }); err != nil {
			return fmt.Errorf("segment %d: %w", s.base, err)
		}
		s.synced = sizes[i]
	}
	if !fresh {
		return nil
	}
	return l.syncNames(segments)
}

// syncNames makes durable that the segments' files, and the directory, exist.
func (l *Log) syncNames(segments []*segment) error {
	if err := l.opts.FS.SyncDir(l.dir); err != nil {
		return err
	}
	for _, s := range segments {
		s.fresh = false
	}
	if l.foundSynced {
		return nil
	}
	if err := l.opts.FS.SyncDir(filepath.Dir(l.dir)); err != nil {
		return err
	}
	l.foundSynced = true
	return nil
}

// saveMeta writes partition.meta. Holds disk.
func (l *Log) saveMeta(clean bool) error {
	l.writer.lock()
	m, epochs := l.describe(clean), l.view.Load().epochs
	l.writer.unlock()
	return l.writeMeta(m, epochs)
}

// describe is what partition.meta says of the log now. Holds writer.
func (l *Log) describe(clean bool) meta {
	v := l.view.Load()
	return meta{
		topicID: l.opts.TopicID, partition: l.opts.Partition,
		start: v.start, recoveryPoint: l.flushed.Load(),
		clean: clean, end: l.next, activeBase: v.active().base, activeSize: v.active().size.Load(),
	}
}

// writeMeta writes partition.meta, and first the epochs that it vouches for.
// Holds disk.
func (l *Log) writeMeta(m meta, epochs epochHistory) error {
	if l.epochsUnsaved || !slices.Equal(epochs, l.epochsSaved) {
		if err := writeEpochs(l.opts.FS, l.dir, epochs); err != nil {
			return err
		}
		l.epochsSaved, l.epochsUnsaved = epochs, false
	}
	if err := writeMeta(l.opts.FS, l.dir, m, true); err != nil {
		return err
	}
	l.savedPoint = m.recoveryPoint
	if !m.clean {
		l.untouched.Store(false)
	}
	return nil
}
