package client

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// pauseMin and pauseMax bound the pause between two attempts.
	pauseMin = 20 * time.Millisecond
	pauseMax = time.Second
	// pauseShare is the part of the time since the first failure that is waited before the next attempt.
	pauseShare = 10
)

// pause spaces attempts: the longer the trouble, the longer the pause.
type pause struct {
	since time.Time
}

// next returns the pause before the next attempt, with jitter.
func (p *pause) next() time.Duration {
	if p.since.IsZero() {
		p.since = time.Now()
	}
	d := min(max(time.Since(p.since)/pauseShare, pauseMin), pauseMax)
	return d/2 + rand.N(d) //nolint:gosec // jitter needs no secret
}

// wait waits for the next pause, or less if wake is closed or receives. It returns false when ctx ends.
func (p *pause) wait(ctx context.Context, wake <-chan struct{}) bool {
	timer := time.NewTimer(p.next())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// reset begins anew, after a success.
func (p *pause) reset() { p.since = time.Time{} }
