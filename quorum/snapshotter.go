package quorum

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// snapshotRetry is the least time between two attempts, so that one that fails is not repeated at every append.
const snapshotRetry = 10 * time.Second

// snapshotter takes snapshots by bytes of log, whatever is in it, and by age, only if the metadata changed. Raft's
// own trigger counts entries, and would take one of an image that is as it was.
type snapshotter struct {
	m *member
	// index and offset of the last snapshot: Raft's index and the next metadata offset of its image. Snapshots that a
	// leader sent count too.
	index  atomic.Uint64
	offset int64 // set before run, then owned by it
	due    signal
}

func newSnapshotter(m *member, last raft.SnapshotMeta) *snapshotter {
	s := &snapshotter{m: m, due: make(signal, 1)}
	s.index.Store(last.Index)
	return s
}

// wake is called after each append. It does not block.
func (s *snapshotter) wake() {
	if s.bytes() < s.m.cfg.SnapshotBytes {
		return
	}
	s.due.set()
}

// bytes of log since the last snapshot.
func (s *snapshotter) bytes() int64 { return int64(s.m.size.since(s.index.Load())) }

// run takes snapshots until the member stops.
func (s *snapshotter) run() {
	age := time.NewTimer(s.interval())
	defer age.Stop()
	for {
		var reason string
		select {
		case <-s.m.ctx.Done():
			return
		case <-s.due:
			if s.bytes() < s.m.cfg.SnapshotBytes {
				continue // one was taken meanwhile
			}
			reason = "bytes"
		case <-age.C:
			age.Reset(s.interval())
			if s.m.machine.image.Load().NextOffset() == s.offset {
				continue
			}
			reason = "age"
		}
		s.take(reason)
		age.Reset(s.interval())
		if !s.pause() {
			return
		}
	}
}

func (s *snapshotter) interval() time.Duration {
	if s.m.cfg.SnapshotInterval <= 0 {
		return never
	}
	return s.m.cfg.SnapshotInterval
}

func (s *snapshotter) pause() bool {
	select {
	case <-time.After(snapshotRetry):
		return true
	case <-s.m.ctx.Done():
		return false
	}
}

// take takes one snapshot. The log behind it is kept as far as it fits the bound.
func (s *snapshotter) take(reason string) {
	start, offset := time.Now(), s.m.machine.image.Load().NextOffset()
	err := s.snapshot()
	s.m.metrics.snapshotTaken(time.Since(start), err)
	if err != nil {
		s.m.logger.Error("no snapshot was taken", "trigger", reason, "error", err)
		return
	}
	s.offset = offset
	s.m.logger.Info("took a snapshot", "trigger", reason, "metadata-offset", offset-1, "took", time.Since(start).String())
}

func (s *snapshotter) snapshot() error {
	s.m.syncHistory() // the log behind a snapshot may be cut
	reload := s.m.raft.ReloadableConfig()
	reload.TrailingLogs = s.m.size.trailing(uint64(s.m.cfg.TrailingBytes))
	if err := s.m.raft.ReloadConfig(reload); err != nil {
		return fmt.Errorf("set the trailing logs: %w", err)
	}
	err := s.m.raft.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// snapshotCompleted is called when a snapshot, our own or a leader's, is on disk. A log that disagrees with it is
// thrown away and the node starts again, because Raft would go on with what it remembers of that log.
func (m *member) snapshotCompleted(index, term uint64) error {
	differs, err := diverged(m.store, index, term)
	if err != nil {
		return err
	}
	if !differs {
		m.snaps.index.Store(index)
		return nil
	}
	first, last, err := logBounds(m.store)
	if err != nil {
		return err
	}
	if err := m.store.DeleteRange(first, last); err != nil {
		return err
	}
	stop := broken("", "the log disagreed with the leader's snapshot at index %d; entries %d to %d, which were never committed, were removed", index, first, last)
	m.node.fail(stop)
	return stop
}
