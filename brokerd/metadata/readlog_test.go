package metadata

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// writeLog writes a log file of two entries, with what comes after them.
func writeLog(t *testing.T, dir string, first int64, after ...byte) {
	t.Helper()
	data := logHeader{lineage: fsm.LineageID{Number: 1}, first: first}.encode()
	for offset := first; offset < first+2; offset++ {
		var err error
		if data, err = appendFrame(data, &controllerv1.EntryApplied{FirstMetadataOffset: offset}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, name{lineage: 1, next: first, suffix: logSuffix}.String())
	if err := os.WriteFile(path, append(data, after...), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadLogGoesOnBehindADamagedFile(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 1)
	writeLog(t, dir, 3, 0, 0, 0)
	writeLog(t, dir, 5)
	if err := os.WriteFile(filepath.Join(dir, name{lineage: 1, next: 4, suffix: logSuffix}.String()), []byte("no log"), 0o600); err != nil {
		t.Fatal(err)
	}
	var offsets []int64
	err := ReadLog(dir, func(_ string, e *controllerv1.EntryApplied) error {
		offsets = append(offsets, e.GetFirstMetadataOffset())
		return nil
	})
	if !errors.Is(err, errTorn) {
		t.Errorf("error %v, want the damage", err)
	}
	if want := []int64{1, 2, 3, 4, 5, 6}; !slices.Equal(offsets, want) {
		t.Errorf("offsets %v, want %v", offsets, want)
	}
}

func TestReadLogEndsWithTheCallersError(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 1)
	enough := errors.New("enough")
	count := 0
	err := ReadLog(dir, func(string, *controllerv1.EntryApplied) error {
		count++
		return enough
	})
	if !errors.Is(err, enough) || count != 1 {
		t.Errorf("%v after %d entries", err, count)
	}
}
