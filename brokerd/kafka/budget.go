package kafka

import (
	"context"
	"sync"
)

// budget bounds the bytes of requests that are held at once (I20).
//
// Like the memory pool of Kafka's SocketServer it is not strict: whoever comes while there is any room left gets all that it
// asks for. So a request larger than the budget is served, and two requests that hold a part each can not wait for
// each other; the overshoot is one request.
type budget struct {
	// mu guards the following.
	mu   sync.Mutex
	left int64
	// freed is closed and replaced when room appears, if somebody waits for it.
	freed  chan struct{}
	waited bool
}

// newBudget returns a budget of total bytes.
func newBudget(total int64) *budget {
	return &budget{left: total, freed: make(chan struct{})}
}

// acquire takes n bytes, waiting until there is room or ctx ends.
func (b *budget) acquire(ctx context.Context, n int64) error {
	for {
		wait := b.tryAcquire(n)
		if wait == nil {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryAcquire takes n bytes, or returns a channel that is closed when trying again makes sense.
func (b *budget) tryAcquire(n int64) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left <= 0 {
		b.waited = true
		return b.freed
	}
	b.left -= n
	return nil
}

// release gives n bytes back.
func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	if b.left > 0 && b.waited {
		close(b.freed)
		b.freed, b.waited = make(chan struct{}), false
	}
}

// room is how many bytes are left; below zero after an overshoot.
func (b *budget) room() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left
}
