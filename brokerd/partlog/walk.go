package partlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
)

const (
	// seekWindowBytes suits a look-up: an index interval and a header or two.
	seekWindowBytes = 8 << 10
	// scanWindowBytes suits a walk over a whole segment.
	scanWindowBytes = 256 << 10
)

// walker goes over the batches of a segment one by one. It reads through a
// window of fixed size, so that no length in the file decides what is
// allocated, and it reads nothing of a body it need not check.
type walker struct {
	file io.ReaderAt
	// position is where the next batch begins, limit where the segment ends.
	position, limit int64
	// window holds the held bytes of the file from at on.
	window []byte
	at     int64
	held   int
}

var seekWindows = sync.Pool{New: func() any { b := make([]byte, seekWindowBytes); return &b }}

// header reads the header of the next batch without moving past it. It
// returns io.EOF at the end and ErrCorruptBatch where no whole batch stands.
func (w *walker) header() (header, error) {
	left := w.limit - w.position
	if left == 0 {
		return header{}, io.EOF
	}
	if left < batchHeaderBytes {
		return header{}, fmt.Errorf("%w: %d bytes hold no header", ErrCorruptBatch, left)
	}
	b, err := w.bytes(w.position, batchHeaderBytes)
	if err != nil {
		return header{}, err
	}
	h, err := parseHeader(b)
	if err != nil {
		return header{}, err
	}
	if h.size > left {
		return header{}, fmt.Errorf("%w: %d bytes, %d are left", ErrCorruptBatch, h.size, left)
	}
	return h, nil
}

// skip moves past the batch of header h.
func (w *walker) skip(h header) { w.position += h.size }

// checkCRC reads the whole next batch, whose header is h.
func (w *walker) checkCRC(h header) error {
	var sum uint32
	end := w.position + h.size
	for position := w.position + atAttributes; position < end; {
		n := int(min(end-position, int64(len(w.window))))
		b, err := w.bytes(position, n)
		if err != nil {
			return err
		}
		sum = crc32.Update(sum, castagnoli, b)
		position += int64(n)
	}
	if sum != h.crc {
		return fmt.Errorf("%w: checksum %08x, header says %08x", ErrCorruptBatch, sum, h.crc)
	}
	return nil
}

// bytes returns n bytes of the file, at most a window of them.
func (w *walker) bytes(position int64, n int) ([]byte, error) {
	if position < w.at || position+int64(n) > w.at+int64(w.held) {
		w.at, w.held = position, 0
		want := int(min(int64(len(w.window)), w.limit-position))
		if err := readFull(w.file, w.window[:want], position); err != nil {
			return nil, err
		}
		w.held = want
	}
	from := int(position - w.at)
	return w.window[from : from+n], nil
}

// readFull reads all of b; a file that is shorter is an error.
func readFull(file io.ReaderAt, b []byte, position int64) error {
	n, err := file.ReadAt(b, position)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at %d: %w", len(b), position, err)
}
