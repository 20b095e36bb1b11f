package partlog

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
)

// Scanned is what Scan finds: a whole record batch or, with Err, bytes that
// are none; the rest of that segment is then not looked at.
type Scanned struct {
	// Segment is the file's name, Position where in it.
	Segment  string
	Position int64
	// Batch is valid during the visit.
	Batch []byte
	Err   error
}

// Scan visits the batches of the log in dir, in order, until visit returns
// false. It changes nothing and takes no notice of a log that is open there,
// so the last batch may be one that is being written. For tools.
func Scan(fsys FS, dir string, visit func(Scanned) bool) error {
	if fsys == nil {
		fsys = OSFS{}
	}
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("scan %s: %w", dir, err)
	}
	for _, base := range offsetsOf(names, logSuffix) {
		more, err := scanSegment(fsys, segmentFile(dir, base, logSuffix), visit)
		if err != nil {
			return fmt.Errorf("scan %s: %w", dir, err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

func scanSegment(fsys FS, name string, visit func(Scanned) bool) (more bool, err error) {
	file, err := fsys.Open(name, false)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err != nil {
		return false, err
	}
	w := walker{file: file, limit: size, window: make([]byte, scanWindowBytes)}
	for {
		found := Scanned{Segment: filepath.Base(name), Position: w.position}
		h, err := w.header()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err == nil && h.size > defaultMaxBatchBytes {
			err = fmt.Errorf("%w: %d bytes, at most %d are looked at", ErrBatchTooLarge, h.size, defaultMaxBatchBytes)
		}
		if err == nil {
			found.Batch = make([]byte, h.size)
			if err = readFull(file, found.Batch, w.position); err == nil {
				err = h.checkCRC(found.Batch)
			}
		}
		if err != nil {
			found.Batch, found.Err = nil, err
			return visit(found), nil
		}
		if !visit(found) {
			return false, nil
		}
		w.skip(h)
	}
}
