package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The head of a file: a magic and the version of the format.
const (
	magic   = "SKFHIST\n"
	version = 1
)

const (
	preambleBytes  = len(magic) + 4
	frameHeadBytes = 1 + 4 + 4
	// payloadMax bounds a frame (I20): a block of one entry of the largest size that did not become smaller, or a piece of an image.
	payloadMax = 2 << 20
)

// frameKind says what a frame holds.
type frameKind byte

const (
	frameImage    frameKind = 1 // a piece of the image at the segment's start
	frameImageEnd frameKind = 2 // the image is complete
	frameBlock    frameKind = 3 // entries
	frameHead     frameKind = 4 // what the segment begins with; the first frame of a file
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn is returned for what a crash leaves at the end of a file: less than a frame, or a frame that was not written whole.
var errTorn = errors.New("the file ends within a frame")

func preamble() []byte { return binary.BigEndian.AppendUint32([]byte(magic), version) }

func checkPreamble(b []byte) error {
	if string(b[:len(magic)]) != magic {
		return fmt.Errorf("no history file: it begins with %q, want %q", b[:len(magic)], magic)
	}
	if v := binary.BigEndian.Uint32(b[len(magic):]); v != version {
		return fmt.Errorf("format %d of the history is unknown, this version reads %d", v, version)
	}
	return nil
}

// appendFrame appends a frame: kind, length, checksum of both and of the payload, payload.
func appendFrame(to []byte, kind frameKind, payload []byte) []byte {
	to = append(to, byte(kind))
	to = binary.BigEndian.AppendUint32(to, uint32(len(payload))) //nolint:gosec // at most payloadMax
	to = binary.BigEndian.AppendUint32(to, checksum(to[len(to)-5:], payload))
	return append(to, payload...)
}

func checksum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

// readFrame reads one frame. It returns io.EOF at the end of the file, and errTorn for less than a frame or one whose
// checksum is another, which a crash and a damage leave alike.
func readFrame(r io.Reader) (frameKind, []byte, error) {
	var head [frameHeadBytes]byte
	if n, err := io.ReadFull(r, head[:]); err != nil {
		if n == 0 && errors.Is(err, io.EOF) {
			return 0, nil, io.EOF
		}
		return 0, nil, torn(err)
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length > payloadMax {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes, at most %d", errTorn, length, payloadMax)
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, torn(err)
	}
	if got, want := checksum(head[:5], payload), binary.BigEndian.Uint32(head[5:]); got != want {
		return 0, nil, fmt.Errorf("%w: checksum %08x, want %08x", errTorn, got, want)
	}
	return frameKind(head[0]), payload, nil
}

func torn(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return err
}
