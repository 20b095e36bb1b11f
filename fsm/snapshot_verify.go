package fsm

import (
	"fmt"
)

// SnapshotVerifier is an io.Writer that verifies a snapshot as its bytes pass: header, frames, checksums, order,
// counts and the trailer's digest. It holds one frame of at most 2 MiB and no image.
// What it cannot see without an image (I7, I8) ReadSnapshot does.
type SnapshotVerifier struct {
	stream *snapshotStream
	buf    []byte
	head   *frameHead
	opened bool
	err    error
}

// NewSnapshotVerifier returns a verifier that has seen nothing yet.
func NewSnapshotVerifier() *SnapshotVerifier {
	return &SnapshotVerifier{stream: newSnapshotStream(nil)}
}

// Write takes the next bytes of the stream. Its first error stays.
func (v *SnapshotVerifier) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 && v.err == nil {
		n := min(len(p), v.wanted()-len(v.buf))
		v.buf = append(v.buf, p[:n]...)
		p, written = p[n:], written+n
		v.err = v.advance()
	}
	if v.err != nil {
		return written, fmt.Errorf("verify snapshot: %w", v.err)
	}
	return written, nil
}

// wanted is the length of the piece that is being gathered.
func (v *SnapshotVerifier) wanted() int {
	switch {
	case !v.opened:
		return preambleBytes
	case v.head == nil:
		return frameHeadBytes
	default:
		return int(v.head.length)
	}
}

// advance judges every piece that is complete; a payload may have no byte at all.
func (v *SnapshotVerifier) advance() error {
	for len(v.buf) == v.wanted() {
		piece := v.buf
		v.buf = v.buf[:0]
		switch {
		case !v.opened:
			if err := checkPreamble(piece); err != nil {
				return err
			}
			v.opened = true
		case v.head == nil:
			h, err := parseFrameHead(piece)
			if err != nil {
				return err
			}
			v.head = &h
		default:
			h := *v.head
			v.head = nil
			if err := h.verify(piece); err != nil {
				return err
			}
			if err := v.stream.frame(h.kind, piece); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close says whether the bytes were one whole and sound snapshot. It releases nothing and may be repeated.
func (v *SnapshotVerifier) Close() error {
	switch {
	case v.err != nil:
		return fmt.Errorf("verify snapshot: %w", v.err)
	case !v.stream.done || len(v.buf) != 0 || v.head != nil:
		return fmt.Errorf("verify snapshot: %w", ErrSnapshotTruncated)
	default:
		return nil
	}
}

// Digest returns the digest of the snapshot's image; it is zero until Close returns nil.
func (v *SnapshotVerifier) Digest() Digest {
	return v.stream.digest
}
