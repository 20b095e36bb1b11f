package partlog

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Close makes the log durable and marks it clean, so that the next Open need
// check nothing. Later calls return ErrClosed; reads in progress finish. A log
// that has failed is closed without the mark, and the failure returned.
func (l *Log) Close() error {
	l.disk.lock()
	defer l.disk.unlock()
	if l.closed.Load() {
		return nil
	}
	err := l.settleAll()
	return errors.Join(err, l.shut())
}

// Delete closes the log and removes its directory.
func (l *Log) Delete() error {
	l.disk.lock()
	defer l.disk.unlock()
	err := l.shut()
	fsys := l.opts.FS
	if err := errors.Join(err, fsys.RemoveAll(l.dir), fsys.SyncDir(filepath.Dir(l.dir))); err != nil {
		return fmt.Errorf("delete %s: %w", l.dir, err)
	}
	return nil
}

// settleAll brings everything to disk, partition.meta's clean mark last.
// Holds disk.
func (l *Log) settleAll() error {
	// From here on nobody appends.
	l.writer.lock()
	err := l.writable()
	l.writer.unlock()
	if err != nil || l.untouched.Load() {
		return err
	}
	if err := l.flush(); err != nil {
		return err
	}
	l.writer.lock()
	defer l.writer.unlock()
	if l.flushed.Load() < l.next {
		// An append came between: bring it to disk as well, keeping others out.
		v := l.view.Load()
		if err := l.syncSegments(v.segments, sizesOf(v.segments)); err != nil {
			return l.fail("flush", err)
		}
		l.flushed.Store(l.next)
	}
	l.end.Store(l.next)
	if err := l.saveAll(); err != nil {
		return fmt.Errorf("close %s: %w", l.dir, err)
	}
	// Appends are refused before the gate opens: what the mark says stays so.
	l.closed.Store(true)
	return nil
}

// saveAll writes every file that the next Open would like to find. Holds both
// gates.
func (l *Log) saveAll() error {
	v := l.view.Load()
	for _, s := range v.segments {
		if err := s.saveIndex(true); err != nil {
			return err
		}
	}
	if err := l.saveSnapshot(&pendingSnapshot{l.next, l.producers.encode(l.next)}); err != nil {
		return err
	}
	return l.writeMeta(l.describe(true), v.epochs)
}

// shut lets go of every file.
func (l *Log) shut() error {
	l.writer.lock()
	defer l.writer.unlock()
	l.closed.Store(true)
	var err error
	for _, s := range l.view.Load().segments {
		err = errors.Join(err, s.close())
	}
	return err
}
