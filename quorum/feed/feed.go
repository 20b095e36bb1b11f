package feed

import (
	"context"
	"errors"
	"sync"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// Bounds of the ring (I20).
const (
	// DefaultMaxBytes is the size of the entries that are kept for readers.
	DefaultMaxBytes = 32 << 20
	// DefaultMaxEntries bounds their number.
	DefaultMaxEntries = 16384
	// pinnedFactor is how much larger the ring may grow while a snapshot is being sent.
	pinnedFactor = 4
)

var (
	// ErrTooOld is returned when the entry that a reader needs is not kept any longer, or the reader stands inside an
	// entry: it must take a snapshot.
	ErrTooOld = errors.New("feed: the next entry is no longer kept")
	// ErrReset is returned when the image was replaced while the reader waited: the reader must be judged anew.
	ErrReset = errors.New("feed: the image was replaced")
)

// Options bound a Feed; what is 0 takes its default.
type Options struct {
	MaxBytes   int
	MaxEntries int
}

// Feed is the ring. Its methods may be called from any goroutine; Publish and Reset come from one.
type Feed struct {
	maxBytes   int
	maxEntries int

	// mu guards the following. It is never held while an image is encoded.
	mu sync.Mutex
	// image is the one after the newest entry, nil before the first Reset.
	image *fsm.Image
	// entries follow one another without a gap up to image, oldest first.
	entries []entry
	bytes   int
	// generation counts the resets.
	generation uint64
	// changed is closed, and replaced, by Publish and Reset.
	changed chan struct{}
	// snapshot is the one that new readers share, nil if there is none.
	snapshot *Snapshot
}

// entry is one that took effect.
type entry struct {
	applied *controllerv1.EntryApplied
	// next is the metadata offset after it.
	next int64
	size int
}

// New makes a feed without an image.
func New(o Options) *Feed {
	f := &Feed{maxBytes: o.MaxBytes, maxEntries: o.MaxEntries, changed: make(chan struct{})}
	if f.maxBytes <= 0 {
		f.maxBytes = DefaultMaxBytes
	}
	if f.maxEntries <= 0 {
		f.maxEntries = DefaultMaxEntries
	}
	return f
}

// Publish adds an entry that took effect and the image after it. It does not wait for anybody. Neither may be changed
// afterwards.
func (f *Feed) Publish(applied *controllerv1.EntryApplied, img *fsm.Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.image != nil && f.image.NextOffset() != applied.GetFirstMetadataOffset() {
		f.forget() // a gap: nobody may read across it
	}
	e := entry{applied: applied, next: img.NextOffset(), size: len(applied.GetEnvelope())}
	f.entries = append(f.entries, e)
	f.bytes += e.size
	f.image = img
	f.trim()
	f.wake()
}

// Reset replaces the image, at the start and after a restore. Every cursor ends.
func (f *Feed) Reset(img *fsm.Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget()
	f.image = img
	f.wake()
}

// forget drops everything that is kept and ends every cursor.
func (f *Feed) forget() {
	f.entries, f.bytes = nil, 0
	f.generation++
	f.snapshot = nil // those who hold it keep it
}

// trim drops the oldest entries beyond the bounds. What follows a snapshot that is being sent may stay longer.
func (f *Feed) trim() {
	n := 0
	for n < len(f.entries)-1 && f.over(n) {
		f.bytes -= f.entries[n].size
		n++
	}
	if n == 0 {
		return
	}
	clear(f.entries[:n]) // the array stays for a while, what it points to must not
	f.entries = f.entries[n:]
}

// over tells whether the entry at i, the oldest, must go.
func (f *Feed) over(i int) bool {
	factor := 1
	if s := f.snapshot; s != nil && s.users > 0 && f.entries[i].next > s.Next {
		factor = pinnedFactor
	}
	return f.bytes > f.maxBytes*factor || len(f.entries)-i > f.maxEntries*factor
}

func (f *Feed) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Image returns the image after the newest entry, nil before there is one.
func (f *Feed) Image() *fsm.Image {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.image
}

// Changed returns a channel that is closed when the image changes.
func (f *Feed) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// Cursor reads on from a metadata offset. One goroutine uses it.
type Cursor struct {
	feed       *Feed
	next       int64
	generation uint64
}

// Cursor returns a cursor whose first entry is the one at next.
func (f *Feed) Cursor(next int64) *Cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &Cursor{feed: f, next: next, generation: f.generation}
}

// Next returns the next entry, and waits for it until ctx ends. It returns ErrTooOld, ErrReset or the error of ctx. The
// entry must not be changed.
func (c *Cursor) Next(ctx context.Context) (*controllerv1.EntryApplied, error) {
	for {
		applied, changed, err := c.TryNext()
		if applied != nil || err != nil {
			return applied, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// TryNext is Next without waiting: where there is no entry yet it returns nil and a channel that is closed when it is
// worth to try again.
func (c *Cursor) TryNext() (*controllerv1.EntryApplied, <-chan struct{}, error) {
	f := c.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.generation != c.generation:
		return nil, nil, ErrReset
	case f.image == nil || c.next >= f.image.NextOffset():
		return nil, f.changed, nil
	}
	e, ok := f.at(c.next)
	if !ok {
		return nil, nil, ErrTooOld
	}
	c.next = e.next
	return e.applied, nil, nil
}

// Offset returns the metadata offset that the cursor reads next.
func (c *Cursor) Offset() int64 { return c.next }

// at finds the entry that begins at a metadata offset.
func (f *Feed) at(first int64) (entry, bool) {
	lo, hi := 0, len(f.entries)
	for lo < hi {
		mid := (lo + hi) / 2
		if f.entries[mid].applied.GetFirstMetadataOffset() < first {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(f.entries) || f.entries[lo].applied.GetFirstMetadataOffset() != first {
		return entry{}, false
	}
	return f.entries[lo], true
}
