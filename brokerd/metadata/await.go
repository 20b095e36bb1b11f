package metadata

import (
	"context"
	"sync"
)

// progress is the applied offset and those who wait for it.
type progress struct {
	mu sync.Mutex
	// mu guards the following.
	applied int64
	closed  bool
	// moved is closed and replaced whenever applied moves.
	moved chan struct{}
}

func newProgress() *progress { return &progress{applied: -1, moved: make(chan struct{})} }

// set moves the applied offset; it may fall when a new lineage begins.
func (p *progress) set(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applied = offset
	close(p.moved)
	p.moved = make(chan struct{})
}

func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.moved)
		p.moved = make(chan struct{})
	}
}

func (p *progress) get() (applied int64, closed bool, moved <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.applied, p.closed, p.moved
}

// await waits until offset is applied.
func (p *progress) await(ctx context.Context, offset int64) error {
	for {
		applied, closed, moved := p.get()
		switch {
		case applied >= offset:
			return nil
		case closed:
			return ErrClosed
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
