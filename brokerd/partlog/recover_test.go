package partlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/partlog/partlogtest"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
)

// written returns a disk with a log of n batches of two records, in segments
// of three, that was killed; and the batches.
func written(t testing.TB, n int) (*partlogtest.CrashFS, [][]byte) {
	disk := newDisk()
	l := mustOpen(t, small(disk))
	for i := range n {
		producer := &recordbatch.Producer{ID: 4, BaseSequence: int32(2 * i)}
		mustAppend(t, l, batchOf(t, 2, 40, clock.UnixMilli()+int64(i), producer), int32(i/4))
	}
	batches := readAll(t, l)
	return disk.Kill(), batches
}

const (
	secondSegment = "00000000000000000006.log"
	thirdSegment  = "00000000000000000012.log"
)

// edit changes a file of the log.
func edit(t testing.TB, disk *partlogtest.CrashFS, name string, change func(raw []byte) []byte) {
	put(t, disk, name, change(get(t, disk, name)))
}

func TestRecoveryCutsWhatIsNotAsWritten(t *testing.T) {
	be := binary.BigEndian
	batch := 155 // bytes of each batch here
	for _, test := range []struct {
		name   string
		file   string
		change func(raw []byte) []byte
		// cutAt and lostTo as in Recovered; keep is how many batches stay.
		cutAt, lostTo int64
		keep          int
		segments      int
	}{
		{"zeroes behind the end", thirdSegment, func(b []byte) []byte { return append(b, make([]byte, 5000)...) }, 18, -1, 9, 0},
		{"a torn header", thirdSegment, func(b []byte) []byte { return b[:2*batch+30] }, 16, -1, 8, 0},
		{"a torn body", thirdSegment, func(b []byte) []byte { return b[:3*batch-1] }, 16, -1, 8, 0},
		{"a zeroed tail", thirdSegment, func(b []byte) []byte { clear(b[2*batch+60:]); return b }, 16, -1, 8, 0},
		{"an empty last segment", thirdSegment, func(b []byte) []byte { return nil }, -1, -1, 6, 0},
		{"a flipped bit below good data", secondSegment, func(b []byte) []byte { b[batch+100] ^= 4; return b }, 8, 17, 4, 1},
		{"a length of 2 GiB", secondSegment, func(b []byte) []byte { be.PutUint32(b[batch+8:], 1<<31-1); return b }, 8, 17, 4, 1},
		{"a negative length", secondSegment, func(b []byte) []byte { be.PutUint32(b[batch+8:], 1<<31); return b }, 8, 17, 4, 1},
		{"a wrong base offset", secondSegment, func(b []byte) []byte { be.PutUint64(b[batch:], 9); return b }, 8, 17, 4, 1},
		{"a leader epoch that falls", secondSegment, func(b []byte) []byte { be.PutUint32(b[2*batch+12:], 0); return b }, 10, 17, 5, 1},
		{"magic 1", secondSegment, func(b []byte) []byte { b[batch+16] = 1; return b }, 8, 17, 4, 1},
		{"a hole of zeroes", secondSegment, func(b []byte) []byte { clear(b[batch : 2*batch]); return b }, 8, 17, 4, 1},
		{"an emptied segment in the middle", secondSegment, func(b []byte) []byte { return nil }, 6, 17, 3, 1},
		{"noise from the first byte", firstSegment, func(b []byte) []byte { return bytes.Repeat([]byte("noise"), 20) }, 0, 17, 0, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			disk, batches := written(t, 9)
			edit(t, disk, test.file, test.change)
			l := mustOpen(t, small(disk))
			r := l.Recovered()
			if r.CutAt != test.cutAt || r.LostTo != test.lostTo || r.CutSegments != test.segments || !r.Unclean {
				t.Fatalf("%+v", r)
			}
			if r.CutAt >= 0 && (r.Reason == "" || !strings.Contains(r.String(), "cut at offset")) {
				t.Fatalf("says %q", r)
			}
			if got := readAll(t, l); !equalBatches(got, batches[:test.keep]) {
				t.Fatalf("%s: holds %s", r, describe(got))
			}
			goOn(t, l, small(disk), batches[:test.keep:test.keep])
		})
	}
}

