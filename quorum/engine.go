package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/skiffmq/skiff/fsm"
)

// StoreKind names the store that holds Raft's log, its term and its vote.
type StoreKind string

// Kinds of store.
const (
	// StoreBolt is raft-boltdb/v2: the default.
	StoreBolt StoreKind = "bolt"
	// StoreWAL is raft-wal: half the commit latency, experimental by its own word.
	StoreWAL StoreKind = "wal"
)

// boltLockTimeout is how long another process may hold the file's lock before opening fails.
const boltLockTimeout = 2 * time.Second

// engine is a store as its library gives it: raft-boltdb or raft-wal, or a test's.
type engine interface {
	raft.LogStore
	raft.StableStore
	io.Closer
}

// raftDir, and the files in it. docs/formats/raft-store.md describes them.
const (
	raftDirName = "raft"
	boltFile    = "raft.db"
	walDirName  = "wal"
)

// openEngine opens the store of that kind in dir, creating it if create is set. A file that is locked by another
// process, missing or unreadable is refused.
func openEngine(kind StoreKind, dir string, create bool, logger hclog.Logger) (engine, error) {
	path := enginePath(kind, dir)
	if !create {
		if _, err := os.Stat(path); err != nil {
			return nil, refuse("restore the file, or bring the node back with an empty directory as a new member",
				"raft store %s is missing: %w", path, err)
		}
	}
	switch kind {
	case StoreBolt:
		return openBolt(path)
	case StoreWAL:
		return openWAL(path, logger)
	}
	return nil, refuse("set raft.log.store to bolt or wal", "raft.log.store is %q", kind)
}

func enginePath(kind StoreKind, dir string) string {
	if kind == StoreWAL {
		return filepath.Join(dir, walDirName)
	}
	return filepath.Join(dir, boltFile)
}

// openBolt opens raft-boltdb. Without the freelist on disk a commit does not grow with the free pages of the file.
func openBolt(path string) (engine, error) {
	store, err := raftboltdb.New(raftboltdb.Options{
		Path: path,
		BoltOptions: &bbolt.Options{
			Timeout:        boltLockTimeout,
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		},
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, refuse("stop the other process, or give this one another directory", "raft store %s is held by another process", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open raft store %s: %w", path, err)
	}
	return store, nil
}

func openWAL(path string, logger hclog.Logger) (engine, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("make raft store %s: %w", path, err)
	}
	meta := &metadb.BoltMetaDB{}
	store, err := wal.Open(path, wal.WithLogger(logger), wal.WithMetaStore(meta))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open raft store %s: %w", path, err), meta.Close())
	}
	return walEngine{WAL: store, meta: meta}, nil
}

// walEngine closes the file of stable values too, which raft-wal leaves open and locked.
type walEngine struct {
	*wal.WAL
	meta *metadb.BoltMetaDB
}

// Close closes the log, then the stable values.
func (e walEngine) Close() error { return errors.Join(e.WAL.Close(), e.meta.Close()) }

// storePin is what identifies a store: `meta` holds its twin. A store that was swapped for another is found so.
type storePin struct {
	Kind   StoreKind
	UUID   fsm.UUID
	Format byte
}

// storeFormat is the version of what this package keeps in a store.
const storeFormat = 1

// pinKey holds the format (one byte) and the uuid (16 bytes) of the store.
var pinKey = []byte("skiff-store")

func (p storePin) write(e engine) error {
	return e.Set(pinKey, append([]byte{p.Format}, p.UUID[:]...))
}

// check compares the pin with what the store holds.
func (p storePin) check(e engine, path string) error {
	const fix = "restore the directory that belongs to this node, or bring the node back with an empty one as a new member"
	value, err := e.Get(pinKey)
	if err != nil && !isNotFound(err) {
		return fmt.Errorf("read the pin of raft store %s: %w", path, err)
	}
	if len(value) == 0 {
		return refuse(fix, "raft store %s holds no store id; meta expects %s", path, p.UUID)
	}
	if value[0] > storeFormat {
		return refuse("start the newer version again", "raft store %s has format %d, this version knows up to %d", path, value[0], storeFormat)
	}
	if !bytes.Equal(value[1:], p.UUID[:]) {
		found, err := fsm.UUIDFromBytes(value[1:])
		if err != nil {
			return refuse(fix, "raft store %s holds a store id of %d bytes; meta expects %s", path, len(value)-1, p.UUID)
		}
		return refuse(fix, "raft store %s is store %s; meta expects %s", path, found, p.UUID)
	}
	return nil
}
