package partlog_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/partlog/partlogtest"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
)

// TestReadersBesideEverything runs readers beside appends, truncations,
// retention and flushes. Whatever a reader gets is whole batches in order, of
// sound checksums.
func TestReadersBesideEverything(t *testing.T) {
	t.Run("in memory", func(t *testing.T) { readersBeside(t, newDisk(), dir, 3000) })
	t.Run("on disk", func(t *testing.T) { readersBeside(t, nil, t.TempDir()+"/p", 200) })
}

func readersBeside(t *testing.T, fsys partlog.FS, path string, changes int) {
	opts := small(fsys)
	l, err := partlog.Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	var done atomic.Bool
	for seed := range uint64(4) {
		readers.Go(func() { readUntil(t, l, rand.New(rand.NewPCG(seed, 0)), &done) })
	}
	rnd := rand.New(rand.NewPCG(99, 0))
	epoch := int32(0)
	for range changes {
		switch rnd.IntN(20) {
		case 0:
			epoch++
			err = l.TruncateTo(max(l.StartOffset(), l.EndOffset()-rnd.Int64N(20)))
		case 1:
			_, err = l.Retain(partlog.RetentionPolicy{Bytes: 3000, UpTo: l.EndOffset()}, clock)
		case 2:
			err = l.Flush()
		case 3:
			err = l.SetStartOffset(l.StartOffset() + rnd.Int64N(l.EndOffset()-l.StartOffset()+1)/4)
		default:
			_, err = l.Append(batchOf(t, 1+rnd.IntN(4), rnd.IntN(60), clock.UnixMilli(), nil), epoch, partlog.AppendOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	done.Store(true)
	readers.Wait()
	if n := opts.Files.Open(); n > 8 {
		t.Fatalf("%d files are open", n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := opts.Files.Open(); n != 0 {
		t.Fatalf("%d files are open after closing", n)
	}
}

func readUntil(t *testing.T, l *partlog.Log, rnd *rand.Rand, done *atomic.Bool) {
	for !done.Load() {
		start, end := l.StartOffset(), l.EndOffset()
		offset := start + rnd.Int64N(max(end-start, 1))
		info, err := l.Read(offset, rnd.IntN(1000), math.MaxInt64, true)
		if err != nil && !errors.Is(err, partlog.ErrOffsetOutOfRange) {
			t.Errorf("read at %d: %v", offset, err)
			return
		}
		next := info.FirstOffset
		for batch, err := range recordbatch.Split(info.Records) {
			h, invalid := recordbatch.Validate(batch, recordbatch.Limits{})
			if err != nil || invalid != nil || h.BaseOffset != next {
				t.Errorf("read at %d: batch at %d, want %d: %v %v", offset, h.BaseOffset, next, err, invalid)
				return
			}
			next = h.LastOffset() + 1
		}
		if _, _, _, _, err := l.OffsetForTimestamp(clock.UnixMilli() + 1); err != nil {
			t.Errorf("look up a time: %v", err)
			return
		}
	}
}

// TestAppendsThatWaitShareAnFsync holds the first fsync until all writers
// have written: with FlushBatch one more is then enough for all of them, and
// none returns before it.
func TestAppendsThatWaitShareAnFsync(t *testing.T) {
	const writers = 16
	var syncs atomic.Int64
	entered, release := make(chan struct{}, 2*writers), make(chan struct{})
	disk := newDisk()
	opts := options(&slowDisk{CrashFS: disk, before: func() { syncs.Add(1); entered <- struct{}{}; <-release }})
	opts.Flush = partlog.FlushBatch
	l := mustOpen(t, opts)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			info, err := l.Append(batchOf(t, 1, 10, 0, nil), 0, partlog.AppendOptions{})
			if err != nil || l.FlushedOffset() <= info.LastOffset || l.EndOffset() <= info.LastOffset {
				t.Errorf("%+v %v: flushed up to %d, ends at %d", info, err, l.FlushedOffset(), l.EndOffset())
			}
		})
	}
	<-entered
	one := int64(len(batchOf(t, 1, 10, 0, nil)))
	for deadline := time.Now().Add(30 * time.Second); l.SizeBytes() < writers*one; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("writers wait for the fsync before they write")
		}
	}
	if l.EndOffset() != 0 {
		t.Fatalf("ends at %d before anything is on disk", l.EndOffset())
	}
	close(release)
	wg.Wait()
	if n := syncs.Load(); n > 2 {
		t.Fatalf("%d fsyncs for %d appends", n, writers)
	}
	if l = mustOpen(t, options(disk.PowerCut())); l.EndOffset() != writers {
		t.Fatalf("ends at %d", l.EndOffset())
	}
}

// slowDisk calls before ahead of each fsync of a segment.
type slowDisk struct {
	*partlogtest.CrashFS
	before func()
}

type slowFile struct {
	partlog.File
	before func()
}

func (d *slowDisk) Open(name string, create bool) (partlog.File, error) {
	f, err := d.CrashFS.Open(name, create)
	if err != nil {
		return nil, err
	}
	return slowFile{f, d.before}, nil
}

func (f slowFile) Sync() error {
	f.before()
	return f.File.Sync()
}

// TestReadersDoNotWaitForAnFsync stops the disk in the middle of one.
func TestReadersDoNotWaitForAnFsync(t *testing.T) {
	entered, release := make(chan struct{}, 100), make(chan struct{})
	slow := &slowDisk{CrashFS: newDisk(), before: func() { entered <- struct{}{}; <-release }}
	l := mustOpen(t, options(slow))
	fill(t, l, 3, 0)
	flushed := make(chan error, 1)
	go func() { flushed <- l.Flush() }()
	<-entered
	if got := readAll(t, l); len(got) != 3 {
		t.Fatal(describe(got))
	}
	// Nor do appends that ask for no flush.
	fill(t, l, 1, 0)
	close(release)
	if err := <-flushed; err != nil {
		t.Fatal(err)
	}
}