// TestRecoveryBeginsAtTheRecoveryPoint: what was flushed and vouched for is
// not read again, which a flipped bit in it proves.
func TestRecoveryBeginsAtTheRecoveryPoint(t *testing.T) {
	disk := newDisk()
	l := mustOpen(t, small(disk))
	fill(t, l, 7, 0)
	if _, err := l.Retain(partlog.RetentionPolicy{Bytes: -1}, clock); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 3, 0)
	disk = disk.Kill()
	edit(t, disk, firstSegment, func(b []byte) []byte { b[100] ^= 1; return b })
	l = mustOpen(t, small(disk))
	if r := l.Recovered(); r.CutAt != partlog.NoOffset || r.CheckedFrom != 14 || l.EndOffset() != 20 {
		t.Fatalf("ends at %d: %+v", l.EndOffset(), r)
	}
}

func TestSmallFilesAreMadeAgain(t *testing.T) {
	damage := map[string]func(raw []byte) []byte{
		"empty":   func([]byte) []byte { return nil },
		"torn":    func(b []byte) []byte { return b[:len(b)/2] },
		"flipped": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"zeroes":  func(b []byte) []byte { return make([]byte, len(b)) },
		"foreign": func(b []byte) []byte { return append([]byte("JUNK"), b[4:]...) },
	}
	files := []string{
		"partition.meta", "leader-epochs", "00000000000000000018.snapshot", "00000000000000000012.index",
		"00000000000000000000.index", "00000000000000000000.timeindex", "00000000000000000006.timeindex",
	}
	for _, file := range files {
		for name, change := range damage {
			t.Run(name+" "+file, func(t *testing.T) { checkMadeAgain(t, file, change) })
		}
		t.Run("missing "+file, func(t *testing.T) { checkMadeAgain(t, file, nil) })
	}
}

func checkMadeAgain(t *testing.T, file string, change func([]byte) []byte) {
	disk, batches := written(t, 9)
	l := mustOpen(t, small(disk))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		edit(t, disk, file, change)
	} else if err := disk.Remove(dir + "/" + file); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, small(disk))
	if got := readAll(t, l); !equalBatches(got, batches) {
		t.Fatalf("%s: holds %s", l.Recovered(), describe(got))
	}
	if epoch, end := l.EndOffsetForEpoch(1); epoch != 1 || end != 16 {
		t.Fatalf("epoch 1 ends at (%d, %d)", epoch, end)
	}
	if offset, _, _, ok, err := l.OffsetForTimestamp(clock.UnixMilli() + 5); err != nil || !ok || offset != 9 {
		t.Fatal(offset, ok, err)
	}
	repeat := batchOf(t, 2, 40, clock.UnixMilli()+8, &recordbatch.Producer{ID: 4, BaseSequence: 16})
	if info := mustAppend(t, l, repeat, 2); !info.Duplicate || info.BaseOffset != 16 {
		t.Fatalf("the producer is forgotten: %+v", info)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l = mustOpen(t, small(disk)); l.Recovered().Unclean {
		t.Fatal(l.Recovered())
	}
}

func TestMissingSegmentsAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		remove        []string
		cutAt, lostTo int64
		start, end    int64
	}{
		"the first":  {[]string{firstSegment}, 0, 5, 6, 18},
		"the middle": {[]string{secondSegment}, 6, 17, 0, 6},
		"all":        {[]string{firstSegment, secondSegment, thirdSegment}, 0, 17, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			disk, _ := written(t, 9)
			l := mustOpen(t, small(disk))
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			for _, file := range test.remove {
				if err := disk.Remove(dir + "/" + file); err != nil {
					t.Fatal(err)
				}
			}
			if name == "the middle" {
				// Only a log that is walked notices.
				if err := disk.Remove(dir + "/partition.meta"); err != nil {
					t.Fatal(err)
				}
			}
			l = mustOpen(t, small(disk))
			r := l.Recovered()
			if r.CutAt != test.cutAt || r.LostTo != test.lostTo || l.StartOffset() != test.start || l.EndOffset() != test.end {
				t.Fatalf("holds %d to %d: %+v", l.StartOffset(), l.EndOffset(), r)
			}
			fill(t, l, 1, 9)
		})
	}
}

func TestNewerVersionsAreRefused(t *testing.T) {
	disk, _ := written(t, 3)
	edit(t, disk, "partition.meta", func(b []byte) []byte { b[7]++; return sealEnvelope(b) })
	before := disk.Ops()
	_, err := partlog.Open(dir, small(disk))
	wantError(t, err, partlog.ErrUnsupportedVersion)
	if disk.Ops() != before {
		t.Fatal("something was changed")
	}
}

