package archive

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// imageAt is an image of a lineage whose last record has a metadata offset.
func imageAt(t *testing.T, lineage byte, offset int64) *fsm.Image {
	t.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{9}.String(), Lineage: fsm.LineageID{Number: uint64(lineage), UUID: fsm.UUID{lineage}}.Proto(), NextMetadataOffset: offset + 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// world is an archive and the image that it is given.
type world struct {
	*Archive
	t   *testing.T
	img *fsm.Image
	err error
	now time.Time
}

func newWorld(t *testing.T, cfg Config) *world {
	t.Helper()
	w := &world{t: t, now: time.Now()}
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(t.TempDir(), "archive")
	}
	cfg.NodeID, cfg.Image = 101, func() (*fsm.Image, error) { return w.img, w.err }
	w.Archive = New(cfg)
	return w
}

// keep moves the image, keeps it, and returns what is in the directory.
func (w *world) keep(lineage byte, offset int64) []string {
	w.t.Helper()
	w.img = imageAt(w.t, lineage, offset)
	if err := w.Keep(w.now); err != nil {
		w.t.Fatal(err)
	}
	return w.entries()
}

// entries are the files as lineage:offset; others by their name.
func (w *world) entries() (out []string) {
	w.t.Helper()
	entries, err := os.ReadDir(w.cfg.Dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		if n, ok := parseName(e.Name()); ok {
			out = append(out, fmt.Sprintf("%d:%d", n.lineage.Number, n.offset))
			continue
		}
		out = append(out, e.Name())
	}
	return out
}

func (w *world) damage(lineage byte, offset int64) {
	w.t.Helper()
	path := w.path(nameOf(imageAt(w.t, lineage, offset)))
	data, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, filePerm); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) age(lineage byte, offset int64, age time.Duration) {
	w.t.Helper()
	at := w.now.Add(-age)
	if err := os.Chtimes(w.path(nameOf(imageAt(w.t, lineage, offset))), at, at); err != nil {
		w.t.Fatal(err)
	}
}

func want(t *testing.T, what string, got []string, names ...string) {
	t.Helper()
	if !slices.Equal(got, names) {
		t.Errorf("%s: %q, want %q", what, got, names)
	}
}

