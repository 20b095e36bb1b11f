package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Claimed tells the client which address belongs to the newest claim that its caller has seen in the metadata. It is
// taken for the active controller's until it proves otherwise, which is sooner than any search: the metadata may come
// from another node while the last active controller neither answers nor refuses.
func (c *Client) Claimed(addr string) {
	c.learn(addr)
	c.believe(addr)
}

// movedError ends a stream because another source is to be preferred, which was found by somebody else than the
// stream's own goroutine.
type movedError struct{ to string }

// Error names the other source.
func (e *movedError) Error() string { return fmt.Sprintf("%v: %s", errMove, e.to) }

// Is makes it an errMove.
func (e *movedError) Is(target error) bool { return target == errMove }

// wantMoved takes the source that a stream was left for.
func (f *following) wantMoved(err error) {
	var moved *movedError
	if errors.As(err, &moved) {
		f.want = moved.to
	}
}

// seeker looks for another active controller while a source is silent. A process that is frozen, or a cable that was
// cut, is found only by its silence, and the next controller need not wait until that has lasted long enough to leave.
type seeker struct {
	client *Client
	addr   string
	busy   atomic.Bool
}

// seek ends the stream if another node is active, or becomes active before the stream ends.
func (s *seeker) seek(ctx context.Context, leave context.CancelCauseFunc) {
	if !s.busy.CompareAndSwap(false, true) {
		return
	}
	defer s.busy.Store(false)
	s.client.disbelieve(s.addr)
	if active, err := s.client.locate(ctx); err == nil && active != s.addr {
		leave(&movedError{to: active})
	}
}