// TestIndexNewerThanTheLogIsNotUsed: a power cut can keep an index and lose
// the end of the segment it was made of.
func TestIndexNewerThanTheLogIsNotUsed(t *testing.T) {
	disk, batches := written(t, 9)
	l := mustOpen(t, small(disk))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, disk, thirdSegment, func(b []byte) []byte { return b[:155] })
	l = mustOpen(t, small(disk))
	if got := readAll(t, l); !equalBatches(got, batches[:7]) {
		t.Fatal(describe(got))
	}
	// It had been flushed, so this is no torn tail.
	if r := l.Recovered(); r.CutAt != 14 || r.LostTo != 17 {
		t.Fatalf("%+v", r)
	}
	goOn(t, l, small(disk), batches[:7:7])
}

// TestDamageBelowTheStartIsNobodysLoss: segments that were given up are not
// checked, and do not keep the log from opening.
func TestDamageBelowTheStartIsNobodysLoss(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"noise":   func(b []byte) []byte { return bytes.Repeat([]byte("noise"), 20) },
		"emptied": func([]byte) []byte { return nil },
		"torn":    func(b []byte) []byte { return b[:len(b)-20] },
	} {
		t.Run(name, func(t *testing.T) {
			disk, batches := written(t, 9)
			l := mustOpen(t, small(disk))
			if err := l.SetStartOffset(13); err != nil {
				t.Fatal(err)
			}
			disk = disk.Kill()
			edit(t, disk, secondSegment, change)
			if err := disk.Remove(dir + "/leader-epochs"); err != nil {
				t.Fatal(err)
			}
			l = mustOpen(t, small(disk))
			if r := l.Recovered(); r.CutAt != partlog.NoOffset || l.StartOffset() != 13 || l.EndOffset() != 18 {
				t.Fatalf("%d to %d: %+v", l.StartOffset(), l.EndOffset(), r)
			}
			if _, err := l.Retain(partlog.RetentionPolicy{Bytes: -1}, clock); err != nil || l.Segments() != 1 {
				t.Fatalf("%d segments are left, %v", l.Segments(), err)
			}
			goOn(t, l, small(disk), batches[6:9:9])
		})
	}
}

// TestStaleCleanMarkIsTakenAway: a log that was cut and grew again to the very
// size it was once closed at is not the one that was closed.
func TestStaleCleanMarkIsTakenAway(t *testing.T) {
	disk, batches := written(t, 9)
	l := mustOpen(t, small(disk))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, disk, thirdSegment, func(b []byte) []byte { return b[:155] })
	l = mustOpen(t, small(disk))
	fill(t, l, 2, 9)
	disk = disk.Kill()
	l = mustOpen(t, small(disk))
	if !l.Recovered().Unclean || l.EndOffset() != 18 {
		t.Fatalf("ends at %d: %s", l.EndOffset(), l.Recovered())
	}
	lost := batchOf(t, 2, 40, clock.UnixMilli()+8, &recordbatch.Producer{ID: 4, BaseSequence: 16})
	_, err := l.Append(lost, 9, partlog.AppendOptions{})
	wantError(t, err, partlog.ErrOutOfOrderSequence)
	goOn(t, l, small(disk), append(batches[:7:7], readAll(t, l)[7:]...))
}

func TestDiskErrorsDoNotCutTheLog(t *testing.T) {
	disk, batches := written(t, 9)
	sick := &sickDisk{CrashFS: disk, readErr: errors.New("input/output error")}
	opts := small(disk)
	opts.FS = sick
	if _, err := partlog.Open(dir, opts); !errors.Is(err, sick.readErr) {
		t.Fatal(err)
	}
	if disk.OpenFiles() != 0 {
		t.Fatalf("%d files are still open", disk.OpenFiles())
	}
	if got := readAll(t, mustOpen(t, small(disk))); !equalBatches(got, batches) {
		t.Fatal(describe(got))
	}
}

// sickDisk cannot read segments.
type sickDisk struct {
	*partlogtest.CrashFS
	readErr error
}

type sickFile struct {
	partlog.File
	err error
}

func (d *sickDisk) Open(name string, create bool) (partlog.File, error) {
	f, err := d.CrashFS.Open(name, create)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return sickFile{f, d.readErr}, nil
}

func (f sickFile) ReadAt([]byte, int64) (int, error) { return 0, f.err }
