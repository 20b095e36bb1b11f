package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/quorum/boltfile"
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

// ReadLog reads the Raft log in the data directory of a node, from an index on, and changes nothing. Not every entry need be
// committed. The node may run: neither side waits for the other, no lock is taken, and the node's disk is only read. What a
// running node appends or removes meanwhile may be among what is read or not. Entries come in order; an index that is missing
// in the log is passed over.
func ReadLog(dir string, from uint64, each func(LogEntry) error) error {
	raftDir := filepath.Join(dir, raftDirName)
	decode := func(entry *raft.Log) error {
		return each(LogEntry{Index: entry.Index, Term: entry.Term, Kind: entry.Type.String(), AppendedAt: entry.AppendedAt, Data: entry.Data})
	}
	if path := enginePath(StoreBolt, raftDir); exists(path) {
		return readBoltLog(path, from, decode)
	}
	if path := enginePath(StoreWAL, raftDir); exists(path) {
		return readWAL(path, from, decode)
	}
	return fmt.Errorf("%w in %s: neither %s nor %s is there", ErrNoRaftLog, dir, enginePath(StoreBolt, raftDir), enginePath(StoreWAL, raftDir))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// boltLogs is the bucket in which raft-boltdb keeps the log, by index (8 bytes, big endian).
const boltLogs = "logs"

func readBoltLog(path string, from uint64, each func(*raft.Log) error) error {
	file, err := boltfile.Open(path)
	if err != nil {
		return fmt.Errorf("open raft store: %w", err)
	}
	err = file.Each(boltLogs, binary.BigEndian.AppendUint64(nil, from), func(key, value []byte) error {
		entry, err := decodeBoltLog(key, value)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return each(entry)
	})
	return errors.Join(err, file.Close())
}

// decodeBoltLog reads an entry as raft-boltdb writes it.
func decodeBoltLog(key, value []byte) (*raft.Log, error) {
	if len(key) != 8 {
		return nil, fmt.Errorf("an index of the raft log has %d bytes", len(key))
	}
	index := binary.BigEndian.Uint64(key)
	var entry raft.Log
	if err := codec.NewDecoderBytes(value, &codec.MsgpackHandle{}).Decode(&entry); err != nil {
		return nil, fmt.Errorf("raft log at index %d: %w", index, err)
	}
	if entry.Index != index {
		return nil, fmt.Errorf("raft log at index %d: the entry says that it is %d", index, entry.Index)
	}
	return &entry, nil
}
