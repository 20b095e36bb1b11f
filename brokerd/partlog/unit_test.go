package partlog

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

// TestEndOffsetForEpochIsKafkas goes through the cases of Kafka's
// LeaderEpochFileCache.endOffsetFor.
func TestEndOffsetForEpochIsKafkas(t *testing.T) {
	history := epochHistory{{2, 10}, {3, 20}, {5, 40}}
	for _, test := range []struct {
		name      string
		history   epochHistory
		epoch     int32
		wantEpoch int32
		wantEnd   int64
	}{
		{"undefined", history, -1, NoEpoch, NoOffset},
		{"no history", nil, 3, NoEpoch, NoOffset},
		{"newer than all", history, 6, NoEpoch, NoOffset},
		{"the latest", history, 5, 5, 50},
		{"one with a successor", history, 3, 3, 40},
		{"one that was skipped", history, 4, 3, 40},
		{"the oldest", history, 2, 2, 20},
		{"older than all", history, 1, 1, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			if epoch, end := test.history.endOffsetFor(test.epoch, 50); epoch != test.wantEpoch || end != test.wantEnd {
				t.Fatalf("got (%d, %d), want (%d, %d)", epoch, end, test.wantEpoch, test.wantEnd)
			}
		})
	}
}

func TestEpochHistoryStaysInOrder(t *testing.T) {
	history := epochHistory{{2, 10}, {3, 20}, {5, 40}}
	for _, test := range []struct {
		name  string
		entry epochEntry
		want  epochHistory
	}{
		{"a new epoch", epochEntry{7, 60}, epochHistory{{2, 10}, {3, 20}, {5, 40}, {7, 60}}},
		{"the same again", epochEntry{5, 40}, history},
		{"the same, later", epochEntry{5, 45}, history},
		{"the same, earlier", epochEntry{5, 30}, epochHistory{{2, 10}, {3, 20}, {5, 30}}},
		{"a new epoch at an old start", epochEntry{6, 40}, epochHistory{{2, 10}, {3, 20}, {6, 40}}},
		{"a new epoch before an old start", epochEntry{6, 15}, epochHistory{{2, 10}, {6, 15}}},
		{"the epoch before one without a record", epochEntry{3, 40}, epochHistory{{2, 10}, {3, 20}}},
		{"an old epoch", epochEntry{3, 50}, epochHistory{{2, 10}, {3, 50}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, _ := history.assign(test.entry); !slices.Equal(got, test.want) {
				t.Fatalf("got %v, want %v", got, test.want)
			}
			if !slices.Equal(history, epochHistory{{2, 10}, {3, 20}, {5, 40}}) {
				t.Fatal("a published history was changed")
			}
		})
	}
	for end, want := range map[int64]int{0: 0, 10: 0, 11: 1, 20: 1, 40: 2, 41: 3} {
		if got := history.truncateEnd(end); len(got) != want {
			t.Fatalf("truncated to %d: %v", end, got)
		}
	}
	for start, want := range map[int64]epochHistory{
		0: history, 10: history, 15: {{2, 15}, {3, 20}, {5, 40}}, 20: {{3, 20}, {5, 40}}, 39: {{3, 39}, {5, 40}}, 90: {{5, 90}},
	} {
		if got := history.truncateStart(start); !slices.Equal(got, want) {
			t.Fatalf("start moved to %d: %v, want %v", start, got, want)
		}
	}
}

func TestSequencesWrapAtTheLargestInt32(t *testing.T) {
	for _, test := range []struct{ sequence, delta, want int32 }{
		{0, 0, 0}, {5, 3, 8}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 3, 1}, {0, math.MaxInt32, math.MaxInt32},
	} {
		if got := addSequence(test.sequence, test.delta); got != test.want {
			t.Fatalf("%d + %d = %d, want %d", test.sequence, test.delta, got, test.want)
		}
	}
	ps := newProducers(10)
	last := header{producerID: 1, baseSequence: math.MaxInt32 - 2, lastOffsetDelta: 2, recordCount: 3}
	ps.update(last, 0)
	next := header{producerID: 1, baseSequence: 0, lastOffsetDelta: 4, recordCount: 5, baseOffset: 3}
	if repeat, err := ps.check(next, OriginClient); err != nil || repeat != nil {
		t.Fatalf("the sequence after the largest is 0: %v", err)
	}
}

// TestCoordinatorsSendNoSequences: control batches and a transaction's offset
// commits move the producer epoch and nothing else.
func TestCoordinatorsSendNoSequences(t *testing.T) {
	ps := newProducers(10)
	ps.update(header{producerID: 1, producerEpoch: 2, baseSequence: 7}, 0)
	commit := header{producerID: 1, producerEpoch: 2, baseSequence: -1, attributes: attrTransactional}
	if _, err := ps.check(commit, OriginCoordinator); err != nil {
		t.Fatal(err)
	}
	ps.update(commit, 0)
	if _, err := ps.check(header{producerID: 1, producerEpoch: 2, baseSequence: 8}, OriginClient); err != nil {
		t.Fatal(err)
	}
	marker := header{producerID: 1, producerEpoch: 3, baseSequence: -1, attributes: attrTransactional | attrControl}
	ps.update(marker, 0)
	if _, err := ps.check(header{producerID: 1, producerEpoch: 3, baseSequence: 8}, OriginClient); !errors.Is(err, ErrOutOfOrderSequence) {
		t.Fatal(err)
	}
	if _, err := ps.check(header{producerID: 1, producerEpoch: 2, baseSequence: -1, attributes: attrControl}, OriginCoordinator); !errors.Is(err, ErrInvalidProducerEpoch) {
		t.Fatal(err)
	}
}

