package partlog

import (
	"errors"
	"io"
)

// seekOffset returns a position from which a walk finds the batch that holds
// offset.
func (s *segment) seekOffset(offset int64) (int64, error) {
	x, files, err := s.indexes()
	switch {
	case err != nil:
		return 0, err
	case x != nil:
		return x.seekOffset(offset - s.base), nil
	}
	return files.seekOffset(offset - s.base)
}

// seekTime returns a position before which all batches are older than ts.
func (s *segment) seekTime(ts int64) (int64, error) {
	x, files, err := s.indexes()
	switch {
	case err != nil:
		return 0, err
	case x != nil:
		return x.seekTime(ts), nil
	}
	relative, err := files.seekTime(ts)
	if err != nil || relative == 0 {
		return 0, err
	}
	return s.seekOffset(s.base + relative)
}

// newestTimestamp returns the newest timestamp of the segment and the base
// offset of the first batch that has it.
func (s *segment) newestTimestamp() (timestamp, offset int64, err error) {
	if _, _, err := s.indexes(); err != nil {
		return 0, 0, err
	}
	return s.newest.Load(), s.newestOffset.Load(), nil
}

// indexes returns the index: in memory, or else its files, found sound. If
// neither is to be had it is built anew from the log.
func (s *segment) indexes() (*index, *indexFiles, error) {
	if x, files := s.index.Load(), s.onFile.Load(); x != nil || files != nil {
		return x, files, nil
	}
	s.loading.lock()
	defer s.loading.unlock()
	if x, files := s.index.Load(), s.onFile.Load(); x != nil || files != nil {
		return x, files, nil
	}
	x, head, err := s.readIndexFiles()
	if err == nil {
		s.newest.Store(head.newest)
		s.newestOffset.Store(head.newestOffset)
		s.useFiles(len(x.entries))
		return nil, s.onFile.Load(), nil
	}
	b, err := s.buildIndex()
	if err != nil {
		return nil, nil, err
	}
	s.adopt(b)
	return s.index.Load(), nil, nil
}

// readIndexFiles reads the index files and compares them with the log file.
func (s *segment) readIndexFiles() (*index, indexHead, error) {
	x, head, err := readIndexFiles(s.opts.FS, s.dir, s.base)
	if err == nil && (head.base != s.base || head.logBytes != s.size.Load()) {
		err = errDamaged
	}
	return x, head, err
}

func (s *segment) useFiles(entries int) {
	s.onFile.Store(&indexFiles{
		offsets: newHandle(s.opts.FS, s.opts.Files, segmentFile(s.dir, s.base, indexSuffix), false),
		times:   newHandle(s.opts.FS, s.opts.Files, segmentFile(s.dir, s.base, timeIndexSuffix), false),
		entries: entries,
	})
}

// buildIndex walks the segment. Where no batch stands any more it stops: what
// lies before can be found, reading what lies behind reports it.
func (s *segment) buildIndex() (indexBuilder, error) {
	b := newIndexBuilder(s.base, s.opts.IndexIntervalBytes)
	err := s.withFile(func(file File) error {
		w := s.walker(file, make([]byte, scanWindowBytes), 0)
		for {
			h, err := w.header()
			if errors.Is(err, io.EOF) || errors.Is(err, ErrCorruptBatch) {
				return nil
			}
			if err != nil {
				return err
			}
			b.add(h, w.position)
			w.skip(h)
		}
	})
	return b, err
}

// loadIndex brings the index into memory and leaves the files, for a segment
// that is about to be cut or appended to.
func (s *segment) loadIndex() error {
	if s.index.Load() != nil {
		return nil
	}
	x, head, err := s.readIndexFiles()
	if err != nil {
		b, err := s.buildIndex()
		if err != nil {
			return err
		}
		s.adopt(b)
		return s.leaveFiles()
	}
	b := newIndexBuilder(s.base, s.opts.IndexIntervalBytes)
	b.entries, b.newest, b.newestOffset = x.entries, head.newest, head.newestOffset
	if n := len(x.entries); n > 0 {
		b.indexedAt = int64(x.entries[n-1].position)
	}
	s.adopt(b)
	return s.leaveFiles()
}

// saveIndex writes the index of a sealed segment to its files and gives the
// memory back. Log.disk is held; keep leaves it in memory as well.
func (s *segment) saveIndex(keep bool) error {
	x := s.index.Load()
	if x == nil {
		return nil
	}
	head := indexHead{s.base, s.size.Load(), s.newest.Load(), s.newestOffset.Load()}
	if err := writeIndexFiles(s.opts.FS, s.dir, head, x); err != nil {
		return err
	}
	if !keep {
		s.useFiles(len(x.entries))
		s.builder.entries = nil
		s.index.Store(nil)
	}
	return nil
}

// leaveFiles closes the index files.
func (s *segment) leaveFiles() error {
	files := s.onFile.Swap(nil)
	if files == nil {
		return nil
	}
	return errors.Join(files.offsets.drop(), files.times.drop())
}
