package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// writer makes entries as a controller does. It keeps the image after each, by next metadata offset.
type writer struct {
	t      testing.TB
	img    *fsm.Image
	images map[int64]*fsm.Image
	timeMs int64
}

func newWriter(t testing.TB, lineage byte) *writer {
	t.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{1}.String(), Lineage: fsm.LineageID{Number: uint64(lineage), UUID: fsm.UUID{lineage}}.Proto(), NextMetadataOffset: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{t: t, img: img, images: map[int64]*fsm.Image{img.NextOffset(): img}, timeMs: 1000}
	return w
}

// entry folds batches into an entry. Each takes a second.
func (w *writer) entry(batches ...*metadatav1.Batch) *controllerv1.EntryApplied {
	w.t.Helper()
	digest := w.img.Digest()
	envelope := &metadatav1.Envelope{
		Format: 1, ClusterId: w.img.ClusterID(), Lineage: w.img.Lineage().ID.Proto(),
		ControllerEpoch: proto.Int64(w.img.ControllerEpoch()), ClaimOffset: proto.Int64(w.img.ClaimOffset()),
		FirstMetadataOffset: proto.Int64(w.img.NextOffset()), DigestBefore: proto.Uint64(digest.Prefix()), Batches: batches,
	}
	return w.fold(envelope, w.img.ControllerEpoch())
}

func (w *writer) fold(envelope *metadatav1.Envelope, epoch int64) *controllerv1.EntryApplied {
	w.t.Helper()
	for _, b := range envelope.GetBatches() {
		w.timeMs += 1000
		b.TimeMs = w.timeMs
	}
	raw, err := fsm.EncodeEnvelope(envelope)
	if err != nil {
		w.t.Fatal(err)
	}
	e := &controllerv1.EntryApplied{FirstMetadataOffset: w.img.NextOffset(), ControllerEpoch: epoch, Envelope: raw}
	if w.img, err = follow(w.img, e); err != nil {
		w.t.Fatal(err)
	}
	w.images[w.img.NextOffset()] = w.img
	return e
}

func (w *writer) claim(node int32, epoch int64) *controllerv1.EntryApplied {
	uuid := func(n byte) []byte { return append(make([]byte, 15), n) }
	return w.fold(&metadatav1.Envelope{Format: 1, ClusterId: w.img.ClusterID(), Lineage: w.img.Lineage().ID.Proto(), Batches: []*metadatav1.Batch{
		records(&metadatav1.Record{Kind: &metadatav1.Record_ControllerClaimed{ControllerClaimed: &metadatav1.ControllerClaimed{
			NodeId: node, DirectoryId: uuid(1), IncarnationId: uuid(2), Nonce: uuid(3),
		}}}),
	}}, epoch)
}

func records(list ...*metadatav1.Record) *metadatav1.Batch {
	return &metadatav1.Batch{Records: list, Reason: &metadatav1.Reason{Code: "test", Text: "it is a test"}}
}

func config(key, value string) *metadatav1.Record {
	return &metadatav1.Record{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
		ResourceType: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER, Key: key, Value: proto.String(value),
	}}}
}

// bulk is an entry of about a number of bytes that do not become smaller.
func (w *writer) bulk(n int) *controllerv1.EntryApplied {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%x", w.img.NextOffset()*7919+int64(i)*104729)
	}
	return w.entry(records(config("bulk", b.String()[:n])))
}

