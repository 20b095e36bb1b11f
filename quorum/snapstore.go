package quorum

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/fsm"
)

// snapshotsKept is how many snapshots stay on disk: the newest, and one to fall back to.
const snapshotsKept = 2

// snapshotStore is raft's file store whose sinks verify what they are given while it is written, so that a snapshot
// that cannot be read back is never counted as one.
type snapshotStore struct {
	raft.SnapshotStore
	// completed is called when a snapshot is on disk, before Raft learns of it; an error takes it back from Raft, not
	// from the disk. It may be nil.
	completed func(index, term uint64) error
}

func newSnapshotStore(dir string, logger hclog.Logger) (*snapshotStore, error) {
	files, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, logger)
	if err != nil {
		return nil, fmt.Errorf("open snapshots in %s: %w", dir, err)
	}
	return &snapshotStore{SnapshotStore: files}, nil
}

// Create opens a sink that verifies.
func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	inner, err := s.SnapshotStore.Create(version, index, term, configuration, configurationIndex, trans)
	if err != nil {
		return nil, err
	}
	sink := &verifyingSink{inner: inner, verifier: fsm.NewSnapshotVerifier()}
	if s.completed != nil {
		sink.completed = func() error { return s.completed(index, term) }
	}
	return sink, nil
}

// verifyingSink checks a snapshot as its bytes pass. Raft closes a sink twice, and compacts the log behind the
// snapshot after the second Close says that all is well: so every Close repeats the first fault.
type verifyingSink struct {
	inner     raft.SnapshotSink
	verifier  *fsm.SnapshotVerifier
	completed func() error // see snapshotStore

	mu       sync.Mutex // Close and Cancel may come from different goroutines of Raft
	err      error      // the first fault; guarded by mu
	finished bool       // Close or Cancel has run; guarded by mu
}

var _ raft.SnapshotSink = (*verifyingSink)(nil)

// ID of the snapshot.
func (s *verifyingSink) ID() string { return s.inner.ID() }

// errSinkClosed is returned when bytes come after the end.
var errSinkClosed = errors.New("the snapshot is already complete or cancelled")

// Write passes the bytes on if they can still become a snapshot.
func (s *verifyingSink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if s.finished {
		return 0, errSinkClosed
	}
	if _, err := s.verifier.Write(p); err != nil {
		s.err = fmt.Errorf("verify the snapshot: %w", err)
		return 0, s.err
	}
	n, err := s.inner.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		s.err = err
	}
	return n, err
}

// Close completes the snapshot if every byte of it was right, else it cancels it.
func (s *verifyingSink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return s.err
	}
	s.finished = true
	if s.err != nil {
		s.err = errors.Join(s.err, s.inner.Cancel())
		return s.err
	}
	s.err = s.complete()
	return s.err
}

// complete closes the inner sink if the stream is whole. mu is held; nobody waits for it but Raft's second Close.
func (s *verifyingSink) complete() error {
	if err := s.verifier.Close(); err != nil {
		return errors.Join(fmt.Errorf("verify the snapshot: %w", err), s.inner.Cancel())
	}
	if err := s.inner.Close(); err != nil {
		return err
	}
	if s.completed != nil {
		return s.completed()
	}
	return nil
}

// Cancel throws the snapshot away. A sink that was closed stays what it is.
func (s *verifyingSink) Cancel() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return nil
	}
	s.finished = true
	if s.err == nil {
		s.err = errSinkClosed
	}
	return s.inner.Cancel()
}
