package partlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/partlog/partlogtest"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
)

// history is what a log must hold after a crash: the batches of one of two
// moments, before and after the step the crash fell into, up to any batch at
// or above what was flushed.
type history struct {
	before, after    [][]byte
	start, nextStart int64
	flushed          int64
	end              int64
	done             int
}

// story is a scripted life of a log; each step is cut at each of its writes.
type story struct {
	t    testing.TB
	opts partlog.Options
	l    *partlog.Log
	h    history
	seq  int32
}

func (s *story) settled() {
	s.h.before, s.h.start = s.h.after, s.h.nextStart
	s.h.done++
}

func (s *story) append(n int, epoch int32) error {
	batch := batchOf(s.t, n, 40, clock.UnixMilli(), &recordbatch.Producer{ID: 5, BaseSequence: s.seq})
	s.h.after = append(s.h.before[:len(s.h.before):len(s.h.before)], stamped(batch, s.h.end, epoch))
	if _, err := s.l.Append(batch, epoch, partlog.AppendOptions{LogAppendTimeMs: -1}); err != nil {
		return err
	}
	s.seq += int32(n)
	s.h.end += int64(n)
	if s.opts.Flush == partlog.FlushBatch {
		s.h.flushed = s.h.end
	}
	s.settled()
	return nil
}

func (s *story) flush() error {
	if err := s.l.Flush(); err != nil {
		return err
	}
	s.h.flushed = s.h.end
	s.settled()
	return nil
}

func (s *story) truncate(offset int64) error {
	keep := len(s.h.before)
	for keep > 0 && lastOf(s.h.before[keep-1]) >= offset {
		keep--
	}
	s.h.after = s.h.before[:keep:keep]
	end := s.h.start
	if keep > 0 {
		end = lastOf(s.h.after[keep-1]) + 1
	}
	s.h.flushed = min(s.h.flushed, end)
	if err := s.l.TruncateTo(offset); err != nil {
		return err
	}
	s.h.end = end
	if keep > 0 {
		last := s.h.after[keep-1]
		s.seq = int32(binary.BigEndian.Uint32(last[53:])) + int32(binary.BigEndian.Uint32(last[57:]))
	}
	s.settled()
	return nil
}

func (s *story) startOver(offset int64) error {
	s.h.after, s.h.nextStart, s.h.flushed = nil, offset, 0
	if err := s.l.TruncateFullyAndStartAt(offset); err != nil {
		return err
	}
	s.h.end, s.h.flushed = offset, offset
	s.settled()
	return nil
}

func (s *story) moveStart(offset int64) error {
	s.h.nextStart = offset
	if err := s.l.SetStartOffset(offset); err != nil {
		return err
	}
	s.settled()
	return nil
}

// retain deletes whole segments below the start offset.
func (s *story) retain(bytes int64) error {
	if bytes >= 0 {
		// How far it goes is judged by what it leaves.
		s.h.nextStart = s.h.end
	}
	_, err := s.l.Retain(partlog.RetentionPolicy{Bytes: bytes, UpTo: s.h.end}, clock)
	if err != nil {
		return err
	}
	s.h.nextStart = s.l.StartOffset()
	s.settled()
	return nil
}

func (s *story) reopen() error {
	if err := s.l.Close(); err != nil {
		return err
	}
	s.h.flushed = s.h.end
	l, err := partlog.Open(dir, s.opts)
	if err != nil {
		return err
	}
	s.l = l
	if got := l.Recovered(); got.Unclean {
		return fmt.Errorf("closed cleanly, found: %s", got)
	}
	s.settled()
	return nil
}

