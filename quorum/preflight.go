package quorum

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/transport"
)

// ground is what a node's disk holds when it starts.
type ground struct {
	// snapshot is the newest one that can be read back.
	snapshot raft.SnapshotMeta
	// lastIndex is the index of the last entry, or of the snapshot.
	lastIndex uint64
}

// preflight looks at log and snapshots before Raft does, which panics on a missing entry. It counts the log's bytes
// into size. What it refuses, no restart can heal.
func preflight(logs raft.LogStore, snapshots raft.SnapshotStore, size *logSize, self transport.PeerID, logger hclog.Logger) (ground, error) {
	first, last, err := logBounds(logs)
	if err != nil {
		return ground{}, err
	}
	base, newest, err := newestReadable(snapshots, logger)
	if err != nil {
		return ground{}, cannotStart(self, "%w", err)
	}
	if base.Index != newest && last < newest {
		return ground{}, cannotStart(self, "missing [%d,%d]: the snapshot that held them cannot be read, and the log ends before it", last+1, newest)
	}
	if last > base.Index {
		if first > base.Index+1 {
			return ground{}, cannotStart(self, "missing [%d,%d]: the log begins after the last snapshot's end", base.Index+1, first-1)
		}
		if err := checkLog(logs, base.Index+1, last, self); err != nil {
			return ground{}, err
		}
	}
	if err := measureLog(logs, size, first, last); err != nil {
		return ground{}, err
	}
	return ground{snapshot: *base, lastIndex: max(last, base.Index)}, nil
}

func cannotStart(self transport.PeerID, format string, args ...any) *StopError {
	return refuse("if a majority of the quorum is alive, bring the node back as a new member: "+transport.RejoinCommand(self.NodeID), format, args...)
}

func logBounds(logs raft.LogStore) (first, last uint64, err error) {
	if first, err = logs.FirstIndex(); err != nil {
		return 0, 0, fmt.Errorf("read the first index of the log: %w", err)
	}
	if last, err = logs.LastIndex(); err != nil {
		return 0, 0, fmt.Errorf("read the last index of the log: %w", err)
	}
	return first, last, nil
}

// newestReadable gives the newest snapshot that can be read back, and the index of the newest that exists.
func newestReadable(snapshots raft.SnapshotStore, logger hclog.Logger) (*raft.SnapshotMeta, uint64, error) {
	metas, err := snapshots.List()
	if err != nil {
		return nil, 0, fmt.Errorf("list the snapshots: %w", err)
	}
	if len(metas) == 0 {
		return nil, 0, errors.New("no snapshot is left; every node has at least the one that its init wrote")
	}
	var faults []error
	for _, m := range metas {
		err := verifySnapshot(snapshots, m.ID)
		if err == nil {
			return m, metas[0].Index, nil
		}
		logger.Error("a snapshot cannot be read", "snapshot", m.ID, "error", err)
		faults = append(faults, fmt.Errorf("snapshot %s: %w", m.ID, err))
	}
	return nil, 0, errors.Join(faults...)
}

func verifySnapshot(snapshots raft.SnapshotStore, id string) error {
	_, r, err := snapshots.Open(id)
	if err != nil {
		return err
	}
	defer r.Close()
	verifier := fsm.NewSnapshotVerifier()
	if _, err := io.Copy(verifier, r); err != nil {
		return err
	}
	return verifier.Close()
}

// checkLog reads every entry that Raft will read.
func checkLog(logs raft.LogStore, first, last uint64, self transport.PeerID) error {
	for index := first; index <= last; index++ {
		var entry raft.Log
		switch err := logs.GetLog(index, &entry); {
		case errors.Is(err, raft.ErrLogNotFound):
			return cannotStart(self, "missing [%d]: the log goes from %d to %d without it", index, first, last)
		case err != nil:
			return cannotStart(self, "read log entry %d: %w", index, err)
		case entry.Index != index:
			return cannotStart(self, "log entry %d says that it is %d", index, entry.Index)
		}
	}
	return nil
}

// measureLog counts the bytes of the log's last unbroken run. What an installed snapshot left before a gap does not
// count: it goes with the next compaction.
func measureLog(logs raft.LogStore, size *logSize, first, last uint64) error {
	if last == 0 {
		return nil
	}
	start, err := runStart(logs, first, last)
	if err != nil {
		return err
	}
	var entry raft.Log
	for index := start; index <= last; index++ {
		if err := logs.GetLog(index, &entry); err != nil {
			return fmt.Errorf("read log entry %d: %w", index, err)
		}
		size.append([]*raft.Log{&entry})
	}
	return nil
}

// runStart gives the first index of the unbroken run that ends at last.
func runStart(logs raft.LogStore, first, last uint64) (uint64, error) {
	var entry raft.Log
	for index := last; index > first; index-- {
		switch err := logs.GetLog(index-1, &entry); {
		case errors.Is(err, raft.ErrLogNotFound):
			return index, nil
		case err != nil:
			return 0, fmt.Errorf("read log entry %d: %w", index-1, err)
		}
	}
	return first, nil
}

// diverged tells whether the log holds another entry where a snapshot ends. Raft would go on with the rest of that
// log and could never agree with its leader (hashicorp/raft#697).
func diverged(logs raft.LogStore, index, term uint64) (bool, error) {
	var entry raft.Log
	err := logs.GetLog(index, &entry)
	if errors.Is(err, raft.ErrLogNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read log entry %d: %w", index, err)
	}
	return entry.Term != term, nil
}