func open(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// fill begins a log at the writer's image and appends a claim and a number of entries, each flushed.
func fill(t testing.TB, l *Log, w *writer, entries, bytes int) {
	t.Helper()
	must(t, l.Begin(w.img), l.Append(w.claim(101, 1)))
	for range entries {
		must(t, l.Append(w.bulk(bytes)), l.Flush())
	}
}

// wantAll compares the image at every offset with the writer's.
func wantAll(t testing.TB, l *Log, w *writer) {
	t.Helper()
	for next, want := range w.images {
		got, err := l.At(t.Context(), next)
		if err != nil || got.Digest() != want.Digest() || got.NextOffset() != next {
			t.Fatalf("at %d: %v, %v", next, got, err)
		}
	}
}

func TestEveryEarlierImageCanBeTold(t *testing.T) {
	o := Options{Dir: t.TempDir(), SegmentBytes: 4000}
	l, w := open(t, o), newWriter(t, 1)
	fill(t, l, w, 40, 500)
	if n := len(l.Spans()); n < 4 {
		t.Fatalf("%d segments, want some", n)
	}
	wantAll(t, l, w)
	must(t, l.Close())
	again := open(t, o)
	wantAll(t, again, w)
	if again.Image().Digest() != w.img.Digest() {
		t.Fatal("the image after the last entry is another one after opening")
	}
	must(t, again.Append(w.bulk(10)), again.Flush())
	wantAll(t, again, w)
}

func TestWalkVisitsEveryEntryOnce(t *testing.T) {
	l, w := open(t, Options{Dir: t.TempDir(), SegmentBytes: 4000}), newWriter(t, 1)
	fill(t, l, w, 40, 500)
	for _, from := range []int64{0, 1, 2, 17, 42, 1000} {
		next := max(from, 1)
		must(t, l.Walk(t.Context(), from, func(before, after *fsm.Image, e *controllerv1.EntryApplied) error {
			if before.NextOffset() != next || e.GetFirstMetadataOffset() != next {
				t.Fatalf("from %d: entry at %d, want %d", from, e.GetFirstMetadataOffset(), next)
			}
			next = after.NextOffset()
			return nil
		}))
		if from < w.img.NextOffset() && next != w.img.NextOffset() {
			t.Errorf("from %d: ended at %d, want %d", from, next, w.img.NextOffset())
		}
	}
}

// TestAWalkEndsWhereItsVisitorStops, also when there are more segments.
func TestAWalkEndsWhereItsVisitorStops(t *testing.T) {
	l, w := open(t, Options{Dir: t.TempDir(), SegmentBytes: 4000}), newWriter(t, 1)
	fill(t, l, w, 40, 500)
	visits := 0
	must(t, l.Walk(t.Context(), 0, func(_, _ *fsm.Image, _ *controllerv1.EntryApplied) error {
		visits++
		return ErrStop
	}))
	if visits != 1 {
		t.Fatalf("visited %d entries, want 1", visits)
	}
}

func TestATimeLeadsToTheImageOfThatTime(t *testing.T) {
	l, w := open(t, Options{Dir: t.TempDir(), SegmentBytes: 4000}), newWriter(t, 1)
	fill(t, l, w, 20, 500)
	for next, img := range w.images {
		if img.LastBatchTimeMs() == 0 {
			continue
		}
		for _, later := range []int64{0, 999} {
			if got, err := l.OffsetAt(t.Context(), img.LastBatchTimeMs()+later); err != nil || got != next {
				t.Fatalf("%d ms after the batch before %d: %d, %v", later, next, got, err)
			}
		}
	}
}

func TestWhatIsNotKeptIsRefused(t *testing.T) {
	l, w := open(t, Options{Dir: t.TempDir()}), newWriter(t, 1)
	if _, err := l.At(t.Context(), 1); !errors.Is(err, ErrNotKept) {
		t.Fatal(err)
	}
	fill(t, l, w, 3, 10)
	w.bulk(10) // a gap: an entry that the log never sees
	gap := w.img.NextOffset() - 1
	w.bulk(10)
	must(t, l.Begin(w.img))
	for _, next := range []int64{0, gap + 1, w.img.NextOffset() + 1} {
		if _, err := l.At(t.Context(), next); !errors.Is(err, ErrNotKept) {
			t.Errorf("at %d: %v", next, err)
		}
	}
	if _, err := l.At(t.Context(), 0); !strings.Contains(err.Error(), fmt.Sprintf("metadata offsets 1 to %d, %d to %d", gap, w.img.NextOffset(), w.img.NextOffset())) {
		t.Error(err)
	}
}

func TestTheOldestGoesFirstAndTheNewestNever(t *testing.T) {
	o := Options{Dir: t.TempDir(), SegmentBytes: 4000, MaxBytes: 12000}
	l, w := open(t, o), newWriter(t, 1)
	fill(t, l, w, 40, 500)
	before := l.Spans()
	removed, err := l.Retain(time.UnixMilli(w.timeMs))
	must(t, err)
	after, bytes := l.Spans(), int64(0)
	for _, s := range after {
		bytes += s.Bytes
	}
	if removed == 0 || len(after) != len(before)-removed || bytes > o.MaxBytes || after[len(after)-1] != before[len(before)-1] {
		t.Fatalf("removed %d of %d, %d bytes left", removed, len(before), bytes)
	}
	if removed, err = l.Retain(time.UnixMilli(w.timeMs).Add(365 * 24 * time.Hour)); err != nil || removed != len(after)-1 || len(l.Spans()) != 1 {
		t.Fatalf("removed %d by age, %v", removed, err)
	}
	if files, err := os.ReadDir(o.Dir); err != nil || len(files) != 1 {
		t.Fatalf("%d files, %v", len(files), err)
	}
}

// TestATornEndIsCutOff: whatever length a crash leaves, what was whole before is there, and the log goes on.
func TestATornEndIsCutOff(t *testing.T) {
	dir := t.TempDir()
	l, w := open(t, Options{Dir: dir}), newWriter(t, 1)
	fill(t, l, w, 3, 40)
	must(t, l.Close())
	path := segmentPath(dir, 1)
	whole, err := os.ReadFile(path)
	must(t, err)
	base := l.copySegments()[0].Bytes
	begun := 0
	for length := range whole {
		other := t.TempDir()
		must(t, os.WriteFile(segmentPath(other, 1), whole[:length], 0o600))
		got, err := Open(Options{Dir: other})
		must(t, err)
		img := got.Image()
		if img == nil {
			begun = length
			must(t, got.Close())
			continue
		}
		if want := w.images[img.NextOffset()]; want == nil || img.Digest() != want.Digest() {
			t.Fatalf("%d of %d bytes: at metadata offset %d", length, len(whole), img.NextOffset())
		}
		must(t, got.Append(entryAt(t, w, l, img.NextOffset())), got.Close())
	}
	t.Logf("%d lengths of %d bytes, the first image at %d, all of it %d", len(whole), len(whole), begun+1, base)
}

// entryAt reads the entry at a metadata offset out of a whole log.
func entryAt(t testing.TB, w *writer, l *Log, next int64) *controllerv1.EntryApplied {
	t.Helper()
	var found *controllerv1.EntryApplied
	must(t, l.Walk(context.Background(), next, func(before, _ *fsm.Image, e *controllerv1.EntryApplied) error {
		if before.NextOffset() == next && found == nil {
			found = e
		}
		return nil
	}))
	if found == nil {
		t.Fatalf("no entry at %d of %d", next, w.img.NextOffset())
	}
	return found
}

// TestAFlippedByteIsFound: no reader takes a changed file for a whole one.
func TestAFlippedByteIsFound(t *testing.T) {
	dir := t.TempDir()
	l, w := open(t, Options{Dir: dir}), newWriter(t, 1)
	fill(t, l, w, 3, 40)
	must(t, l.Close())
	path := segmentPath(dir, 1)
	whole, err := os.ReadFile(path)
	must(t, err)
	decoder, err := newDecoder()
	must(t, err)
	defer decoder.Close()
	for i := range whole {
		other := filepath.Join(t.TempDir(), "x")
		changed := append([]byte(nil), whole...)
		changed[i] ^= 0xFF
		must(t, os.WriteFile(other, changed, 0o600))
		if s, err := scan(other, decoder); err == nil && s.fault == nil {
			t.Fatalf("byte %d of %d flipped and not found", i, len(whole))
		}
	}
}

func FuzzSegment(f *testing.F) {
	dir := f.TempDir()
	l, w := open(f, Options{Dir: dir}), newWriter(f, 1)
	fill(f, l, w, 2, 20)
	must(f, l.Close())
	whole, err := os.ReadFile(segmentPath(dir, 1))
	must(f, err)
	for _, seed := range [][]byte{whole, whole[:len(whole)-3], whole[:60], preamble(), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "x")
		must(t, os.WriteFile(path, data, 0o600))
		decoder, err := newDecoder()
		must(t, err)
		defer decoder.Close()
		s, err := scan(path, decoder)
		if err != nil {
			return
		}
		// What was accepted reads again as the same, without the rest.
		must(t, os.WriteFile(path, data[:s.Bytes], 0o600))
		again, err := scan(path, decoder)
		if err != nil || again.fault != nil || again.image.Digest() != s.image.Digest() || again.Next != s.Next {
			t.Fatalf("the part of %d bytes that was accepted reads as another: %v, %v", s.Bytes, err, again.fault)
		}
	})
}