// steps is the story: every kind of change, segments that roll, truncations
// within and across segments, the same offsets written twice.
func (s *story) steps() []func() error {
	return []func() error{
		func() error { return s.append(2, 1) }, func() error { return s.append(3, 1) },
		s.flush,
		func() error { return s.append(1, 2) }, func() error { return s.append(4, 2) },
		func() error { return s.append(2, 2) }, func() error { return s.append(2, 3) },
		func() error { return s.retain(-1) },
		func() error { return s.append(3, 3) },
		func() error { return s.truncate(11) },
		func() error { return s.append(1, 4) }, func() error { return s.append(5, 4) },
		func() error { return s.truncate(4) },
		func() error { return s.append(3, 5) }, func() error { return s.append(3, 5) },
		s.flush, s.reopen,
		func() error { return s.append(3, 5) }, func() error { return s.append(3, 6) },
		func() error { return s.moveStart(3) },
		func() error { return s.append(2, 6) }, func() error { return s.append(3, 6) },
		func() error { return s.retain(300) },
		func() error { return s.append(3, 6) },
		s.reopen, s.reopen,
		func() error { return s.startOver(100) },
		func() error { return s.append(3, 7) }, func() error { return s.append(3, 7) }, func() error { return s.append(3, 7) },
		s.flush,
		func() error { return s.truncate(100) },
		func() error { return s.append(3, 8) },
		s.reopen,
	}
}