func TestOnlyWhatMovedIsWritten(t *testing.T) {
	w := newWorld(t, Config{Interval: time.Hour})
	want(t, "first", w.keep(1, 5), "1:5")
	info := func() os.FileInfo {
		info, err := os.Stat(w.path(nameOf(w.img)))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	before := info()
	want(t, "again", w.keep(1, 5), "1:5")
	if after := info(); !os.SameFile(before, after) || w.Status().Written != 1 {
		t.Error("an image that did not move was written again")
	}
	want(t, "moved", w.keep(1, 8), "1:5", "1:8")
	want(t, "behind", w.keep(1, 6), "1:5", "1:8") // a node that shares the directory is further
	if s := w.Status(); s.Written != 2 || s.LastOffset != 8 || s.LastFile != nameOf(imageAt(t, 1, 8)).String() {
		t.Errorf("status %+v", s)
	}
	f, err := os.Open(w.path(nameOf(imageAt(t, 1, 8))))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if img, err := fsm.ReadSnapshot(f); err != nil || img.AppliedOffset() != 8 {
		t.Errorf("read back: %v", err)
	}
}

func TestADamagedFileOfTheSameImageIsWrittenAnew(t *testing.T) {
	w := newWorld(t, Config{Interval: time.Hour})
	w.keep(1, 5)
	w.damage(1, 5)
	w.keep(1, 5)
	if err := verify(w.path(nameOf(w.img))); err != nil || w.Status().Written != 2 {
		t.Errorf("written %d, %v", w.Status().Written, err)
	}
}

func TestRetention(t *testing.T) {
	w := newWorld(t, Config{Interval: time.Hour, RetentionCount: 3, RetentionAge: 24 * time.Hour})
	for offset := int64(1); offset <= 3; offset++ {
		w.keep(1, offset)
	}
	want(t, "by count", w.keep(1, 4), "1:2", "1:3", "1:4")
	w.age(1, 2, 25*time.Hour)
	want(t, "by age", w.keep(1, 4), "1:3", "1:4")
	w.age(1, 3, 25*time.Hour)
	w.age(1, 4, 25*time.Hour)
	want(t, "the newest stays", w.keep(1, 4), "1:4")
	want(t, "another lineage", w.keep(2, 9), "1:4", "2:9")
	for offset := int64(10); offset <= 14; offset++ {
		w.keep(2, offset)
	}
	want(t, "it leaves the first alone", w.entries(), "1:4", "2:12", "2:13", "2:14")
}

// TestTheNewestGoodFileIsNeverRemoved: damage to newer ones must not cost it.
func TestTheNewestGoodFileIsNeverRemoved(t *testing.T) {
	w := newWorld(t, Config{Interval: time.Hour})
	for offset := int64(1); offset <= 4; offset++ {
		w.keep(1, offset)
	}
	w.damage(1, 3)
	w.damage(1, 4)
	w.cfg.RetentionCount = 1
	if err := w.retain(w.img.Lineage().ID, w.now); err != nil {
		t.Fatal(err)
	}
	want(t, "with two damaged", w.entries(), "1:2", "1:4")
	w.damage(1, 2)
	if err := w.retain(w.img.Lineage().ID, w.now); err == nil || !strings.Contains(err.Error(), "nothing was removed") {
		t.Errorf("with all damaged: %v", err)
	}
	want(t, "with all damaged", w.entries(), "1:2", "1:4")
}

func TestUnfinishedFilesOfThisNodeAreRemoved(t *testing.T) {
	w := newWorld(t, Config{Interval: time.Hour})
	w.keep(1, 1)
	n := nameOf(imageAt(t, 1, 2))
	for _, left := range []string{n.unfinished(101), n.unfinished(1101), n.unfinished(102), "notes.txt", "x" + suffix} {
		if err := os.WriteFile(filepath.Join(w.cfg.Dir, left), []byte("x"), filePerm); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "left", w.keep(1, 3), n.unfinished(102), n.unfinished(1101), "1:1", "1:3", "notes.txt", "x"+suffix)
}

func TestNames(t *testing.T) {
	for _, bad := range []string{
		"", suffix, strings.Repeat("1", 64) + suffix, "00000000000000000001-00000000000000000005-AAAA" + suffix,
		strings.TrimSuffix(nameOf(imageAt(t, 1, 5)).String(), suffix), "+" + nameOf(imageAt(t, 1, 5)).String()[1:],
	} {
		if n, ok := parseName(bad); ok {
			t.Errorf("%q was read as %v", bad, n)
		}
	}
	n := nameOf(imageAt(t, 3, 1<<44))
	if got, ok := parseName(n.String()); !ok || got != n {
		t.Errorf("%q is read as %v", n, got)
	}
}

func TestAFailureIsToldAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := filepath.Join(t.TempDir(), "mount")
		w := newWorld(t, Config{Dir: filepath.Join(parent, "archive"), Interval: time.Hour})
		var img atomic.Pointer[fsm.Image]
		w.cfg.Image = func() (*fsm.Image, error) { return img.Load(), nil }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			w.Run(ctx)
			close(done)
		}()
		time.Sleep(10 * time.Second) // there is no image yet
		if s := w.Status(); s.Failures != 0 || !s.LastSuccess.IsZero() {
			t.Errorf("without an image: %+v", s)
		}
		img.Store(imageAt(t, 1, 7))
		time.Sleep(10 * time.Second)
		if s := w.Status(); !s.Failing || s.Failures != 1 || !strings.Contains(s.LastError, parent) {
			t.Errorf("without the mount: %+v", s)
		}
		if err := os.Mkdir(parent, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(retryWait)
		if s := w.Status(); s.Failing || s.Written != 1 || s.LastOffset != 7 || s.LastError == "" || s.LastSuccess.IsZero() {
			t.Errorf("with the mount: %+v", s)
		}
		cancel()
		<-done
	})
}

func TestTwoNodesShareADirectory(t *testing.T) {
	a := newWorld(t, Config{Interval: time.Hour})
	b := newWorld(t, Config{Interval: time.Hour, Dir: a.cfg.Dir})
	b.cfg.NodeID = 102
	a.keep(1, 5)
	b.keep(1, 5)
	if s := b.Status(); s.Written != 0 || s.LastOffset != 5 {
		t.Errorf("the second: %+v", s)
	}
	var one bytes.Buffer
	if err := fsm.WriteSnapshot(a.img, &one); err != nil {
		t.Fatal(err)
	}
	if file, err := os.ReadFile(a.path(nameOf(a.img))); err != nil || !bytes.Equal(file, one.Bytes()) {
		t.Errorf("the file is not the image's stream: %v", err)
	}
}
