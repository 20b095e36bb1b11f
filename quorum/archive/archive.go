// Package archive keeps snapshots of the metadata in a directory, for the day on which the quorum is lost.
//
// Every interval the image is written to a file of its own, if its metadata offset moved since the newest file. A file has its
// name only when it is whole, verified and durable. Retention then removes what is too many or too old, never the newest file
// that can be read back, and never a file of another lineage: after a restore that was a mistake a person goes back to those.
// Nodes of one quorum may share a directory: the same image has the same name, and whoever comes second finds it there.
//
// It knows nothing of Raft. One goroutine runs an archive; Status may be asked by any.
package archive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
)

// Waits of Run between its attempts.
const (
	// notReadyWait is how soon an image is asked for again that does not exist yet.
	notReadyWait = time.Second
	// retryWait is how soon an attempt that failed is repeated, if the interval is longer.
	retryWait = time.Minute
)

// Config is what an archive must be told.
type Config struct {
	// Dir is the directory. It is made if only itself is missing: a mount that is not there must not go unnoticed.
	Dir string
	// NodeID tells the unfinished files of the nodes that share the directory apart.
	NodeID int32
	// Interval between files, above 0.
	Interval time.Duration
	// RetentionCount is how many files of a lineage stay; 0 for all.
	RetentionCount int
	// RetentionAge is how long a file stays; 0 for ever.
	RetentionAge time.Duration
	// Image gives the image to keep, nil when there is none yet, or why it is not to be trusted.
	Image func() (*fsm.Image, error)
	// Logger; nil for none.
	Logger hclog.Logger
}

// Archive keeps snapshots in a directory.
type Archive struct {
	cfg Config

	mu     sync.Mutex // guards status
	status Status
}

// Status is how the archive does.
type Status struct {
	// Dir of the archive.
	Dir string
	// LastSuccess is when the archive last held everything that was there to hold; zero before the first time.
	LastSuccess time.Time
	// LastWritten is when a file was last written by this process; zero before the first.
	LastWritten time.Time
	// LastFile is the newest file of the present lineage, and LastOffset its metadata offset.
	LastFile   string
	LastOffset int64
	// LastError is why the last attempt that failed did, and LastErrorAt when. They stay after a success.
	LastError   string
	LastErrorAt time.Time
	// Failing tells that the last attempt failed.
	Failing bool
	// Written, Removed and Failures count since the process started.
	Written, Removed, Failures uint64
}

// New makes an archive. Nothing is written before Run.
func New(cfg Config) *Archive {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &Archive{cfg: cfg, status: Status{Dir: cfg.Dir}}
}

// Status looks at the archive.
func (a *Archive) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

func (a *Archive) note(change func(*Status)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.status)
}

// Run keeps the archive until ctx ends.
func (a *Archive) Run(ctx context.Context) {
	wait := a.firstWait(time.Now())
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = a.attempt(time.Now())
	}
}

// firstWait lets a process that starts often write no more often than one that runs.
func (a *Archive) firstWait(now time.Time) time.Duration {
	files, err := list(a.cfg.Dir)
	if err != nil || len(files) == 0 {
		return 0
	}
	return min(max(files[len(files)-1].modified.Add(a.cfg.Interval).Sub(now), 0), a.cfg.Interval)
}

// attempt makes one attempt and returns how long to wait for the next.
func (a *Archive) attempt(now time.Time) time.Duration {
	err := a.Keep(now)
	switch {
	case errors.Is(err, errNotReady):
		return min(notReadyWait, a.cfg.Interval)
	case err != nil:
		a.note(func(s *Status) {
			s.LastError, s.LastErrorAt, s.Failing = err.Error(), now, true
			s.Failures++
		})
		a.cfg.Logger.Error("the archive of snapshots was not kept", "dir", a.cfg.Dir, "error", err)
		return min(retryWait, a.cfg.Interval)
	}
	a.note(func(s *Status) { s.LastSuccess, s.Failing = now, false })
	return a.cfg.Interval
}

// errNotReady is returned while there is no image to keep.
var errNotReady = errors.New("there is no metadata to keep yet")

// Keep writes the image if it moved and removes what is no longer kept. It may be interrupted anywhere: what it leaves, the
// next one completes.
func (a *Archive) Keep(now time.Time) error {
	img, err := a.cfg.Image()
	if err != nil {
		return err
	}
	if img == nil {
		return errNotReady
	}
	if err := a.prepare(); err != nil {
		return err
	}
	if err := a.keepImage(img, now); err != nil {
		return err
	}
	return a.retain(img.Lineage().ID, now)
}

// keepImage writes the image unless the archive has it, or something later of its lineage.
func (a *Archive) keepImage(img *fsm.Image, now time.Time) error {
	own := nameOf(img)
	files, err := list(a.cfg.Dir)
	if err != nil {
		return err
	}
	if newest := newestOf(files, own.lineage); newest != nil && newest.offset >= own.offset {
		faulty := verify(a.path(newest.name))
		if faulty == nil || newest.offset > own.offset {
			a.keeps(newest.name)
			return nil
		}
		a.cfg.Logger.Warn("a file of the archive is damaged and written anew", "file", newest.String(), "error", faulty)
	}
	if err := a.write(img, own); err != nil {
		return fmt.Errorf("archive %s: %w", own, err)
	}
	a.keeps(own)
	a.note(func(s *Status) {
		s.LastWritten = now
		s.Written++
	})
	a.cfg.Logger.Info("archived a snapshot", "file", own.String(), "metadata-offset", own.offset)
	return nil
}

// keeps notes which file is the newest.
func (a *Archive) keeps(n name) {
	a.note(func(s *Status) { s.LastFile, s.LastOffset = n.String(), n.offset })
}