// tell runs the story on fsys until it ends or the power does.
func tell(t testing.TB, fsys *partlogtest.CrashFS, flush partlog.FlushPolicy) (*story, error) {
	opts := options(fsys)
	opts.SegmentBytes, opts.IndexIntervalBytes, opts.Flush = 500, 100, flush
	s := &story{t: t, opts: opts}
	l, err := partlog.Open(dir, opts)
	if err != nil {
		return s, err
	}
	s.l = l
	for i, step := range s.steps() {
		if err := step(); err != nil {
			return s, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return s, nil
}

// check opens the log on a disk after the crash and compares it with the
// history; then goes on with it.
func (h history) check(t testing.TB, fsys *partlogtest.CrashFS, opts partlog.Options, power bool) {
	opts.FS, opts.Files = fsys, partlog.NewFileBudget(8)
	l, err := partlog.Open(dir, opts)
	if err != nil {
		t.Fatalf("open after the crash: %v", err)
	}
	got := readAll(t, l)
	floor := h.flushed
	if !power && len(h.before) > 0 && len(h.after) >= len(h.before) {
		// A killed process loses nothing that was written.
		floor = lastOf(h.before[len(h.before)-1]) + 1
	}
	if !h.allows(got, l, h.before, floor) && !h.allows(got, l, h.after, floor) {
		t.Fatalf("after %d steps, %s: holds %d-%d %s, before the step %d %s, after it %d %s, flushed up to %d",
			h.done, l.Recovered(), l.StartOffset(), l.EndOffset(), describe(got), h.start, describe(h.before), h.nextStart, describe(h.after), floor)
	}
	checkProducer(t, l, got)
	if power {
		l = secondPowerCut(t, l, &opts, got)
		got = readAll(t, l)
	}
	goOn(t, l, opts, got)
}

// checkProducer sends the last batch again: the log knows it, and no other
// history of its producer.
func checkProducer(t testing.TB, l *partlog.Log, batches [][]byte) {
	if len(batches) == 0 {
		return
	}
	last := batches[len(batches)-1]
	epoch := int32(binary.BigEndian.Uint32(last[12:]))
	if info := mustAppend(t, l, bytes.Clone(last), epoch); !info.Duplicate || info.BaseOffset != firstOf(last) {
		t.Fatalf("%s: the last batch, sent again, answers %+v", l.Recovered(), info)
	}
	next := int32(binary.BigEndian.Uint32(last[53:])) + int32(binary.BigEndian.Uint32(last[57:]))
	batch := batchOf(t, 1, 1, 0, &recordbatch.Producer{ID: 5, BaseSequence: next + 1})
	if _, err := l.Append(batch, epoch, partlog.AppendOptions{}); !errors.Is(err, partlog.ErrOutOfOrderSequence) {
		t.Fatalf("%s: a gap in the sequence answers %v", l.Recovered(), err)
	}
}

// secondPowerCut appends to a recovered log and cuts the power again: what was
// flushed is there, behind exactly what was recovered.
func secondPowerCut(t testing.TB, l *partlog.Log, opts *partlog.Options, got [][]byte) *partlog.Log {
	end := l.EndOffset()
	batch := batchOf(t, 1, 20, clock.UnixMilli(), nil)
	mustAppend(t, l, batch, 98)
	if err := l.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	opts.FS, opts.Files = opts.FS.(*partlogtest.CrashFS).PowerCut(), partlog.NewFileBudget(8)
	l = mustOpen(t, *opts)
	if again := readAll(t, l); !equalBatches(again, append(got[:len(got):len(got)], stamped(batch, end, 98))) {
		t.Fatalf("%s: after a second power cut holds %s, had %s", l.Recovered(), describe(again), describe(got))
	}
	return l
}

// allows says whether got is what the moment's batches may have become.
func (h history) allows(got [][]byte, l *partlog.Log, moment [][]byte, floor int64) bool {
	start := l.StartOffset()
	if start < h.start && start != h.nextStart || start > max(h.start, h.nextStart) || l.EndOffset() < floor && l.EndOffset() < h.nextStart {
		return false
	}
	var want [][]byte
	for _, b := range moment {
		if lastOf(b) >= start && firstOf(b) < l.EndOffset() {
			want = append(want, b)
		}
	}
	return equalBatches(got, want)
}

// goOn appends to a recovered log, closes and opens it again.
func goOn(t testing.TB, l *partlog.Log, opts partlog.Options, before [][]byte) {
	end := l.EndOffset()
	batch := batchOf(t, 2, 40, clock.UnixMilli(), nil)
	mustAppend(t, l, batch, 99)
	want := append(before[:len(before):len(before)], stamped(batch, end, 99))
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	l = mustOpen(t, opts)
	if got := readAll(t, l); !equalBatches(got, want) || l.Recovered().Unclean {
		t.Fatalf("%s: holds %s, want %s", l.Recovered(), describe(got), describe(want))
	}
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// TestCrashAtEveryWrite cuts the power (I17) before each change of the disk
// that the story makes, and looks at four disks that may be found then.
func TestCrashAtEveryWrite(t *testing.T) {
	for name, flush := range map[string]partlog.FlushPolicy{"flush none": partlog.FlushNone, "flush batch": partlog.FlushBatch} {
		t.Run(name, func(t *testing.T) {
			whole := partlogtest.New()
			s, err := tell(t, whole, flush)
			if err != nil {
				t.Fatal(err)
			}
			total := whole.Ops()
			t.Logf("%d changes in %d steps", total, s.h.done)
			for cut := range total {
				crashAt(t, cut, flush)
			}
		})
	}
}

func crashAt(t *testing.T, cut int, flush partlog.FlushPolicy) {
	fsys := partlogtest.New()
	fsys.CutAfter(cut)
	s, err := tell(t, fsys, flush)
	wantError(t, err, partlogtest.ErrPowerCut)
	outcomes := map[string]func() *partlogtest.CrashFS{"all unsynced lost": fsys.PowerCut}
	for seed := range uint64(6) {
		outcomes[fmt.Sprintf("torn, seed %d", seed)] = func() *partlogtest.CrashFS {
			return fsys.TornPowerCut(rand.New(rand.NewPCG(seed, uint64(cut))))
		}
	}
	for name, disk := range outcomes {
		t.Run(fmt.Sprintf("before change %d, %s", cut, name), func(t *testing.T) { s.h.check(t, disk(), s.opts, true) })
	}
	t.Run(fmt.Sprintf("before change %d, killed", cut), func(t *testing.T) { s.h.check(t, fsys.Kill(), s.opts, false) })
}
