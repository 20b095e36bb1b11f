package partlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
)

func small(fsys partlog.FS) partlog.Options {
	opts := options(fsys)
	opts.SegmentBytes, opts.IndexIntervalBytes = 600, 150
	return opts
}

func newLog(t testing.TB) *partlog.Log { return mustOpen(t, small(newDisk())) }

// fill appends n batches of two records each in the given leader epoch.
func fill(t fatalf, l *partlog.Log, n int, leaderEpoch int32) {
	t.Helper()
	for range n {
		mustAppend(t, l, batchOf(t, 2, 40, clock.UnixMilli(), nil), leaderEpoch)
	}
}

func TestAppendStampsWithoutTouchingTheChecksum(t *testing.T) {
	l := newLog(t)
	fill(t, l, 1, 3)
	batch := batchOf(t, 3, 10, clock.UnixMilli(), nil)
	want := stamped(batch, 2, 4)
	info := mustAppend(t, l, batch, 4)
	if info.BaseOffset != 2 || info.LastOffset != 4 || info.MaxTimestamp != clock.UnixMilli()+2 || info.LogStartOffset != 0 || info.Duplicate {
		t.Fatalf("%+v", info)
	}
	if got := readAll(t, l)[1]; !bytes.Equal(got, want) || !bytes.Equal(batch, want) {
		t.Fatal("the stored batch is not the sent one with offset and epoch stamped")
	}
}

