package metadata

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// A log file is a header and frames:
//
//	header = magic 8 | version u32 | lineage number u64 | lineage uuid 16 | first metadata offset i64 | crc32c u32
//	frame  = length u32 | crc32c u32 | payload
//
// Numbers are big endian. The header's checksum covers what precedes it, a frame's covers its length and payload.
const (
	logMagic      = "SKFMDLOG"
	logVersion    = 1
	logHeaderSize = 8 + 4 + 8 + 16 + 8 + 4
	frameHeader   = 8
	// payloadMax bounds a frame (I20): the largest entry and the fields that the feed adds to it.
	payloadMax = fsm.MaxEntryBytes + 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn is returned where a file ends within a frame, or a frame's checksum does not fit.
var errTorn = errors.New("torn or damaged frame")

// logHeader says what a log file continues.
type logHeader struct {
	lineage fsm.LineageID
	first   int64 // metadata offset of the first record that may follow
}

func (h logHeader) encode() []byte {
	b := append(make([]byte, 0, logHeaderSize), logMagic...)
	b = binary.BigEndian.AppendUint32(b, logVersion)
	b = binary.BigEndian.AppendUint64(b, h.lineage.Number)
	b = append(b, h.lineage.UUID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(h.first))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseLogHeader reads a header. A version that this build does not know is an error of its own kind, so that the
// file of a newer build is never cut.
func parseLogHeader(b []byte) (logHeader, error) {
	if len(b) < logHeaderSize {
		return logHeader{}, fmt.Errorf("header of %d bytes: %w", len(b), errTorn)
	}
	b = b[:logHeaderSize]
	body, sum := b[:logHeaderSize-4], binary.BigEndian.Uint32(b[logHeaderSize-4:])
	switch {
	case string(body[:8]) != logMagic:
		return logHeader{}, fmt.Errorf("magic is %q: %w", body[:8], errTorn)
	case crc32.Checksum(body, castagnoli) != sum:
		return logHeader{}, fmt.Errorf("header checksum: %w", errTorn)
	case binary.BigEndian.Uint32(body[8:]) != logVersion:
		return logHeader{}, fmt.Errorf("version %d: %w", binary.BigEndian.Uint32(body[8:]), ErrUnsupportedVersion)
	}
	h := logHeader{first: int64(binary.BigEndian.Uint64(body[36:]))}
	h.lineage.Number = binary.BigEndian.Uint64(body[12:])
	copy(h.lineage.UUID[:], body[20:36])
	return h, nil
}

// appendFrame writes one entry as a frame.
func appendFrame(b []byte, e *controllerv1.EntryApplied) ([]byte, error) {
	start := len(b)
	b = append(b, make([]byte, frameHeader)...)
	b, err := proto.MarshalOptions{}.MarshalAppend(b, e)
	if err != nil {
		return nil, fmt.Errorf("encode entry: %w", err)
	}
	payload := b[start+frameHeader:]
	if len(payload) > payloadMax {
		return nil, fmt.Errorf("entry of %d bytes, at most %d", len(payload), payloadMax)
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(payload)))
	binary.BigEndian.PutUint32(b[start+4:], frameChecksum(b[start:start+4], payload))
	return b, nil
}

func frameChecksum(length, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, payload)
}

// frameReader reads the frames of a log file after its header.
type frameReader struct {
	r *bufio.Reader
	// read counts the bytes of whole frames.
	read int64
}

// next returns the next entry, io.EOF at the end of the last whole frame, or errTorn.
func (f *frameReader) next() (*controllerv1.EntryApplied, error) {
	var h [frameHeader]byte
	if _, err := io.ReadFull(f.r, h[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errTorn
		}
		return nil, err
	}
	n := binary.BigEndian.Uint32(h[:])
	if n > payloadMax {
		return nil, fmt.Errorf("frame of %d bytes: %w", n, errTorn)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(f.r, payload); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errTorn
		}
		return nil, err
	}
	if frameChecksum(h[:4], payload) != binary.BigEndian.Uint32(h[4:]) {
		return nil, fmt.Errorf("frame checksum: %w", errTorn)
	}
	var e controllerv1.EntryApplied
	if err := proto.Unmarshal(payload, &e); err != nil {
		return nil, fmt.Errorf("frame does not parse: %w", errTorn)
	}
	f.read += frameHeader + int64(n)
	return &e, nil
}
