package quorum

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
)

func TestReadLogReadsAStoreThatNobodyHolds(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, raftDirName), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := ReadLog(dir, 0, nil); !errors.Is(err, ErrNoRaftLog) {
		t.Errorf("without a store: %v", err)
	}
	store, err := openBolt(enginePath(StoreBolt, filepath.Join(dir, raftDirName)))
	if err != nil {
		t.Fatal(err)
	}
	for index := uint64(5); index < 9; index++ {
		if err := store.StoreLog(&raft.Log{Index: index, Term: 2, Type: raft.LogCommand, Data: []byte{byte(index)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := ReadLog(dir, 0, nil); !errors.Is(err, ErrDirectoryInUse) {
		t.Errorf("while it is held: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	var indexes []uint64
	err = ReadLog(dir, 7, func(e LogEntry) error {
		if e.Term != 2 || e.Kind != "LogCommand" || !slices.Equal(e.Data, []byte{byte(e.Index)}) {
			t.Errorf("entry %+v", e)
		}
		indexes = append(indexes, e.Index)
		return nil
	})
	if err != nil || !slices.Equal(indexes, []uint64{7, 8}) {
		t.Errorf("indexes %v, %v", indexes, err)
	}
}
