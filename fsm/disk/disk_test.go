package disk

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestWriteFileAtomicReplaces writes, replaces and leaves nothing else behind.
func TestWriteFileAtomicReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "meta")
	for _, content := range []string{"first, and longer", "second"} {
		if err := WriteFileAtomic(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := mustRead(t, path); string(got) != content {
			t.Fatalf("got %q, want %q", got, content)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Fatalf("%v in the directory, %v", entries, err)
	}
}

// TestWriteFileAtomicSurvivesALeftover: a crash before the rename leaves a temporary file, possibly longer and with
// another mode.
func TestWriteFileAtomicSurvivesALeftover(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta")
	if err := os.WriteFile(path+tempSuffix, bytes.Repeat([]byte("x"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteFileAtomic(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, path); string(got) != "new" {
		t.Fatalf("got %q", got)
	}
}

// TestWriteFileAtomicKeepsTheOldOnFailure fails at each step that a test can make fail without being root or not.
func TestWriteFileAtomicKeepsTheOldOnFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "meta")
	if err := WriteFileAtomic(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+tempSuffix, 0o700); err != nil { // the temporary file cannot be created
		t.Fatal(err)
	}
	if err := WriteFileAtomic(path, []byte("new"), 0o600); err == nil {
		t.Fatal("a write that cannot be made was reported as made")
	}
	if got := mustRead(t, path); string(got) != "old" {
		t.Fatalf("got %q, want the old content", got)
	}
	target := filepath.Join(dir, "taken") // the rename cannot replace a directory
	if err := os.MkdirAll(filepath.Join(target, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFileAtomic(target, []byte("new"), 0o600); err == nil {
		t.Fatal("a directory was replaced")
	}
	if _, err := os.Stat(target + tempSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the temporary file was left behind: %v", err)
	}
	if err := WriteFileAtomic(filepath.Join(dir, "missing", "meta"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
}

func TestReadFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("12345678"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFile(path, 8); err != nil || string(got) != "12345678" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := ReadFile(path, 7); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	if _, err := ReadFile(path+"x", 8); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
	if err := SyncDir(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
}
