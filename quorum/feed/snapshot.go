package feed

import (
	"context"
	"fmt"
	"sync"

	"github.com/skiffmq/skiff/fsm"
)

// ChunkBytes is the size of the pieces that a snapshot is kept and sent in.
const ChunkBytes = 256 << 10

// Snapshot is an image in its encoded form. It is shared and never changed.
type Snapshot struct {
	// Lineage and Next say which image it is: the first entry after it begins at Next.
	Lineage fsm.LineageID
	Next    int64

	feed  *Feed
	image *fsm.Image
	// users is guarded by feed.mu.
	users int

	// encode runs once, by the first who needs it.
	encode sync.Once
	chunks [][]byte
	size   int64
	err    error
}

// Snapshot returns a snapshot from which the ring can be read on: the one that others are sending if its next entry is
// still kept, else one of the present image. Release must be called when it is no longer needed.
func (f *Feed) Snapshot(ctx context.Context) (*Snapshot, error) {
	s, err := f.acquire()
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.encode.Do(s.write)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.Release()
		return nil, context.Cause(ctx)
	}
	if s.err != nil {
		s.Release()
		return nil, s.err
	}
	return s, nil
}

// acquire returns the shared snapshot, not encoded yet, and counts its new user.
func (f *Feed) acquire() (*Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.image == nil {
		return nil, fmt.Errorf("feed: there is no image yet")
	}
	if f.snapshot == nil || !f.reaches(f.snapshot.Next) {
		f.snapshot = &Snapshot{Lineage: f.image.Lineage().ID, Next: f.image.NextOffset(), feed: f, image: f.image}
	}
	f.snapshot.users++
	return f.snapshot, nil
}

// reaches tells whether a reader at next can read on.
func (f *Feed) reaches(next int64) bool {
	if next == f.image.NextOffset() {
		return true
	}
	_, ok := f.at(next)
	return ok
}

// Release says that the caller needs the snapshot no longer. The last one frees it.
func (s *Snapshot) Release() {
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	s.users--
	if s.users == 0 && f.snapshot == s {
		f.snapshot = nil
		f.trim()
	}
}

// Size of the encoded form in bytes.
func (s *Snapshot) Size() int64 { return s.size }

// Chunks are the encoded form in pieces of at most ChunkBytes.
func (s *Snapshot) Chunks() [][]byte { return s.chunks }

func (s *Snapshot) write() {
	w := &chunkWriter{}
	if err := fsm.WriteSnapshot(s.image, w); err != nil {
		s.err = fmt.Errorf("feed: encode snapshot: %w", err)
		return
	}
	s.chunks, s.size = w.chunks, w.size
}

// chunkWriter cuts what is written to it into chunks.
type chunkWriter struct {
	chunks [][]byte
	size   int64
}

// Write never fails.
func (w *chunkWriter) Write(p []byte) (int, error) {
	n := len(p)
	w.size += int64(n)
	for len(p) > 0 {
		last := len(w.chunks) - 1
		if last < 0 || len(w.chunks[last]) == ChunkBytes {
			w.chunks = append(w.chunks, make([]byte, 0, ChunkBytes))
			last++
		}
		room := min(ChunkBytes-len(w.chunks[last]), len(p))
		w.chunks[last] = append(w.chunks[last], p[:room]...)
		p = p[room:]
	}
	return n, nil
}
