package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

func genesis(t testing.TB) *fsm.Image {
	t.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{1}.String(), Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{2}}.Proto(), NextMetadataOffset: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// publisher publishes entries of some records and some bytes.
type publisher struct {
	t    testing.TB
	feed *Feed
	img  *fsm.Image
}

func newPublisher(t testing.TB, o Options) *publisher {
	p := &publisher{t: t, feed: New(o), img: genesis(t)}
	p.feed.Reset(p.img)
	return p
}

func (p *publisher) publish(records, size int) {
	p.t.Helper()
	b := &metadatav1.Batch{TimeMs: 1}
	for i := range records {
		b.Records = append(b.Records, &metadatav1.Record{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
			ResourceType: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER, Key: fmt.Sprintf("k%d", i), Value: proto.String("v"),
		}}})
	}
	first := p.img.NextOffset()
	img, _, err := fsm.FoldBatches(p.img, []*metadatav1.Batch{b}, 1)
	if err != nil {
		p.t.Fatal(err)
	}
	p.img = img
	p.feed.Publish(&controllerv1.EntryApplied{FirstMetadataOffset: first, Envelope: make([]byte, size)}, img)
}

func TestCursorReadsEveryEntryInOrder(t *testing.T) {
	p := newPublisher(t, Options{})
	c := p.feed.Cursor(1)
	for i := range 10 {
		p.publish(i%3+1, 10)
	}
	for c.Offset() < p.img.NextOffset() {
		want := c.Offset()
		e, err := c.Next(t.Context())
		if err != nil || e.GetFirstMetadataOffset() != want {
			t.Fatalf("%v, %v, want the entry at %d", e, err, want)
		}
	}
	if e, _, err := c.TryNext(); e != nil || err != nil {
		t.Fatalf("past the end: %v, %v", e, err)
	}
}

func TestCursorWaitsForTheNextEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t, Options{})
		c := p.feed.Cursor(1)
		go func() {
			time.Sleep(time.Minute)
			p.publish(1, 10)
		}()
		begin := time.Now()
		if _, err := c.Next(t.Context()); err != nil || time.Since(begin) != time.Minute {
			t.Fatalf("%v after %s", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}

func TestRingIsBoundedByBytesAndByCount(t *testing.T) {
	for name, o := range map[string]Options{"bytes": {MaxBytes: 1000}, "count": {MaxEntries: 10}} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(t, o)
			c := p.feed.Cursor(1)
			for range 100 {
				p.publish(1, 100)
			}
			if got := len(p.feed.entries); got != 10 {
				t.Fatalf("%d entries are kept, want 10", got)
			}
			if _, err := c.Next(t.Context()); !errors.Is(err, ErrTooOld) {
				t.Fatalf("a reader of what is gone got %v", err)
			}
			if e, err := p.feed.Cursor(92).Next(t.Context()); err != nil || e.GetFirstMetadataOffset() != 92 {
				t.Fatalf("a reader of what is kept got %v, %v", e, err)
			}
			p.publish(1, 5000) // larger than the whole ring: the newest is always kept
			if got := len(p.feed.entries); got < 1 {
				t.Fatal("the newest entry is not kept")
			}
		})
	}
}

func TestPositionInsideAnEntryIsTooOld(t *testing.T) {
	p := newPublisher(t, Options{})
	p.publish(5, 10)
	if _, err := p.feed.Cursor(3).Next(t.Context()); !errors.Is(err, ErrTooOld) {
		t.Fatal(err)
	}
}

func TestResetEndsCursors(t *testing.T) {
	p := newPublisher(t, Options{})
	p.publish(1, 10)
	c := p.feed.Cursor(1)
	p.feed.Reset(p.img)
	if _, err := c.Next(t.Context()); !errors.Is(err, ErrReset) {
		t.Fatal(err)
	}
}

func TestGapEndsCursors(t *testing.T) {
	p := newPublisher(t, Options{})
	c := p.feed.Cursor(1)
	p.img, _, _ = fsm.FoldBatches(p.img, []*metadatav1.Batch{{TimeMs: 1, Records: []*metadatav1.Record{{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
		ResourceType: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER, Key: "k", Value: proto.String("v"),
	}}}}}}, 1)
	p.publish(1, 10)
	if _, err := c.Next(t.Context()); !errors.Is(err, ErrReset) {
		t.Fatal(err)
	}
}

func TestSnapshotIsSharedAndItsSuffixIsKept(t *testing.T) {
	p := newPublisher(t, Options{MaxEntries: 10})
	for range 20 {
		p.publish(1, 10)
	}
	first, err := p.feed.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 30 { // beyond the ring, within what a snapshot may pin
		p.publish(1, 10)
	}
	second, err := p.feed.Snapshot(t.Context())
	if err != nil || second != first {
		t.Fatalf("the second reader got another snapshot: %v", err)
	}
	img, err := fsm.ReadSnapshot(bytes.NewReader(bytes.Join(first.Chunks(), nil)))
	if err != nil || img.NextOffset() != first.Next {
		t.Fatalf("the snapshot reads as %v, %v", img, err)
	}
	if _, err := p.feed.Cursor(first.Next).Next(t.Context()); err != nil {
		t.Fatalf("what follows the snapshot is gone: %v", err)
	}
	for range 30 { // beyond that, too: a reader that slow takes another one
		p.publish(1, 10)
	}
	if got := len(p.feed.entries); got > 10*pinnedFactor {
		t.Fatalf("%d entries are kept", got)
	}
	third, err := p.feed.Snapshot(t.Context())
	if err != nil || third == first {
		t.Fatalf("a snapshot is shared that leads nowhere: %v", err)
	}
	for _, s := range []*Snapshot{first, second, third} {
		s.Release()
	}
	if p.feed.snapshot != nil || len(p.feed.entries) > 10 {
		t.Fatalf("after the last release %d entries are kept", len(p.feed.entries))
	}
}

func TestSnapshotOfNothing(t *testing.T) {
	if _, err := New(Options{}).Snapshot(t.Context()); err == nil {
		t.Fatal("a feed without an image gave a snapshot")
	}
}

func TestPublishWaitsForNobody(t *testing.T) {
	p := newPublisher(t, Options{MaxEntries: 10})
	for range 100 { // cursors that nobody reads
		p.feed.Cursor(1)
	}
	s, err := p.feed.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	for range 1000 {
		p.publish(1, 10)
	}
}

func BenchmarkPublish(b *testing.B) {
	f := New(Options{})
	img := genesis(b)
	f.Reset(img)
	e := &controllerv1.EntryApplied{FirstMetadataOffset: img.NextOffset(), Envelope: make([]byte, 300)}
	b.ReportAllocs()
	for b.Loop() {
		f.Publish(e, img)
	}
}
