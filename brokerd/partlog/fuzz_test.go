package partlog_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/partlog/partlogtest"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
)

// put writes a file into the disk under test.
func put(t fatalf, fsys partlog.FS, name string, raw []byte) {
	t.Helper()
	if err := fsys.MkdirAll(dir); err != nil {
		t.Fatalf("%v", err)
	}
	f, err := fsys.Open(dir+"/"+name, true)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := f.Truncate(0); err != nil {
		t.Fatalf("%v", err)
	}
	if _, err := f.WriteAt(raw, 0); err != nil {
		t.Fatalf("%v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatalf("%v", err)
	}
}

// get reads a file back, nil if it is not there.
func get(t fatalf, fsys partlog.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(dir+"/"+name, false)
	if err != nil {
		return nil
	}
	size, err := f.Size()
	if err != nil {
		t.Fatalf("%v", err)
	}
	raw := make([]byte, size)
	if n, err := f.ReadAt(raw, 0); n < len(raw) {
		t.Fatalf("%v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatalf("%v", err)
	}
	return raw
}

const firstSegment = "00000000000000000000.log"

// FuzzRecover opens a directory whose segment and small files hold arbitrary
// bytes. What the log then holds is a prefix of the segment, each batch of it
// whole and in order; opening it again finds the same, and it can be appended
// to.
func FuzzRecover(f *testing.F) {
	var good []byte
	for i := range 4 {
		good = append(good, stamped(batchOf(f, 2, 30, clock.UnixMilli(), &recordbatch.Producer{ID: 3, BaseSequence: int32(2 * i)}), int64(2*i), 1)...)
	}
	disk := partlogtest.New()
	l := mustOpen(f, options(disk))
	if _, err := l.AppendAsFollower(good, 1); err != nil {
		f.Fatal(err)
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	meta, epochs, snapshot := get(f, disk, "partition.meta"), get(f, disk, "leader-epochs"), get(f, disk, "00000000000000000008.snapshot")
	f.Add(true, good, meta, epochs, snapshot)
	f.Add(true, good[:len(good)-10], meta, epochs, snapshot)
	f.Add(false, append(bytes.Clone(good), make([]byte, 4096)...), []byte{}, []byte{}, []byte{})
	f.Add(false, []byte{}, []byte{1}, []byte{2}, []byte{3})
	flipped := bytes.Clone(good)
	flipped[100] ^= 1
	f.Add(false, flipped, []byte{}, epochs, []byte{})

	f.Fuzz(func(t *testing.T, sealAll bool, segment, meta, epochs, snapshot []byte) {
		disk := partlogtest.New()
		if sealAll {
			segment = sealBatches(segment)
			meta, epochs, snapshot = sealEnvelope(meta), sealEnvelope(epochs), sealEnvelope(snapshot)
		}
		put(t, disk, firstSegment, segment)
		put(t, disk, "partition.meta", meta)
		put(t, disk, "leader-epochs", epochs)
		put(t, disk, "00000000000000000008.snapshot", snapshot)
		put(t, disk, "00000000000000000000.index", snapshot)
		opts := options(disk)
		opts.TopicID = [16]byte{}
		l, err := partlog.Open(dir, opts)
		if err != nil {
			return // of another version or partition: refused, nothing touched
		}
		if l.Recovered().Unclean {
			checkRecovered(t, l, segment)
		}
		again(t, l, opts)
	})
}

// sealBatches makes the checksums of whatever parses as a batch right.
func sealBatches(segment []byte) []byte {
	segment = bytes.Clone(segment)
	for batch := range recordbatch.Split(segment) {
		recordbatch.Seal(batch)
	}
	return segment
}

// sealEnvelope makes the length and checksum of a small file right.
func sealEnvelope(file []byte) []byte {
	if len(file) < 16 {
		return file
	}
	file = bytes.Clone(file)
	binary.BigEndian.PutUint32(file[8:], uint32(len(file)-16))
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.BigEndian.PutUint32(file[12:], crc32.Update(crc32.Update(0, table, file[:12]), table, file[16:]))
	return file
}

// checkRecovered compares what was recovered with what the segment held.
func checkRecovered(t *testing.T, l *partlog.Log, segment []byte) {
	got := readAll(t, l)
	all := bytes.Join(got, nil)
	if !bytes.Contains(segment, all) {
		t.Fatalf("recovered %d bytes that are not in the segment", len(all))
	}
	next := l.StartOffset()
	for i, batch := range got {
		h, err := recordbatch.Parse(batch)
		if err != nil || h.Size() != int64(len(batch)) {
			t.Fatalf("batch %d: %v", i, err)
		}
		if i > 0 && h.BaseOffset != next {
			t.Fatalf("batch %d at %d, want %d", i, h.BaseOffset, next)
		}
		next = h.LastOffset() + 1
	}
	if len(got) > 0 && next != l.EndOffset() {
		t.Fatalf("batches end at %d, the log at %d", next, l.EndOffset())
	}
}

// again opens the log a second time, appends, and asks it everything once.
func again(t *testing.T, l *partlog.Log, opts partlog.Options) {
	before, _ := tryReadAll(l)
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	l = mustOpen(t, opts)
	if after, _ := tryReadAll(l); !equalBatches(before, after) || l.Recovered().Unclean {
		t.Fatalf("%s: holds %s, had %s", l.Recovered(), describe(after), describe(before))
	}
	epoch, _ := l.LatestEpoch()
	if end := l.EndOffset(); end < 1<<62 {
		info := mustAppend(t, l, batchOf(t, 1, 10, clock.UnixMilli(), nil), max(epoch, 0))
		if info.BaseOffset != end {
			t.Fatalf("appended at %d, the log ended at %d", info.BaseOffset, end)
		}
	}
	_, _, _, _, _ = l.OffsetForTimestamp(clock.UnixMilli())
	_, _, _, _, _ = l.MaxTimestampOffset()
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}
