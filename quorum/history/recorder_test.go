package history

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/feed"
)

// recording runs a recorder until the returned function is called.
func recording(t *testing.T, o Options, f *feed.Feed) (*Recorder, func()) {
	t.Helper()
	l, err := Open(o)
	must(t, err)
	r := NewRecorder(l, f, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return r, func() {
		t.Helper()
		cancel()
		must(t, <-ended)
	}
}

func publish(f *feed.Feed, w *writer, n int) {
	for range n {
		e := w.bulk(100)
		f.Publish(e, w.img)
	}
}

// TestRecorderWritesWhatIsPublished, goes on after a start that folds anew, and makes a gap where entries are missing.
func TestRecorderWritesWhatIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Dir: t.TempDir()}
		f, w := feed.New(feed.Options{MaxEntries: 16}), newWriter(t, 1)
		f.Reset(w.img)
		r, end := recording(t, o, f)
		must(t, r.Sync(t.Context())) // it begins at the image that it finds
		f.Publish(w.claim(101, 1), w.img)
		publish(f, w, 10)
		must(t, r.Sync(t.Context()))
		wantAll(t, r.Log(), w)
		publish(f, w, 1)
		time.Sleep(flushInterval + time.Millisecond)
		synctest.Wait()
		wantAll(t, r.Log(), w) // without being asked
		end()

		// The node starts behind its history, and reaches it.
		behind := feed.New(feed.Options{MaxEntries: 16})
		behind.Reset(w.images[3])
		r, end = recording(t, o, behind)
		must(t, r.Sync(t.Context()))
		behind.Reset(w.img)
		publish(behind, w, 3)
		must(t, r.Sync(t.Context()))
		wantAll(t, r.Log(), w)
		end()

		// More than the feed keeps went by.
		missed := w.img.NextOffset()
		ahead := feed.New(feed.Options{MaxEntries: 16})
		ahead.Reset(w.img)
		publish(ahead, w, 50)
		r, end = recording(t, o, ahead)
		must(t, r.Sync(t.Context()))
		publish(ahead, w, 2)
		must(t, r.Sync(t.Context()))
		spans := r.Log().Spans()
		if last := spans[len(spans)-1]; last.First != w.img.NextOffset()-2 || spans[len(spans)-2].Next != missed {
			t.Errorf("%+v, want a gap from %d to %d", spans, missed, w.img.NextOffset()-2)
		}
		end()
	})
}

// TestRecorderFollowsANewLineage: what the node becomes is another history, in the same files.
func TestRecorderFollowsANewLineage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := feed.New(feed.Options{}), newWriter(t, 1)
		f.Reset(w.img)
		r, end := recording(t, Options{Dir: t.TempDir()}, f)
		f.Publish(w.claim(101, 1), w.img)
		must(t, r.Sync(t.Context()))
		other := newWriter(t, 2)
		f.Reset(other.img)
		must(t, r.Sync(t.Context()))
		if got := r.Log().Image().Lineage().ID; got != other.img.Lineage().ID {
			t.Errorf("records lineage %s, want %s", got, other.img.Lineage().ID)
		}
		end()
	})
}

// TestRecorderOutlivesAFaultOfTheDisk: it says so to who waits, and goes on with a gap when the disk is back.
func TestRecorderOutlivesAFaultOfTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := feed.New(feed.Options{}), newWriter(t, 1)
		f.Reset(w.img)
		r, end := recording(t, Options{Dir: t.TempDir()}, f)
		must(t, r.Sync(t.Context()))
		r.log.file.Close()
		f.Publish(w.claim(101, 1), w.img)
		if err := r.Sync(t.Context()); err == nil {
			t.Fatal("a history that cannot be written is synced")
		}
		time.Sleep(retryInterval + time.Second)
		publish(f, w, 2)
		must(t, r.Sync(t.Context()))
		if img, err := r.Log().At(t.Context(), w.img.NextOffset()); err != nil || img.Digest() != w.img.Digest() {
			t.Fatalf("%v, %v", img, err)
		}
		end()
	})
}

// TestEventsTellWhatChangedAndWhy.
func TestEventsTellWhatChangedAndWhy(t *testing.T) {
	w := newWriter(t, 1)
	before := w.img
	claim := w.claim(101, 7)
	events, err := Events(before, claim, Filter{})
	must(t, err)
	if len(events) != 1 || events[0].GetChanges()[0].GetText() != "quorum node 101 is the active controller, controller epoch 7" {
		t.Fatalf("%v", events)
	}
	before = w.img
	e := w.entry(records(config("a", "1"), config("b", "2")), records(config("a", "3")))
	if events, err = Events(before, e, Filter{}); err != nil || len(events) != 2 {
		t.Fatalf("%v, %v", events, err)
	}
	first, second := events[0], events[1]
	if first.GetMetadataOffset() != 2 || first.GetNextMetadataOffset() != 4 || second.GetMetadataOffset() != 4 || second.GetReason().GetText() != "it is a test" {
		t.Errorf("%v", events)
	}
	if got, want := second.GetChanges()[0].GetText(), "config of "+fsm.BrokerResource("").String()+": a=1 b=2 -> a=3 b=2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if events, err = Events(before, e, Filter{Topic: "other"}); err != nil || len(events) != 0 {
		t.Errorf("%v, %v", events, err)
	}
}
