package history

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/feed"
)

// How often the recorder does what it need not do at once.
const (
	// flushInterval after which readers see an entry.
	flushInterval = 200 * time.Millisecond
	// syncInterval after which an entry survives a power cut, and the bounds are looked at.
	syncInterval = time.Second
	// retryInterval after a fault of the disk.
	retryInterval = 10 * time.Second
)

// Recorder writes what a node's feed publishes into a Log. A fault of the disk ends neither it nor the node: it is
// logged, what is missed becomes a gap, and recording begins anew after a while.
type Recorder struct {
	log    *Log
	feed   *feed.Feed
	logger hclog.Logger
	// asked receives the channel of a caller that waits until everything published so far is synced.
	asked chan chan<- error
}

// NewRecorder makes a recorder; Run runs it.
func NewRecorder(l *Log, f *feed.Feed, logger hclog.Logger) *Recorder {
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	return &Recorder{log: l, feed: f, logger: logger, asked: make(chan chan<- error)}
}

// Log is what the recorder writes.
func (r *Recorder) Log() *Log { return r.log }

// Sync waits until every entry that was published before the call is synced. It returns the fault of the disk if the
// recorder cannot, and the error of ctx if nobody runs it.
func (r *Recorder) Sync(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case r.asked <- done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run records until ctx ends, and closes the log.
func (r *Recorder) Run(ctx context.Context) error {
	flush, sync := time.NewTicker(flushInterval), time.NewTicker(syncInterval)
	defer flush.Stop()
	defer sync.Stop()
	var fault error
	for {
		changed, err := r.catchUp()
		if err != nil && fault == nil {
			r.logger.Error("the history is not written; what is missed will be a gap in it", "error", err)
		} else if err == nil && fault != nil {
			r.logger.Info("the history is written again")
		}
		if fault = err; fault != nil {
			if !r.pause(ctx, fault) {
				return nil
			}
			continue
		}
		select {
		case <-ctx.Done():
			return r.end()
		case <-changed:
		case <-flush.C:
			err = r.log.Flush()
		case now := <-sync.C:
			err = r.tidy(now)
		case done := <-r.asked:
			err = r.syncFor(done)
		}
		if err != nil {
			r.abandon(err)
		}
	}
}

// end writes what was published last.
func (r *Recorder) end() error {
	_, err := r.catchUp()
	return errors.Join(err, r.log.Close())
}

// tidy makes what is written durable and removes what is too old.
func (r *Recorder) tidy(now time.Time) error {
	if err := r.log.Sync(); err != nil {
		return err
	}
	removed, err := r.log.Retain(now)
	if removed > 0 {
		r.logger.Info("removed the oldest of the history", "segments", removed)
	}
	return err
}

func (r *Recorder) syncFor(done chan<- error) error {
	_, err := r.catchUp()
	if err == nil {
		err = r.log.Sync()
	}
	done <- err
	return err
}

// abandon gives up the segment that cannot be written; the next entry begins another one.
func (r *Recorder) abandon(err error) {
	r.logger.Error("the history cannot be written", "error", err)
	r.log.Abandon()
}

// pause waits after a fault, answers who asks meanwhile, and reports whether to go on.
func (r *Recorder) pause(ctx context.Context, fault error) bool {
	r.log.Abandon()
	retry := time.NewTimer(retryInterval)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-retry.C:
			return true
		case done := <-r.asked:
			done <- fault
		}
	}
}

// catchUp appends what has been published, and returns a channel that is closed when there is more.
func (r *Recorder) catchUp() (<-chan struct{}, error) {
	for {
		changed := r.feed.Changed()
		current := r.feed.Image()
		if current == nil {
			return changed, nil
		}
		if err := r.reach(current); err != nil {
			return nil, err
		}
		cursor := r.feed.Cursor(r.log.Image().NextOffset())
		e, more, err := cursor.TryNext()
		switch {
		case errors.Is(err, feed.ErrReset):
			continue
		case errors.Is(err, feed.ErrTooOld):
			if err := r.log.Begin(r.feed.Image()); err != nil {
				return nil, err
			}
			continue
		case e == nil:
			return more, nil
		}
		if err := r.appendAll(cursor, e); err != nil {
			return nil, err
		}
	}
}

// reach begins a segment at the present image if the log has none that leads to it. A log that is ahead waits: a node
// that starts folds anew what it had folded before.
func (r *Recorder) reach(current *fsm.Image) error {
	if own := r.log.Image(); own != nil && own.Lineage().ID == current.Lineage().ID {
		return nil
	}
	return r.log.Begin(current)
}

// appendAll appends an entry and those that are there behind it.
func (r *Recorder) appendAll(cursor *feed.Cursor, e *controllerv1.EntryApplied) error {
	for e != nil {
		if err := r.log.Append(e); err != nil {
			return err
		}
		next, _, err := cursor.TryNext()
		if err != nil {
			return nil //nolint:nilerr // the next look judges the position anew
		}
		e = next
	}
	return nil
}
