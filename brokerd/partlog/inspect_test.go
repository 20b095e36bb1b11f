package partlog_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/skiffmq/skiff/brokerd/partlog"
)

func TestInspectTellsWhatOpenWouldFind(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if _, err := partlog.Inspect(nil, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("an absent log: %v", err)
	}
	opts := partlog.Options{TopicID: [16]byte{7}, Partition: 3, SegmentBytes: 300}
	l, err := partlog.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := partlog.Inspect(nil, dir); err != nil || s.Clean || s.LastEpoch != partlog.NoEpoch {
		t.Fatalf("a log that was never closed: %+v, %v", s, err)
	}
	if err := l.AssignEpoch(4, 0); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		mustAppend(t, l, batchOf(t, 1, 50, 1, nil), 4)
	}
	if err := errors.Join(l.AssignEpoch(6, l.EndOffset()), l.Close()); err != nil {
		t.Fatal(err)
	}
	want := partlog.Summary{TopicID: opts.TopicID, Partition: 3, EndOffset: l.EndOffset(), LastEpoch: 4, Clean: true, SizeBytes: l.SizeBytes()}
	if l.Segments() < 2 || l.LastRecordEpoch() != 4 {
		t.Fatalf("%d segments, last record of epoch %d", l.Segments(), l.LastRecordEpoch())
	}
	for range 2 { // it changes nothing
		if s, err := partlog.Inspect(nil, dir); err != nil || s != want {
			t.Fatalf("%+v, %v; want %+v", s, err, want)
		}
	}
	// A segment that grew gives the clean mark the lie: where the log ends is not known.
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(segments[len(segments)-1], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write([]byte("more"))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err := partlog.Inspect(nil, dir); err != nil || s.Clean || s.EndOffset > want.EndOffset || s.SizeBytes != want.SizeBytes+4 {
		t.Fatalf("%+v, %v", s, err)
	}
	if err := os.Truncate(filepath.Join(dir, "partition.meta"), 5); err != nil {
		t.Fatal(err)
	}
	if s, err := partlog.Inspect(nil, dir); err != nil || s.Clean || s.SizeBytes == 0 || s.LastEpoch != partlog.NoEpoch {
		t.Fatalf("with a damaged partition.meta: %+v, %v", s, err)
	}
}