func TestAppendTimeIsStampedAndSealed(t *testing.T) {
	l := newLog(t)
	at := clock.UnixMilli() + 99
	info, err := l.Append(batchOf(t, 2, 10, 5, nil), 0, partlog.AppendOptions{LogAppendTimeMs: at})
	if err != nil || info.MaxTimestamp != at {
		t.Fatalf("%+v %v", info, err)
	}
	batch := readAll(t, l)[0]
	err = recordbatch.Iterate(batch, 1000, func(r recordbatch.Record) bool {
		if r.TimestampMs != at {
			t.Fatalf("record of %d at %d", at, r.TimestampMs)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if offset, ts, _, ok, err := l.OffsetForTimestamp(at); offset != 0 || ts != at || !ok || err != nil {
		t.Fatal(offset, ts, ok, err)
	}
}

func TestAppendRefuses(t *testing.T) {
	be := binary.BigEndian
	for _, test := range []struct {
		name  string
		spoil func(b []byte) []byte
		want  error
	}{
		{"nothing", func(b []byte) []byte { return nil }, partlog.ErrCorruptBatch},
		{"half a batch", func(b []byte) []byte { return b[:len(b)/2] }, partlog.ErrCorruptBatch},
		{"two batches", func(b []byte) []byte { return append(b, b...) }, partlog.ErrCorruptBatch},
		{"a flipped bit", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, partlog.ErrCorruptBatch},
		{"magic 1", func(b []byte) []byte { b[16] = 1; return b }, partlog.ErrCorruptBatch},
		{"no records", func(b []byte) []byte { be.PutUint32(b[57:], 0); recordbatch.Seal(b); return b }, partlog.ErrCorruptBatch},
		{"a control batch", func(b []byte) []byte { b[22] |= 1 << 5; recordbatch.Seal(b); return b }, partlog.ErrCorruptBatch},
		{"more than MaxBatchBytes", func(b []byte) []byte { return batchOf(t, 1, 2000, 0, nil) }, partlog.ErrBatchTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := options(newDisk())
			opts.MaxBatchBytes = 1000
			l := mustOpen(t, opts)
			_, err := l.Append(test.spoil(batchOf(t, 2, 10, 0, nil)), 0, partlog.AppendOptions{})
			wantError(t, err, test.want)
			if l.EndOffset() != 0 {
				t.Fatal("something was appended")
			}
		})
	}
}

// TestOnlyTheNewestLeaderEpochAppends: I14, as far as the log can tell.
func TestOnlyTheNewestLeaderEpochAppends(t *testing.T) {
	l := newLog(t)
	fill(t, l, 1, 5)
	_, err := l.Append(batchOf(t, 1, 1, 0, nil), 4, partlog.AppendOptions{})
	wantError(t, err, partlog.ErrLeaderEpoch)
	if err := l.AssignEpoch(7, l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	_, err = l.Append(batchOf(t, 1, 1, 0, nil), 6, partlog.AppendOptions{})
	wantError(t, err, partlog.ErrLeaderEpoch)
	_, err = l.Append(batchOf(t, 1, 1, 0, nil), -1, partlog.AppendOptions{})
	wantError(t, err, partlog.ErrLeaderEpoch)
	wantError(t, l.AssignEpoch(-1, 0), partlog.ErrLeaderEpoch)
}

// TestALeaderDeposedBeforeItAppendedFollowsAgain: its own epoch has no record, and the next leader may have records of
// the epoch before at the same offsets.
func TestALeaderDeposedBeforeItAppendedFollowsAgain(t *testing.T) {
	l := newLog(t)
	mustAppend(t, l, batchOf(t, 2, 10, 0, nil), 6)
	if err := l.AssignEpoch(7, l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.AppendAsFollower(stamped(batchOf(t, 2, 10, 0, nil), 2, 6), 8); err != nil {
		t.Fatal(err)
	}
	if latest, _ := l.LatestEpoch(); latest != 6 || l.EndOffset() != 4 {
		t.Fatalf("latest epoch %d, end %d", latest, l.EndOffset())
	}
	if epoch, start := l.EndOffsetForEpoch(5); epoch != 5 || start != 0 {
		t.Fatalf("epoch 6 begins at %d (epoch %d), want 0", start, epoch)
	}
}

func TestFollowerTakesWhatContinuesItsLog(t *testing.T) {
	batch := func(offset int64, epoch int32) []byte { return stamped(batchOf(t, 2, 10, 0, nil), offset, epoch) }
	join := func(batches ...[]byte) []byte { return bytes.Join(batches, nil) }
	broken := batch(4, 5)
	broken[len(broken)-1] ^= 1
	for _, test := range []struct {
		name    string
		batches []byte
		epoch   int32
		end     int64
		want    error
	}{
		{"nothing", nil, 5, 2, nil},
		{"two batches", join(batch(2, 5), batch(4, 6)), 6, 6, nil},
		{"a gap", batch(3, 5), 5, 2, partlog.ErrNonContiguous},
		{"offsets it has", batch(0, 5), 5, 2, partlog.ErrNonContiguous},
		{"an epoch older than its own", batch(2, 4), 5, 2, partlog.ErrLeaderEpoch},
		{"an epoch newer than the fetch's (KAFKA-18723)", join(batch(2, 5), batch(4, 6)), 5, 4, partlog.ErrLeaderEpoch},
		{"epochs that fall", join(batch(2, 6), batch(4, 5)), 6, 4, partlog.ErrLeaderEpoch},
		{"a broken second batch", join(batch(2, 5), broken), 5, 4, partlog.ErrCorruptBatch},
		{"a second batch cut off in its header", join(batch(2, 5), batch(4, 5)[:20]), 5, 4, nil},
		{"a second batch cut off in its body", join(batch(2, 5), batch(4, 5)[:70]), 5, 4, nil},
		{"a first batch cut off", batch(2, 5)[:70], 5, 2, partlog.ErrCorruptBatch},
		{"noise", []byte("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: b\r\nAccept: everything there is"), 5, 2, partlog.ErrCorruptBatch},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLog(t)
			fill(t, l, 1, 5)
			info, err := l.AppendAsFollower(test.batches, test.epoch)
			if test.want != nil {
				wantError(t, err, test.want)
			} else if err != nil {
				t.Fatal(err)
			}
			if l.EndOffset() != test.end || info.LastOffset != test.end-1 || info.BaseOffset != 2 {
				t.Fatalf("ends at %d, want %d; %+v", l.EndOffset(), test.end, info)
			}
		})
	}
}

func TestFollowerBatchesRollLikeTheLeaders(t *testing.T) {
	leader, follower := newLog(t), newLog(t)
	fill(t, leader, 30, 1)
	all := bytes.Join(readAll(t, leader), nil)
	if _, err := follower.AppendAsFollower(all, 1); err != nil {
		t.Fatal(err)
	}
	if leader.Segments() != follower.Segments() || leader.Segments() < 5 {
		t.Fatalf("leader has %d segments, follower %d", leader.Segments(), follower.Segments())
	}
	if !equalBatches(readAll(t, leader), readAll(t, follower)) {
		t.Fatal("they differ")
	}
}

func TestReadLimits(t *testing.T) {
	l := mustOpen(t, options(newDisk()))
	fill(t, l, 4, 0)
	size := len(readAll(t, l)[0])
	for _, test := range []struct {
		name              string
		offset            int64
		maxBytes          int
		upTo              int64
		minOne            bool
		batches           int
		first, next       int64
		wantOutOfRangeErr bool
	}{
		{"all", 0, math.MaxInt, math.MaxInt64, false, 4, 0, 8, false},
		{"from the middle of a batch", 3, math.MaxInt, math.MaxInt64, false, 3, 2, 8, false},
		{"exactly two", 0, 2 * size, math.MaxInt64, false, 2, 0, 4, false},
		{"a byte short of two", 0, 2*size - 1, math.MaxInt64, false, 1, 0, 2, false},
		{"less than one", 0, size - 1, math.MaxInt64, false, 0, 0, 0, false},
		{"less than one, but one at least", 0, size - 1, math.MaxInt64, true, 1, 0, 2, false},
		{"no bytes, but one at least", 2, 0, math.MaxInt64, true, 1, 2, 4, false},
		{"negative bytes", 2, -1, math.MaxInt64, false, 0, 2, 2, false},
		{"up to a batch's end", 0, math.MaxInt, 4, true, 2, 0, 4, false},
		{"up to a batch's middle", 0, math.MaxInt, 3, true, 1, 0, 2, false},
		{"up to below the offset", 4, math.MaxInt, 2, true, 0, 4, 4, false},
		{"at the end", 8, math.MaxInt, math.MaxInt64, true, 0, 8, 8, false},
		{"behind the end", 9, math.MaxInt, math.MaxInt64, true, 0, 0, 0, true},
		{"below the start", -1, math.MaxInt, math.MaxInt64, true, 0, 0, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			info, err := l.Read(test.offset, test.maxBytes, test.upTo, test.minOne)
			if test.wantOutOfRangeErr {
				wantError(t, err, partlog.ErrOffsetOutOfRange)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(info.Records) != test.batches*size || info.FirstOffset != test.first || info.NextOffset != test.next {
				t.Fatalf("%d bytes from %d to %d", len(info.Records), info.FirstOffset, info.NextOffset)
			}
		})
	}
}

func TestDuplicateIsAnsweredWithItsFirstOffsets(t *testing.T) {
	l := newLog(t)
	send := func(sequence int32, n int, epoch int16) (partlog.AppendInfo, error) {
		batch := batchOf(t, n, 5, 77, &recordbatch.Producer{ID: 9, Epoch: epoch, BaseSequence: sequence})
		return l.Append(batch, 1, partlog.AppendOptions{LogAppendTimeMs: -1})
	}
	for i := range int32(7) {
		if info, err := send(2*i, 2, 0); err != nil || info.Duplicate || info.BaseOffset != int64(2*i) {
			t.Fatalf("%+v %v", info, err)
		}
	}
	for i := int32(2); i < 7; i++ {
		info, err := send(2*i, 2, 0)
		if err != nil || !info.Duplicate || info.BaseOffset != int64(2*i) || info.LastOffset != int64(2*i+1) || info.MaxTimestamp != 78 {
			t.Fatalf("batch %d: %+v %v", i, info, err)
		}
	}
	if l.EndOffset() != 14 {
		t.Fatalf("ends at %d", l.EndOffset())
	}
	for name, try := range map[string]struct {
		sequence int32
		n        int
		epoch    int16
		want     error
	}{
		"older than the last five": {2, 2, 0, partlog.ErrOutOfOrderSequence},
		"a gap":                    {16, 2, 0, partlog.ErrOutOfOrderSequence},
		"a part of a batch":        {12, 1, 0, partlog.ErrOutOfOrderSequence},
		"a new epoch, not from 0":  {14, 2, 1, partlog.ErrOutOfOrderSequence},
	} {
		if _, err := send(try.sequence, try.n, try.epoch); !errors.Is(err, try.want) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if _, err := send(0, 2, 3); err != nil {
		t.Fatal(err)
	}
	_, err := send(2, 2, 2)
	wantError(t, err, partlog.ErrInvalidProducerEpoch)
}

func TestIdentityIsCompared(t *testing.T) {
	disk := newDisk()
	l := mustOpen(t, options(disk))
	fill(t, l, 1, 0)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*partlog.Options){
		"another topic":     func(o *partlog.Options) { o.TopicID[0]++ },
		"another partition": func(o *partlog.Options) { o.Partition++ },
	} {
		opts := options(disk)
		change(&opts)
		_, err := partlog.Open(dir, opts)
		if wantError(t, err, partlog.ErrIdentity); !strings.Contains(err.Error(), dir) {
			t.Fatalf("%s: %v does not name %s", name, err, dir)
		}
	}
	opts := options(disk)
	opts.TopicID, opts.Partition = [16]byte{}, 0
	if got := readAll(t, mustOpen(t, opts)); len(got) != 1 {
		t.Fatal("without an identity to compare it should open")
	}
}

func TestClosedLogSaysSo(t *testing.T) {
	l := newLog(t)
	fill(t, l, 2, 0)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := l.Append(batchOf(t, 1, 1, 0, nil), 0, partlog.AppendOptions{})
	wantError(t, err, partlog.ErrClosed)
	_, err = l.AppendAsFollower(nil, 0)
	wantError(t, err, partlog.ErrClosed)
	_, err = l.Read(0, 100, 100, true)
	wantError(t, err, partlog.ErrClosed)
	_, err = l.Retain(partlog.RetentionPolicy{}, clock)
	wantError(t, err, partlog.ErrClosed)
	_, _, _, _, err = l.OffsetForTimestamp(0)
	wantError(t, err, partlog.ErrClosed)
	_, _, _, _, err = l.MaxTimestampOffset()
	wantError(t, err, partlog.ErrClosed)
	for name, err := range map[string]error{
		"truncate": l.TruncateTo(0), "start over": l.TruncateFullyAndStartAt(0), "start": l.SetStartOffset(1),
		"flush": l.Flush(), "epoch": l.AssignEpoch(9, 9),
	} {
		if !errors.Is(err, partlog.ErrClosed) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatalf("closing twice: %v", err)
	}
}

func TestDeleteLeavesNothing(t *testing.T) {
	disk := newDisk()
	l := mustOpen(t, small(disk))
	fill(t, l, 10, 0)
	if err := l.Delete(); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.ReadDir(dir); !errors.Is(err, fs.ErrNotExist) || disk.OpenFiles() != 0 {
		t.Fatalf("%v, %d files open", err, disk.OpenFiles())
	}
	_, err := l.Append(batchOf(t, 1, 1, 0, nil), 0, partlog.AppendOptions{})
	wantError(t, err, partlog.ErrClosed)
}

func TestSegmentsRollByAge(t *testing.T) {
	opts := small(newDisk())
	now := clock
	opts.Now, opts.SegmentAge = func() time.Time { return now }, time.Hour
	l := mustOpen(t, opts)
	fill(t, l, 1, 0)
	now = now.Add(time.Hour - time.Millisecond)
	fill(t, l, 1, 0)
	if l.Segments() != 1 {
		t.Fatal("rolled too early")
	}
	now = now.Add(time.Millisecond)
	fill(t, l, 1, 0)
	if l.Segments() != 2 {
		t.Fatal("did not roll")
	}
	l.SetSegmentBytes(1)
	fill(t, l, 2, 0)
	if l.Segments() != 4 {
		t.Fatalf("%d segments with a segment size of one byte", l.Segments())
	}
}

// TestSegmentsRollBeforeOffsetsOverflow gives a segment more than 2^31
// offsets, which its index could not tell apart.
func TestSegmentsRollBeforeOffsetsOverflow(t *testing.T) {
	l := mustOpen(t, options(newDisk()))
	for range 3 {
		batch := batchOf(t, 1, 5, 0, nil)
		binary.BigEndian.PutUint32(batch[23:], math.MaxInt32-5)
		recordbatch.Seal(batch)
		if _, err := l.AppendAsFollower(stamped(batch, l.EndOffset(), 0), 0); err != nil {
			t.Fatal(err)
		}
	}
	if l.Segments() != 3 {
		t.Fatalf("%d segments", l.Segments())
	}
	if got := readAll(t, l); len(got) != 3 {
		t.Fatal(describe(got))
	}
}

func TestRetainByAge(t *testing.T) {
	l := newLog(t)
	for i := range 12 {
		mustAppend(t, l, batchOf(t, 2, 40, clock.Add(time.Duration(i)*time.Hour).UnixMilli(), nil), 0)
	}
	end := l.EndOffset()
	retain := func(policy partlog.RetentionPolicy, at time.Duration, wantStart int64) {
		t.Helper()
		if _, err := l.Retain(policy, clock.Add(at)); err != nil {
			t.Fatal(err)
		}
		if l.StartOffset() != wantStart {
			t.Fatalf("starts at %d, want %d", l.StartOffset(), wantStart)
		}
	}
	retain(partlog.RetentionPolicy{Bytes: -1, UpTo: end}, 1000*time.Hour, 0)
	retain(partlog.RetentionPolicy{Bytes: -1, Age: 24 * time.Hour, UpTo: end}, 24*time.Hour, 0)
	retain(partlog.RetentionPolicy{Bytes: -1, Age: 24 * time.Hour, UpTo: end}, 26*time.Hour, 0)
	retain(partlog.RetentionPolicy{Bytes: -1, Age: 24 * time.Hour, UpTo: end}, 27*time.Hour, 6)
	retain(partlog.RetentionPolicy{Bytes: -1, Age: 24 * time.Hour, UpTo: 11}, 1000*time.Hour, 6)
	retain(partlog.RetentionPolicy{Bytes: -1, Age: 24 * time.Hour, UpTo: end}, 1000*time.Hour, end)
	if l.SizeBytes() != 0 || l.Segments() != 1 {
		t.Fatalf("%d bytes in %d segments are left", l.SizeBytes(), l.Segments())
	}
	fill(t, l, 1, 0)
	if got := readAll(t, l); len(got) != 1 || firstOf(got[0]) != end {
		t.Fatal(describe(got))
	}
}

func TestRetainBySizeKeepsAtLeastThatMuch(t *testing.T) {
	l := newLog(t)
	fill(t, l, 20, 0)
	size := l.SizeBytes()
	deleted, err := l.Retain(partlog.RetentionPolicy{Bytes: size / 2, UpTo: l.EndOffset()}, clock)
	if err != nil || deleted == 0 {
		t.Fatal(deleted, err)
	}
	if left := l.SizeBytes(); left < size/2 || left >= size/2+600 {
		t.Fatalf("%d bytes of %d are left", left, size)
	}
	if _, err := l.Retain(partlog.RetentionPolicy{Bytes: 0, UpTo: l.EndOffset()}, clock); err != nil {
		t.Fatal(err)
	}
	if l.Segments() != 1 {
		t.Fatalf("%d segments", l.Segments())
	}
	_, err = l.Read(0, 1, 1, true)
	wantError(t, err, partlog.ErrOffsetOutOfRange)
}

func TestStartOffsetMovesUpOnly(t *testing.T) {
	disk := newDisk()
	l := mustOpen(t, small(disk))
	fill(t, l, 5, 2)
	wantError(t, l.SetStartOffset(11), partlog.ErrOffsetOutOfRange)
	for _, offset := range []int64{7, 3} {
		if err := l.SetStartOffset(offset); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, small(disk.PowerCut()))
	if l.StartOffset() != 7 {
		t.Fatalf("starts at %d", l.StartOffset())
	}
	if epoch, end := l.EndOffsetForEpoch(1); epoch != 1 || end != 7 {
		t.Fatalf("epoch history begins with (%d, %d)", epoch, end)
	}
}

// TestStoppedProducersAreForgotten bounds the state of producers (I20).
func TestStoppedProducersAreForgotten(t *testing.T) {
	now := clock
	opts := options(newDisk())
	opts.Now, opts.ProducerExpiration, opts.MaxProducers = func() time.Time { return now }, time.Hour, 10
	l := mustOpen(t, opts)
	send := func(id int64, sequence int32) error {
		batch := batchOf(t, 1, 1, clock.UnixMilli(), &recordbatch.Producer{ID: id, BaseSequence: sequence})
		_, err := l.Append(batch, 0, partlog.AppendOptions{})
		return err
	}
	for id := range int64(100) {
		now = now.Add(time.Millisecond)
		if err := send(id, 0); err != nil {
			t.Fatal(err)
		}
	}
	// Of the last ten at most two were forgotten to make room for others.
	wantError(t, send(99, 7), partlog.ErrOutOfOrderSequence)
	if err := send(1, 7); err != nil {
		t.Fatalf("a forgotten producer starts where it likes: %v", err)
	}
	now = now.Add(2 * time.Hour)
	if _, err := l.Retain(partlog.RetentionPolicy{Bytes: -1}, now); err != nil {
		t.Fatal(err)
	}
	if err := send(99, 7); err != nil {
		t.Fatalf("an expired producer starts where it likes: %v", err)
	}
}

// TestProducersOutliveTheirBatches: a producer whose batches were deleted is
// known after a kill, and after one before that.
func TestProducersOutliveTheirBatches(t *testing.T) {
	disk := newDisk()
	l := mustOpen(t, small(disk))
	send := func(sequence int32) error {
		batch := batchOf(t, 1, 10, clock.UnixMilli(), &recordbatch.Producer{ID: 3, BaseSequence: sequence})
		_, err := l.Append(batch, 0, partlog.AppendOptions{})
		return err
	}
	if err := send(0); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 10, 0)
	disk = disk.Kill()
	l = mustOpen(t, small(disk))
	if _, err := l.Retain(partlog.RetentionPolicy{Bytes: 0, UpTo: l.EndOffset()}, clock); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, small(disk.Kill()))
	wantError(t, send(5), partlog.ErrOutOfOrderSequence)
	if err := send(1); err != nil {
		t.Fatal(err)
	}
}

