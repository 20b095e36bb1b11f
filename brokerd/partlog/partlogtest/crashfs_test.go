package partlogtest_test

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/skiffmq/skiff/brokerd/partlog/partlogtest"
)

// write puts text into a file, and syncs what it is told to.
func write(t *testing.T, disk *partlogtest.CrashFS, name, text string, syncFile, syncDir bool) {
	t.Helper()
	f, err := disk.Open("/d/"+name, true)
	if err == nil {
		_, err = f.WriteAt([]byte(text), 0)
	}
	if err == nil && syncFile {
		err = f.Sync()
	}
	if err == nil && syncDir {
		err = disk.SyncDir("/d")
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// read returns a file's text, "-" if there is none.
func read(t *testing.T, disk *partlogtest.CrashFS, name string) string {
	t.Helper()
	f, err := disk.Open("/d/"+name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func newDisk(t *testing.T) *partlogtest.CrashFS {
	t.Helper()
	disk := partlogtest.New()
	if err := errors.Join(disk.MkdirAll("/d"), disk.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	write(t, disk, "all", "synced", true, false)
	write(t, disk, "name", "lost", false, true)
	write(t, disk, "bytes", "lost with its name", true, false)
	if err := disk.Rename("/d/bytes", "/d/renamed"); err != nil {
		t.Fatal(err)
	}
	return disk
}

func TestPowerCutLosesWhatWasNotSynced(t *testing.T) {
	disk := newDisk(t).PowerCut()
	for name, want := range map[string]string{"all": "synced", "name": "", "bytes": "-", "renamed": "-"} {
		if got := read(t, disk, name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
}

func TestKillLosesNothingAndSyncsNothing(t *testing.T) {
	old := newDisk(t)
	disk := old.Kill()
	for name, want := range map[string]string{"all": "synced", "name": "lost", "bytes": "-", "renamed": "lost with its name"} {
		if got := read(t, disk, name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	if got := read(t, disk.PowerCut(), "name"); got != "" {
		t.Errorf("killing synced %q", got)
	}
	if _, err := old.Open("/d/all", true); err == nil {
		t.Error("the killed process still opens files")
	}
}

func TestTornPowerCutKeepsAPrefix(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		disk := newDisk(t).TornPowerCut(rand.New(rand.NewPCG(seed, 1)))
		if got := read(t, disk, "all"); got != "synced" {
			t.Fatalf("what was synced reads %q", got)
		}
		if read(t, disk, "bytes") != "-" && read(t, disk, "renamed") != "-" {
			t.Fatal("a renamed file has both names")
		}
		seen[read(t, disk, "name")] = true
		seen[read(t, disk, "renamed")] = true
	}
	for _, want := range []string{"", "lost", "-", "lost with its name"} {
		if !seen[want] {
			t.Errorf("never saw %q", want)
		}
	}
	if len(seen) < 6 {
		t.Errorf("no write was torn: %v", seen)
	}
}

func TestCutAfterStopsEveryOperation(t *testing.T) {
	disk := newDisk(t)
	disk.CutAfter(1)
	f, err := disk.Open("/d/all", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("S"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("X"), 0); !errors.Is(err, partlogtest.ErrPowerCut) {
		t.Fatal(err)
	}
	if err := f.Sync(); !errors.Is(err, partlogtest.ErrPowerCut) {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, partlogtest.ErrPowerCut) {
		t.Fatal(err)
	}
}