func TestSnapshotsReadBack(t *testing.T) {
	ps := newProducers(100)
	for id := range int64(20) {
		for i := range int32(id % 8) {
			ps.update(header{producerID: id, producerEpoch: int16(id), baseSequence: 3 * i, lastOffsetDelta: 2, baseOffset: id * int64(i), maxTimestamp: 50 + id}, 7)
		}
	}
	raw := ps.encode(77)
	again, err := decodeProducers(raw, 77, 100)
	if err != nil || !slices.Equal(again.encode(77), raw) {
		t.Fatalf("it reads back otherwise: %v", err)
	}
	if _, err := decodeProducers(raw, 78, 100); !errors.Is(err, errDamaged) {
		t.Fatal("it is of another offset")
	}
	for n := range raw {
		if _, err := decodeProducers(raw[:n], 77, 100); !errors.Is(err, errDamaged) {
			t.Fatalf("%d of %d bytes: %v", n, len(raw), err)
		}
	}
	few, err := decodeProducers(raw, 77, 5)
	if err != nil || len(few.byID) > 5 {
		t.Fatalf("%d producers, at most 5: %v", len(few.byID), err)
	}
	ps.expire(time.UnixMilli(60).Add(time.Second), time.Second)
	for id, p := range ps.byID {
		if p.lastSeenMs < 60 {
			t.Fatalf("producer %d was last seen at %d", id, p.lastSeenMs)
		}
	}
}

// TestEnvelopeNoticesEveryFlippedBit goes through all bits of a small file.
func TestEnvelopeNoticesEveryFlippedBit(t *testing.T) {
	file := sealEnvelope("SKXX", []byte("the body"))
	if body, err := openEnvelope("SKXX", file); err != nil || string(body) != "the body" {
		t.Fatal(err)
	}
	for bit := range len(file) * 8 {
		file[bit/8] ^= 1 << (bit % 8)
		if _, err := openEnvelope("SKXX", file); !errors.Is(err, errDamaged) {
			t.Fatalf("bit %d: %v", bit, err)
		}
		file[bit/8] ^= 1 << (bit % 8)
	}
	for n := range file {
		if _, err := openEnvelope("SKXX", file[:n]); !errors.Is(err, errDamaged) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

func TestIndexFindsTheLastEntryBelow(t *testing.T) {
	b := newIndexBuilder(1000, 100)
	for i := range int64(50) {
		b.add(header{baseOffset: 1000 + 2*i, maxTimestamp: 10 * (i % 7)}, 40*i)
	}
	x := &index{entries: b.entries}
	if len(x.entries) != 16 || b.newest != 60 || b.newestOffset != 1012 {
		t.Fatalf("%d entries, newest %d at %d", len(x.entries), b.newest, b.newestOffset)
	}
	for relative := range int64(100) {
		position := x.seekOffset(relative)
		if want := 120 * (relative / 6); position != want {
			t.Fatalf("offset %d: position %d, want %d", relative, position, want)
		}
	}
	for ts, want := range map[int64]int64{0: 0, 10: 0, 30: 120, 31: 120, 60: 240, 61: 1920} {
		if got := x.seekTime(ts); got != want {
			t.Fatalf("time %d: position %d, want %d", ts, got, want)
		}
	}
	head := indexHead{1000, 2000, b.newest, b.newestOffset}
	again, gotHead, err := decodeIndex(x.encodeOffsets(head), x.encodeTimes(head))
	if err != nil || gotHead != head || !slices.Equal(again.entries, x.entries) {
		t.Fatalf("it reads back otherwise: %v", err)
	}
	if _, _, err := decodeIndex(x.encodeOffsets(head), x.encodeTimes(indexHead{base: 1})); !errors.Is(err, errDamaged) {
		t.Fatal("indexes of two segments were taken for one")
	}
}

func TestMetaReadsBack(t *testing.T) {
	m := meta{[16]byte{9, 8}, 7, 6, 5, true, 40, 30, 20}
	got, err := decodeMeta(m.encode())
	if err != nil || got != m {
		t.Fatalf("%+v %v", got, err)
	}
	m.activeBase = 41
	if _, err := decodeMeta(m.encode()); !errors.Is(err, errDamaged) {
		t.Fatal("a segment that begins behind the end")
	}
}

// TestTheLastEpochIsOfARecord: an epoch whose leader appended nothing does not count, and what retention has taken still does.
func TestTheLastEpochIsOfARecord(t *testing.T) {
	h := epochHistory{{2, 0}, {5, 100}, {7, 200}}
	for _, c := range []struct {
		start, end int64
		want       int32
	}{{0, 250, 7}, {0, 200, 5}, {0, 101, 5}, {0, 100, 2}, {0, 0, NoEpoch}, {200, 200, 7}} {
		if got := h.lastRecord(c.start, c.end); got != c.want {
			t.Errorf("log from %d to %d: epoch %d, want %d", c.start, c.end, got, c.want)
		}
	}
	if got := epochHistory(nil).lastRecord(0, 10); got != NoEpoch {
		t.Errorf("no history: %d", got)
	}
}
