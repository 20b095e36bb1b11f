package partlog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/partlog/partlogtest"
)

var errFull = errors.New("no space left on device")

// failing makes changes of one kind to files of one suffix fail.
func failing(kind, suffix string) func(partlogtest.Op) error {
	return func(op partlogtest.Op) error {
		if op.Kind == kind && strings.HasSuffix(op.Name, suffix) {
			return errFull
		}
		return nil
	}
}

// TestFailedWriteIsTakenBack: half a batch on a full disk is removed, and the
// log goes on when there is room again.
func TestFailedWriteIsTakenBack(t *testing.T) {
	disk := newDisk()
	l := mustOpen(t, options(disk))
	fill(t, l, 2, 0)
	disk.Hook(failing("write", ".log"))
	_, err := l.Append(batchOf(t, 2, 40, 0, nil), 0, partlog.AppendOptions{})
	wantError(t, err, partlog.ErrStorage)
	wantError(t, err, errFull)
	_, err = l.AppendAsFollower(stamped(batchOf(t, 2, 40, 0, nil), 4, 3), 3)
	wantError(t, err, partlog.ErrStorage)
	if l.EndOffset() != 4 {
		t.Fatalf("ends at %d", l.EndOffset())
	}
	if epoch, _ := l.LatestEpoch(); epoch != 0 {
		t.Fatalf("epoch %d came from a batch that did not", epoch)
	}
	disk.Hook(nil)
	fill(t, l, 1, 0)
	want := readAll(t, l)
	l = mustOpen(t, options(disk.Kill()))
	if got := readAll(t, l); !equalBatches(got, want) || l.Recovered().CutAt != partlog.NoOffset {
		t.Fatalf("%s: %s", l.Recovered(), describe(got))
	}
}

// TestLogFailsWhenAWriteCannotBeTakenBack: it then refuses every change until
// it is opened again, and can still be read.
func TestLogFailsWhenAWriteCannotBeTakenBack(t *testing.T) {
	disk := newDisk()
	l := mustOpen(t, options(disk))
	fill(t, l, 2, 0)
	want := readAll(t, l)
	disk.Hook(func(op partlogtest.Op) error {
		return errors.Join(failing("write", ".log")(op), failing("truncate", ".log")(op))
	})
	_, err := l.Append(batchOf(t, 2, 40, 0, nil), 0, partlog.AppendOptions{})
	wantError(t, err, partlog.ErrStorage)
	disk.Hook(nil)
	checkFailed(t, l)
	if got := readAll(t, l); !equalBatches(got, want) {
		t.Fatal(describe(got))
	}
	wantError(t, l.Close(), partlog.ErrStorage)
	l = mustOpen(t, options(disk))
	if got := readAll(t, l); !equalBatches(got, want) || l.Recovered().CutAt != 4 {
		t.Fatalf("%s: %s", l.Recovered(), describe(got))
	}
}

func checkFailed(t *testing.T, l *partlog.Log) {
	t.Helper()
	_, err := l.Append(batchOf(t, 2, 40, 0, nil), 0, partlog.AppendOptions{})
	wantError(t, err, partlog.ErrStorage)
	_, err = l.AppendAsFollower(nil, 0)
	wantError(t, err, partlog.ErrStorage)
	_, err = l.Retain(partlog.RetentionPolicy{}, clock)
	wantError(t, err, partlog.ErrStorage)
	for name, err := range map[string]error{
		"flush": l.Flush(), "truncate": l.TruncateTo(0), "start over": l.TruncateFullyAndStartAt(0), "start": l.SetStartOffset(1),
	} {
		if !errors.Is(err, partlog.ErrStorage) {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// TestFailedFsyncFailsTheLog: after it the kernel may call dirty pages clean,
// so a second fsync that succeeds proves nothing.
func TestFailedFsyncFailsTheLog(t *testing.T) {
	for name, flush := range map[string]partlog.FlushPolicy{"flush none": partlog.FlushNone, "flush batch": partlog.FlushBatch} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk()
			opts := options(disk)
			opts.Flush = flush
			l := mustOpen(t, opts)
			fill(t, l, 2, 0)
			disk.Hook(failing("sync", ".log"))
			_, err := l.Append(batchOf(t, 2, 40, 0, nil), 0, partlog.AppendOptions{})
			if flush == partlog.FlushNone {
				if err != nil {
					t.Fatal(err)
				}
				err = l.Flush()
			}
			wantError(t, err, partlog.ErrStorage)
			disk.Hook(nil)
			checkFailed(t, l)
			if flush == partlog.FlushBatch && l.EndOffset() != 4 {
				t.Fatalf("what is not on disk can be read: ends at %d", l.EndOffset())
			}
		})
	}
}

// TestFaultAtEveryChange lets each change of the story fail once, without a
// crash: what was acknowledged stays, and the log opens again.
func TestFaultAtEveryChange(t *testing.T) {
	whole := partlogtest.New()
	if _, err := tell(t, whole, partlog.FlushNone); err != nil {
		t.Fatal(err)
	}
	for n := range whole.Ops() {
		fsys := partlogtest.New()
		count := 0
		fsys.Hook(func(partlogtest.Op) error {
			if count++; count == n+1 {
				return errFull
			}
			return nil
		})
		s, err := tell(t, fsys, partlog.FlushNone)
		if err == nil {
			continue // a change that nothing depends on
		}
		wantError(t, err, errFull)
		fsys.Hook(nil)
		s.h.check(t, fsys.Kill(), s.opts, false)
	}
}

func TestRollThatFailsLeavesTheLogWhole(t *testing.T) {
	disk := newDisk()
	l := mustOpen(t, small(disk))
	fill(t, l, 3, 0)
	disk.Hook(failing("create", ".log"))
	_, err := l.Append(batchOf(t, 2, 40, 0, nil), 0, partlog.AppendOptions{})
	wantError(t, err, partlog.ErrStorage)
	disk.Hook(nil)
	fill(t, l, 3, 0)
	if l.Segments() != 2 || len(readAll(t, l)) != 6 {
		t.Fatalf("%d segments, %s", l.Segments(), describe(readAll(t, l)))
	}
}
