package client

import (
	"errors"
	"fmt"
	"io"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// maxSnapshotBytes bounds the snapshot that is accepted (I20). It is read as it arrives, so this is not memory.
const maxSnapshotBytes = 4 << 30

// errAborted is the end of a snapshot that did not arrive as a whole.
var errAborted = errors.New("the snapshot was interrupted")

// assembly reads a snapshot while it arrives: a goroutine decodes what add writes into a pipe.
type assembly struct {
	begin   *controllerv1.SnapshotBegin
	arrived int64
	pipe    *io.PipeWriter
	// read receives the image, or why there is none. Invariant: capacity 1, one send.
	read chan readResult
}

type readResult struct {
	img *fsm.Image
	err error
}

func newAssembly(begin *controllerv1.SnapshotBegin) (*assembly, error) {
	if size := begin.GetSizeBytes(); size <= 0 || size > maxSnapshotBytes {
		return nil, fmt.Errorf("a snapshot of %d bytes was announced, want 1 to %d", size, int64(maxSnapshotBytes))
	}
	r, w := io.Pipe()
	a := &assembly{begin: begin, pipe: w, read: make(chan readResult, 1)}
	go func() {
		img, err := fsm.ReadSnapshot(r)
		if err == nil {
			err = drained(r)
		}
		_ = r.CloseWithError(err) // fails every later write; it returns nil by its contract
		a.read <- readResult{img, err}
	}()
	return a, nil
}

// drained checks that nothing follows the trailer.
func drained(r io.Reader) error {
	n, err := io.Copy(io.Discard, io.LimitReader(r, 1))
	if err == nil && n > 0 {
		err = errors.New("bytes follow the snapshot's trailer")
	}
	return err
}

// add takes the next piece.
func (a *assembly) add(piece []byte) error {
	a.arrived += int64(len(piece))
	if a.arrived > a.begin.GetSizeBytes() {
		return fmt.Errorf("the snapshot is longer than the %d bytes that were announced", a.begin.GetSizeBytes())
	}
	if _, err := a.pipe.Write(piece); err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	return nil
}

// finish returns the image, if it is the one that was announced.
func (a *assembly) finish() (*fsm.Image, error) {
	if a.arrived != a.begin.GetSizeBytes() {
		a.abort()
		return nil, fmt.Errorf("the snapshot has %d bytes, %d were announced", a.arrived, a.begin.GetSizeBytes())
	}
	if err := a.pipe.Close(); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	res := <-a.read
	if res.err != nil {
		return nil, fmt.Errorf("read snapshot: %w", res.err)
	}
	announced := fsm.LineageID{Number: a.begin.GetLineage().GetNumber(), UUID: fsm.UUID(padded(a.begin.GetLineage().GetUuid()))}
	if res.img.Lineage().ID != announced || res.img.NextOffset() != a.begin.GetNextMetadataOffset() {
		return nil, fmt.Errorf("the snapshot is of lineage %s at %d, announced was lineage %s at %d",
			res.img.Lineage().ID, res.img.NextOffset(), announced, a.begin.GetNextMetadataOffset())
	}
	return res.img, nil
}

// padded returns the first 16 bytes of b, with zeros if there are less: a malformed uuid equals none.
func padded(b []byte) (u [16]byte) {
	if len(b) == len(u) {
		copy(u[:], b)
	}
	return u
}

// abort ends an assembly whose snapshot will not be complete.
func (a *assembly) abort() { a.pipe.CloseWithError(errAborted) }
