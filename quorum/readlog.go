package quorum

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// ErrNoRaftLog is returned by ReadLog where a directory holds no log that it can read.
var ErrNoRaftLog = errors.New("no raft log")

// LogEntry is one entry of a Raft log as a person looks at it.
type LogEntry struct {
	// Index and Term are Raft's.
	Index, Term uint64
	// Kind is what Raft calls the entry: LogCommand, LogNoop, LogBarrier, LogConfiguration.
	Kind string
	// AppendedAt is the leader's clock when it took the entry.
	AppendedAt time.Time
	// Data of a LogCommand is an envelope.
	Data []byte
}

// ReadLog reads the Raft log in the data directory of a node that is stopped, from an index on, and changes nothing. Not every entry
// need be committed. It reads the store bolt; the store wal repairs itself when it is opened and is not read.
func ReadLog(dir string, from uint64, each func(LogEntry) error) error {
	path := enginePath(StoreBolt, filepath.Join(dir, raftDirName))
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("%w in %s: %w", ErrNoRaftLog, dir, err)
	}
	store, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{Timeout: boltLockTimeout, ReadOnly: true}})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return fmt.Errorf("%w: %s", ErrDirectoryInUse, path)
	}
	if err != nil {
		return fmt.Errorf("open raft store %s: %w", path, err)
	}
	err = readEntries(store, from, each)
	return errors.Join(err, store.Close())
}

func readEntries(store *raftboltdb.BoltStore, from uint64, each func(LogEntry) error) error {
	first, err := store.FirstIndex()
	if err != nil {
		return fmt.Errorf("read raft log: %w", err)
	}
	last, err := store.LastIndex()
	if err != nil {
		return fmt.Errorf("read raft log: %w", err)
	}
	if first == 0 {
		return nil
	}
	for index := max(first, from); index <= last; index++ {
		var entry raft.Log
		if err := store.GetLog(index, &entry); err != nil {
			return fmt.Errorf("read raft log at index %d: %w", index, err)
		}
		if err := each(LogEntry{Index: entry.Index, Term: entry.Term, Kind: entry.Type.String(), AppendedAt: entry.AppendedAt, Data: entry.Data}); err != nil {
			return err
		}
	}
	return nil
}
