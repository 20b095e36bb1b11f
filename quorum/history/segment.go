package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
)

const (
	suffix     = ".history"
	tempSuffix = ".tmp"
	// pieceBytes is the size of a piece of an image before it is compressed.
	pieceBytes = 1 << 20
)

// Span is what a segment holds.
type Span struct {
	// First is the metadata offset of its first entry, Next the one after its last; they are equal while it has none.
	First, Next int64
	// FirstMs and LastMs are the times of the last batch before First and before Next, Unix milliseconds.
	FirstMs, LastMs int64
	// Lineage of all of it.
	Lineage fsm.LineageID
	// Bytes of the file that hold it.
	Bytes int64
}

// segment is a file and what is known of it. Invariant: it is a value that readers copy; only the writer makes new ones.
type segment struct {
	path string
	Span
}

func segmentPath(dir string, first int64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", first, suffix))
}

// segmentOffset reads the metadata offset out of a file name.
func segmentOffset(name string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	first, err := strconv.ParseInt(digits, 10, 64)
	return first, err == nil
}

// create writes a segment that begins with img and holds no entry. It is there whole after a crash, or not at all.
func create(dir string, img *fsm.Image, encoder *zstd.Encoder) (segment, error) {
	path := segmentPath(dir, img.NextOffset())
	temp := path + tempSuffix
	size, err := writeBase(temp, img, encoder)
	if err != nil {
		return segment{}, errors.Join(fmt.Errorf("begin %s: %w", path, err), removeIfThere(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return segment{}, errors.Join(err, removeIfThere(temp))
	}
	return segment{path: path, Span: headOf(img).span(size)}, disk.SyncDir(dir)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func writeBase(path string, img *fsm.Image, encoder *zstd.Encoder) (int64, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	pieces := &pieceWriter{file: f, encoder: encoder}
	pieces.put(appendFrame(preamble(), frameHead, headOf(img).payload()))
	snapshot := bufio.NewWriterSize(pieces, pieceBytes)
	err = errors.Join(fsm.WriteSnapshot(img, snapshot), snapshot.Flush())
	if err == nil {
		pieces.put(appendFrame(nil, frameImageEnd, nil))
		err = errors.Join(pieces.err, f.Sync())
	}
	return pieces.bytes, errors.Join(err, f.Close())
}

// pieceWriter writes each piece of an image as a compressed frame.
type pieceWriter struct {
	file    io.Writer
	encoder *zstd.Encoder
	bytes   int64
	err     error
}

func (w *pieceWriter) put(b []byte) {
	if w.err == nil {
		_, w.err = w.file.Write(b)
		w.bytes += int64(len(b))
	}
}

// Write takes a piece of at most pieceBytes, which is what the buffer before it makes of longer ones.
func (w *pieceWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), pieceBytes)
		w.put(appendFrame(nil, frameImage, w.encoder.EncodeAll(rest[:n], nil)))
		rest = rest[n:]
	}
	return len(p), w.err
}

// pieceReader reads the image at the head of a segment.
type pieceReader struct {
	file    io.Reader
	decoder *zstd.Decoder
	rest    []byte
	ended   bool
}

// Read returns io.EOF after the image's last piece; what follows in the file is left there.
func (r *pieceReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.ended {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *pieceReader) next() error {
	kind, payload, err := readFrame(r.file)
	switch {
	case errors.Is(err, io.EOF):
		return errTorn
	case err != nil:
		return err
	case kind == frameImageEnd:
		r.ended = true
		return nil
	case kind != frameImage:
		return fmt.Errorf("a frame of kind %d within the image", kind)
	}
	r.rest, err = r.decoder.DecodeAll(payload, nil)
	return err
}

// openSegment opens a file, checks its preamble and reads the image at its head.
func openSegment(path string, decoder *zstd.Decoder) (*os.File, *bufio.Reader, *fsm.Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, nil, err
	}
	r := bufio.NewReaderSize(f, 64<<10)
	img, err := readBase(r, decoder)
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return f, r, img, nil
}

func readBase(r *bufio.Reader, decoder *zstd.Decoder) (*fsm.Image, error) {
	head, err := readHead(r)
	if err != nil {
		return nil, err
	}
	pieces := &pieceReader{file: r, decoder: decoder}
	img, err := fsm.ReadSnapshot(pieces)
	if err != nil {
		return nil, fmt.Errorf("the image at the head: %w", err)
	}
	if !pieces.ended {
		if err := pieces.next(); err != nil {
			return nil, err
		}
	}
	if !pieces.ended {
		return nil, errors.New("the image at the head does not end where its snapshot ends")
	}
	if got := headOf(img); got != head {
		return nil, fmt.Errorf("the image at the head is %+v, the head says %+v", got, head)
	}
	return img, nil
}
