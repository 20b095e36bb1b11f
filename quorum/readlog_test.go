package quorum

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// storeLogs appends entries from one index up to another, as a leader of term 2.
func storeLogs(t *testing.T, store engine, from, to uint64, bytes int) {
	t.Helper()
	var logs []*raft.Log
	for index := from; index < to; index++ {
		logs = append(logs, &raft.Log{Index: index, Term: 2, Type: raft.LogCommand, Data: append([]byte{byte(index)}, make([]byte, bytes)...)})
	}
	if err := store.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
}

// readIndexes are those of the entries that ReadLog gives.
func readIndexes(t *testing.T, dir string, from uint64) (indexes []uint64) {
	t.Helper()
	err := ReadLog(dir, from, func(e LogEntry) error {
		if e.Term != 2 || e.Kind != "LogCommand" || e.Data[0] != byte(e.Index) {
			t.Errorf("entry %d of term %d is a %s of %v", e.Index, e.Term, e.Kind, e.Data[0])
		}
		indexes = append(indexes, e.Index)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return indexes
}

func upTo(from, to uint64) (list []uint64) {
	for ; from < to; from++ {
		list = append(list, from)
	}
	return list
}

// TestReadLogReadsAStoreThatIsHeld: the store stays open, and locked, as in a node that runs.
func TestReadLogReadsAStoreThatIsHeld(t *testing.T) {
	for _, kind := range []StoreKind{StoreBolt, StoreWAL} {
		t.Run(string(kind), func(t *testing.T) {
			dir := t.TempDir()
			raftDir := filepath.Join(dir, raftDirName)
			if err := os.Mkdir(raftDir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := ReadLog(dir, 0, nil); !errors.Is(err, ErrNoRaftLog) {
				t.Errorf("without a store: %v", err)
			}
			store, err := openEngine(kind, raftDir, true, hclog.NewNullLogger())
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			storeLogs(t, store, 5, 300, 2000)
			if got := readIndexes(t, dir, 0); !slices.Equal(got, upTo(5, 300)) {
				t.Errorf("all: %v", got)
			}
			storeLogs(t, store, 300, 310, 1<<20)
			if err := store.DeleteRange(5, 150); err != nil {
				t.Fatal(err)
			}
			if err := store.DeleteRange(308, 309); err != nil {
				t.Fatal(err)
			}
			if got := readIndexes(t, dir, 0); !slices.Equal(got, upTo(151, 308)) {
				t.Errorf("after the ends were removed: %v", got)
			}
			storeLogs(t, store, 308, 320, 10)
			if got := readIndexes(t, dir, 301); !slices.Equal(got, upTo(301, 320)) {
				t.Errorf("from 301: %v", got)
			}
			enough := errors.New("enough")
			if err := ReadLog(dir, 0, func(LogEntry) error { return enough }); !errors.Is(err, enough) {
				t.Errorf("the visitor's error: %v", err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			if got := readIndexes(t, dir, 319); !slices.Equal(got, []uint64{319}) {
				t.Errorf("of a store that nobody holds: %v", got)
			}
		})
	}
}

// TestReadLogOfADamagedStore ends with an error that names the file.
func TestReadLogOfADamagedStore(t *testing.T) {
	for _, kind := range []StoreKind{StoreBolt, StoreWAL} {
		dir := t.TempDir()
		raftDir := filepath.Join(dir, raftDirName)
		if err := os.Mkdir(raftDir, 0o755); err != nil {
			t.Fatal(err)
		}
		store, err := openEngine(kind, raftDir, true, hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		storeLogs(t, store, 1, 50, 500)
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(raftDir, boltFile)
		if kind == StoreWAL {
			files, err := filepath.Glob(filepath.Join(raftDir, walDirName, "*.wal"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			path = files[0]
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := 8200; i < min(20_000, len(data)); i++ {
			data[i] ^= 0x55
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		err = ReadLog(dir, 0, func(LogEntry) error { n++; return nil })
		if err == nil && n == 49 {
			t.Errorf("%s: no damage was found", kind)
		}
		t.Logf("%s: %d of 49 entries, then %v", kind, n, err)
	}
}
