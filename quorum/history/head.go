package history

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/skiffmq/skiff/fsm"
)

// headBytes of a head: metadata offset, time, lineage number, lineage uuid.
const headBytes = 3*8 + 16

// head is what a segment begins with, so that a start need not read the image behind it.
type head struct {
	first, firstMs int64
	lineage        fsm.LineageID
}

func headOf(img *fsm.Image) head {
	return head{first: img.NextOffset(), firstMs: img.LastBatchTimeMs(), lineage: img.Lineage().ID}
}

// span of a segment of that head without an entry.
func (h head) span(size int64) Span {
	return Span{First: h.first, Next: h.first, FirstMs: h.firstMs, LastMs: h.firstMs, Lineage: h.lineage, Bytes: size}
}

func (h head) payload() []byte {
	b := make([]byte, 0, headBytes)
	for _, v := range []uint64{uint64(h.first), uint64(h.firstMs), h.lineage.Number} { //nolint:gosec // the bits are kept
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return append(b, h.lineage.UUID[:]...)
}

// readHead reads the preamble and the head of a file.
func readHead(r io.Reader) (head, error) {
	start := make([]byte, preambleBytes)
	if _, err := io.ReadFull(r, start); err != nil {
		return head{}, torn(err)
	}
	if err := checkPreamble(start); err != nil {
		return head{}, err
	}
	kind, b, err := readFrame(r)
	switch {
	case errors.Is(err, io.EOF):
		return head{}, errTorn
	case err != nil:
		return head{}, err
	case kind != frameHead || len(b) != headBytes:
		return head{}, fmt.Errorf("the first frame is of kind %d with %d bytes, want a head of %d", kind, len(b), headBytes)
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	h := head{first: int64(at(0)), firstMs: int64(at(1)), lineage: fsm.LineageID{Number: at(2)}} //nolint:gosec // the bits are kept
	copy(h.lineage.UUID[:], b[24:])
	return h, nil
}

// skim finds out what a segment holds from the heads of its frames alone. Its cost is a few bytes for each frame.
func skim(path string) (segment, error) {
	f, err := os.Open(path)
	if err != nil {
		return segment{}, err
	}
	defer f.Close()
	h, err := readHead(f)
	if err != nil {
		return segment{}, fmt.Errorf("%s: %w", path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return segment{}, err
	}
	s := segment{path: path, Span: h.span(info.Size())}
	return s, s.skimFrames(f)
}

// skimFrames takes the last block's end. What is not whole is found when the segment is read.
func (s *segment) skimFrames(f *os.File) error {
	r := bufio.NewReaderSize(f, 64)
	for {
		start := make([]byte, frameHeadBytes)
		if _, err := io.ReadFull(r, start); err != nil {
			return ignoreTorn(err)
		}
		length := int64(binary.BigEndian.Uint32(start[1:]))
		if length > payloadMax {
			return nil
		}
		if frameKind(start[0]) == frameBlock && length >= blockHeadBytes {
			b := make([]byte, blockHeadBytes)
			if _, err := io.ReadFull(r, b); err != nil {
				return ignoreTorn(err)
			}
			if block, _, err := blockHead(b); err == nil && block.first == s.Next {
				s.Next, s.LastMs = block.next, block.timeMs
			}
			length -= blockHeadBytes
		}
		at, err := baseBytes(f, r.Buffered())
		if err != nil {
			return err
		}
		if _, err := f.Seek(at+length, io.SeekStart); err != nil {
			return err
		}
		r.Reset(f)
	}
}

func ignoreTorn(err error) error {
	if errors.Is(torn(err), errTorn) {
		return nil
	}
	return err
}