func TestScanChangesNothing(t *testing.T) {
	disk := newDisk()
	l := mustOpen(t, small(disk))
	fill(t, l, 12, 0)
	before := disk.Ops()
	var batches [][]byte
	err := partlog.Scan(disk, dir, func(s partlog.Scanned) bool {
		if s.Err != nil {
			t.Fatal(s.Err)
		}
		batches = append(batches, s.Batch)
		return true
	})
	if err != nil || !equalBatches(batches, readAll(t, l)) || disk.Ops() != before {
		t.Fatalf("%v: %s", err, describe(batches))
	}
	put(t, disk, firstSegment, []byte("no batch"))
	faults := 0
	err = partlog.Scan(disk, dir, func(s partlog.Scanned) bool {
		if s.Err != nil {
			faults++
		}
		return true
	})
	if err != nil || faults != 1 {
		t.Fatal(faults, err)
	}
	if err := partlog.Scan(disk, "/nowhere", func(partlog.Scanned) bool { return true }); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

func TestRealDisk(t *testing.T) {
	path := t.TempDir() + "/topic/0"
	opts := small(nil)
	opts.FS = nil
	for round := range 3 {
		l, err := partlog.Open(path, opts)
		if err != nil {
			t.Fatal(err)
		}
		if l.Recovered().Unclean || l.Dir() != path {
			t.Fatal(l.Recovered())
		}
		fill(t, l, 10, int32(round))
		if _, err := l.Retain(partlog.RetentionPolicy{Bytes: 1500, UpTo: l.EndOffset()}, clock); err != nil {
			t.Fatal(err)
		}
		if err := l.TruncateTo(l.EndOffset() - 3); err != nil {
			t.Fatal(err)
		}
		readAll(t, l)
		if l.FlushedOffset() > l.EndOffset() {
			t.Fatal("flushed more than there is")
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l, err := partlog.Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Delete(); err != nil {
		t.Fatal(err)
	}
}
