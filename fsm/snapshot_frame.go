package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// The snapshot stream (docs/formats/snapshot.md):
//
//	magic 8 bytes | version uint32
//	frame: kind uint8 | length uint32 | crc32c uint32 over kind, length and payload | payload
//	header frame, chunk frames, trailer frame, end of stream
const (
	snapshotMagic   = "SKIFFSNP"
	snapshotVersion = 1
	preambleBytes   = len(snapshotMagic) + 4
	frameHeadBytes  = 1 + 4 + 4

	// chunkBytes is where the writer closes a chunk.
	chunkBytes = 1 << 20
	// maxFrameBytes bounds what a reader allocates for one frame (I20). One record can be a little larger than an
	// entry, since a registration may have grown by later changes.
	maxFrameBytes = 2 << 20
)

type frameKind uint8

const (
	headerFrame frameKind = iota + 1
	chunkFrame
	trailerFrame
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrSnapshotTruncated is returned when a snapshot stream ends before its trailer.
var ErrSnapshotTruncated = errors.New("snapshot ends before its trailer")

func preamble() []byte {
	return binary.BigEndian.AppendUint32([]byte(snapshotMagic), snapshotVersion)
}

func checkPreamble(b []byte) error {
	if string(b[:len(snapshotMagic)]) != snapshotMagic {
		return fmt.Errorf("not a snapshot: it begins with %q, not with %q", b[:len(snapshotMagic)], snapshotMagic)
	}
	v := binary.BigEndian.Uint32(b[len(snapshotMagic):])
	if v > snapshotVersion {
		return &NewerSnapshotError{What: "snapshot version", Needs: int64(v), Knows: snapshotVersion}
	}
	if v != snapshotVersion {
		return fmt.Errorf("snapshot version %d is not known, this build knows %d", v, snapshotVersion)
	}
	return nil
}

// frameHead is what stands before a payload.
type frameHead struct {
	kind   frameKind
	length uint32
	crc    uint32
}

func parseFrameHead(b []byte) (frameHead, error) {
	h := frameHead{kind: frameKind(b[0]), length: binary.BigEndian.Uint32(b[1:5]), crc: binary.BigEndian.Uint32(b[5:9])}
	if h.kind < headerFrame || h.kind > trailerFrame {
		return h, fmt.Errorf("frame kind %d is not known", h.kind)
	}
	if h.length > maxFrameBytes {
		return h, fmt.Errorf("frame of %d bytes, at most %d", h.length, maxFrameBytes)
	}
	return h, nil
}

// checksum covers kind and length too, so that no flipped byte of a frame goes unseen.
func (h frameHead) checksum(payload []byte) uint32 {
	var head [5]byte
	head[0] = byte(h.kind)
	binary.BigEndian.PutUint32(head[1:], h.length)
	return crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, payload)
}

func (h frameHead) verify(payload []byte) error {
	if got := h.checksum(payload); got != h.crc {
		return fmt.Errorf("checksum of a frame is %08x, its head says %08x", got, h.crc)
	}
	return nil
}

// appendFrame appends a frame with this payload.
func appendFrame(to []byte, kind frameKind, payload []byte) []byte {
	h := frameHead{kind: kind, length: uint32(len(payload))}
	to = append(to, byte(kind))
	to = binary.BigEndian.AppendUint32(to, h.length)
	to = binary.BigEndian.AppendUint32(to, h.checksum(payload))
	return append(to, payload...)
}
