package metadata

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// follow opens a follower on dir and runs it with feed as its source; it returns what Run returned.
func follow(t *testing.T, dir string, imageBytes int64, feed func(*Follower) error) error {
	t.Helper()
	f := openFollower(t, dir, imageBytes)
	f.cfg.Source = func(ctx context.Context, f *Follower) error {
		if err := feed(f); err != nil {
			return err
		}
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return f.Run(ctx)
}

func openFollower(t *testing.T, dir string, imageBytes int64) *Follower {
	t.Helper()
	f, err := Open(Config{Dir: dir, ImageBytes: imageBytes, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// left opens dir again and returns the image that the last process left.
func left(t *testing.T, dir string) *fsm.Image {
	t.Helper()
	f := openFollower(t, dir, 0)
	img := f.Image()
	if err := f.store.close(); err != nil {
		t.Fatal(err)
	}
	return img
}

func mustSame(t *testing.T, got, want *fsm.Image) {
	t.Helper()
	switch {
	case got == nil:
		t.Fatal("no image")
	case got.NextOffset() != want.NextOffset() || got.Digest() != want.Digest():
		t.Fatalf("image at %d with digest %s, want %d with %s", got.NextOffset(), got.Digest(), want.NextOffset(), want.Digest())
	}
}

func TestTheNextProcessStartsFromTheLog(t *testing.T) {
	dir, h := t.TempDir(), newHistory(t, 1)
	base := h.img
	var entries []*controllerv1.EntryApplied
	for i := range 20 {
		entries = append(entries, h.change(i))
	}
	err := follow(t, dir, 0, func(f *Follower) error {
		if err := f.Snapshot(base); err != nil {
			return err
		}
		for _, e := range entries {
			if err := f.Entry(e); err != nil {
				return err
			}
		}
		if f.Applied() != h.img.AppliedOffset() {
			t.Errorf("applied %d, want %d", f.Applied(), h.img.AppliedOffset())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustSame(t, left(t, dir), h.img)
	mustSame(t, left(t, dir), h.img) // opening changes nothing
}

// TestEveryTornTailIsCut cuts the log at every byte of its last two entries: the next process has what was whole.
func TestEveryTornTailIsCut(t *testing.T) {
	dir, h := t.TempDir(), newHistory(t, 1)
	base := h.img
	first := h.change(1)
	afterFirst := h.img
	second := h.change(2)
	err := follow(t, dir, 0, func(f *Follower) error {
		return errors.Join(f.Snapshot(base), f.Entry(first), f.Entry(second))
	})
	if err != nil {
		t.Fatal(err)
	}
	path := logFile(t, dir)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	firstEnd := logHeaderSize + frameSize(t, first)
	for n := logHeaderSize; n <= len(whole); n++ {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		want := base
		if n >= firstEnd {
			want = afterFirst
		}
		if n == len(whole) {
			want = h.img
		}
		mustSame(t, left(t, dir), want)
	}
}

// TestEveryFlippedBitIsFound flips each byte of the second entry: what is before it stays, and it is never folded.
func TestEveryFlippedBitIsFound(t *testing.T) {
	dir, h := t.TempDir(), newHistory(t, 1)
	base := h.img
	first := h.change(1)
	afterFirst := h.img
	second := h.change(2)
	if err := follow(t, dir, 0, func(f *Follower) error { return errors.Join(f.Snapshot(base), f.Entry(first), f.Entry(second)) }); err != nil {
		t.Fatal(err)
	}
	path := logFile(t, dir)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := logHeaderSize + frameSize(t, first); i < len(whole); i++ {
		damaged := slices.Clone(whole)
		damaged[i] ^= 0x10
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		mustSame(t, left(t, dir), afterFirst)
	}
}

func logFile(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"+logSuffix))
	if err != nil || len(found) != 1 {
		t.Fatalf("log files %v, %v", found, err)
	}
	return found[0]
}

func frameSize(t *testing.T, e *controllerv1.EntryApplied) int {
	t.Helper()
	b, err := appendFrame(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	return len(b)
}

// TestTheLogIsBounded writes far more log than an image is worth; what stays is two images and the logs behind them.
func TestTheLogIsBounded(t *testing.T) {
	dir, h := t.TempDir(), newHistory(t, 1)
	base := h.img
	var entries []*controllerv1.EntryApplied
	for i := range 400 {
		entries = append(entries, h.change(i))
	}
	err := follow(t, dir, 2000, func(f *Follower) error {
		if err := f.Snapshot(base); err != nil {
			return err
		}
		for _, e := range entries {
			if err := f.Entry(e); err != nil {
				return err
			}
			f.images.Wait()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) > 6 {
		t.Fatalf("%d files stay: %v", len(files), files)
	}
	mustSame(t, left(t, dir), h.img)
	newest := files[len(files)-1].Name()
	for _, f := range files {
		if filepath.Ext(f.Name()) == imageSuffix {
			newest = f.Name()
		}
	}
	if err := os.Truncate(filepath.Join(dir, newest), 100); err != nil {
		t.Fatal(err)
	}
	mustSame(t, left(t, dir), h.img) // the older image and its logs are enough
}

func TestItNeverGoesBack(t *testing.T) {
	dir, h := t.TempDir(), newHistory(t, 1)
	old := h.img
	h.change(1)
	err := follow(t, dir, 0, func(f *Follower) error {
		if err := f.Snapshot(h.img); err != nil {
			return err
		}
		if err := f.Snapshot(old); !errors.Is(err, ErrBehind) {
			t.Errorf("I6: an older snapshot of the lineage: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustSame(t, left(t, dir), h.img)
}

func TestADescendantLineageIsFollowed(t *testing.T) {
	dir, one, two := t.TempDir(), newHistory(t, 1), newHistory(t, 2, 1)
	base := two.img
	entry := two.change(1)
	err := follow(t, dir, 0, func(f *Follower) error {
		return errors.Join(f.Snapshot(one.img), f.Snapshot(base), f.Entry(entry))
	})
	if err != nil {
		t.Fatal(err)
	}
	mustSame(t, left(t, dir), two.img)
	if err := follow(t, dir, 0, func(f *Follower) error {
		if err := f.Snapshot(one.img); !errors.Is(err, ErrBehind) {
			t.Errorf("I6: a snapshot of the ancestor: %v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAForeignLineageEndsIt(t *testing.T) {
	dir, one, stranger := t.TempDir(), newHistory(t, 1), newHistory(t, 3)
	err := follow(t, dir, 0, func(f *Follower) error {
		return errors.Join(f.Snapshot(one.img), f.Snapshot(stranger.img))
	})
	var foreign *ForeignLineageError
	if !errors.As(err, &foreign) || foreign.Ours != one.img.Lineage().ID || foreign.Theirs != stranger.img.Lineage().ID {
		t.Fatalf("ended with %v", err)
	}
	mustSame(t, left(t, dir), one.img)
}

// TestAnEntryThatDoesNotFoldFreezes gives an entry that passes the checks and cannot be folded: the image stands,
// nothing more is taken, and nothing of it is on disk (I3).
func TestAnEntryThatDoesNotFoldFreezes(t *testing.T) {
	dir, h := t.TempDir(), newHistory(t, 1)
	base := h.img
	good := h.change(1)
	afterGood := h.img
	next := h.change(2)
	garbage := &controllerv1.EntryApplied{FirstMetadataOffset: afterGood.NextOffset(), ControllerEpoch: 1, Envelope: []byte{0xff, 0xff}}
	err := follow(t, dir, 0, func(f *Follower) error {
		if err := errors.Join(f.Snapshot(base), f.Entry(good), f.Entry(garbage), f.Entry(next)); err != nil {
			return err
		}
		if f.Frozen() == nil || f.Trusted() {
			t.Error("I3: not frozen")
		}
		mustSame(t, f.Image(), afterGood)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustSame(t, left(t, dir), afterGood)
}

func TestSubscribersAreToldInOrderBeforeTheOffsetMoves(t *testing.T) {
	h := newHistory(t, 1)
	f := openFollower(t, t.TempDir(), 0)
	var told []string
	for _, name := range []string{"replicas", "groups"} {
		f.Subscribe(func(_ *fsm.Delta, img *fsm.Image) {
			if f.Applied() >= img.AppliedOffset() {
				t.Errorf("%s is told of %d after it was applied", name, img.AppliedOffset())
			}
			told = append(told, name)
		})
	}
	f.fatal = func(error) {}
	if err := f.Snapshot(h.img); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(told, []string{"replicas", "groups"}) {
		t.Fatalf("told %v", told)
	}
	if !f.Confirmed() {
		t.Fatal("a snapshot from the quorum confirms the image")
	}
}

func TestAwaitEnds(t *testing.T) {
	p := newProgress()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := p.await(ctx, 5); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("await beyond the end: %v", err)
	}
	done := make(chan error)
	go func() { done <- p.await(t.Context(), 5) }()
	p.set(4)
	p.set(5)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	go func() { done <- p.await(t.Context(), 6) }()
	p.close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Fatalf("await after the end: %v", err)
	}
}
