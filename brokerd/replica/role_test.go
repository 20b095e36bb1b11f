package replica

import (
	"errors"
	"slices"
	"testing"
	"time"
)

var epochZero = time.Unix(1_700_000_000, 0)

func at(seconds int) view {
	return view{
		now: epochZero.Add(time.Duration(seconds) * time.Second), lag: 30 * time.Second, minISR: 1,
		member: func(id int32) (int64, bool) { return 10 + int64(id), true },
	}
}

func fetchAt(broker int32, offset int64) followerFetch {
	return followerFetch{broker: broker, brokerEpoch: 10 + int64(broker), offset: offset}
}

func mustFetch(t *testing.T, l *leader, f followerFetch, v view) {
	t.Helper()
	if err := l.fetched(f, v); err != nil {
		t.Fatal(err)
	}
}

func ledBy1(isr ...int32) *leader {
	return newLeader(1, 5, committed{replicas: []int32{1, 2, 3}, isr: isr, partitionEpoch: 9}, 100, 80, epochZero)
}

func TestHighWatermarkWaitsForTheSlowestMember(t *testing.T) {
	l := ledBy1(1, 2, 3)
	mustFetch(t, l, fetchAt(2, 100), at(1))
	if l.advance(at(1)) {
		t.Fatalf("I12: high watermark moved to %d before broker 3 fetched", l.high)
	}
	mustFetch(t, l, fetchAt(3, 90), at(1))
	if !l.advance(at(1)) || l.high != 90 {
		t.Fatalf("high watermark %d, want 90", l.high)
	}
}

func TestHighWatermarkStandsUnderMinISR(t *testing.T) {
	l := ledBy1(1)
	v := at(100)
	v.minISR = 2
	if l.advance(v) {
		t.Fatalf("high watermark moved to %d with ISR [1] and min ISR 2", l.high)
	}
	v.minISR = 1
	if !l.advance(v) || l.high != 100 {
		t.Fatalf("high watermark %d, want 100", l.high)
	}
}

func TestHighWatermarkWaitsForAFollowerThatIsInTime(t *testing.T) {
	l := ledBy1(1)
	mustFetch(t, l, fetchAt(2, 100), at(1))
	l.localEnd(110)
	if !l.advance(at(2)) || l.high != 100 {
		t.Fatalf("high watermark %d, want 100: broker 2 is caught up and may join", l.high)
	}
	if !l.advance(at(60)) || l.high != 110 {
		t.Fatalf("high watermark %d, want 110: broker 2 is late", l.high)
	}
}

func TestExpandNeedsTheEpochStart(t *testing.T) {
	l := ledBy1(1)
	mustFetch(t, l, fetchAt(2, 99), at(1))
	if _, ok := l.maybeExpand(2, at(1)); ok {
		t.Fatal("a follower below the start of the leader epoch was wished for")
	}
	mustFetch(t, l, fetchAt(2, 100), at(1))
	w, ok := l.maybeExpand(2, at(1))
	if !ok || w.partitionEpoch != 9 || len(w.isr) != 2 || w.isr[1] != (wishMember{broker: 2, brokerEpoch: 12}) {
		t.Fatalf("wish %+v, %v", w, ok)
	}
	if !slices.Equal(l.isr.maximal(), []int32{1, 2}) {
		t.Fatalf("I15: maximal ISR %v", l.isr.maximal())
	}
}

func TestExpandNeedsTheRegisteredBrokerEpoch(t *testing.T) {
	l := ledBy1(1)
	f := fetchAt(2, 100)
	f.brokerEpoch = 11
	mustFetch(t, l, f, at(1))
	if _, ok := l.maybeExpand(2, at(1)); ok {
		t.Fatal("I19: a follower with another broker epoch than the registered one was wished for")
	}
}

func TestFetchOfAnEarlierIncarnationIsRefused(t *testing.T) {
	l := ledBy1(1, 2)
	mustFetch(t, l, fetchAt(2, 90), at(1))
	f := fetchAt(2, 100)
	f.brokerEpoch = 11
	if err := l.fetched(f, at(1)); !errors.Is(err, ErrNotLeaderOrFollower) {
		t.Fatalf("I19: %v", err)
	}
}

// TestFetchWithoutABrokerEpochCountsForNothing lets a follower fetch that is not registered: its incarnation is not known.
func TestFetchWithoutABrokerEpochCountsForNothing(t *testing.T) {
	l := ledBy1(1, 2)
	mustFetch(t, l, fetchAt(2, 90), at(1))
	for _, id := range []int32{2, 3} {
		f := fetchAt(id, 100)
		f.brokerEpoch = noEpoch
		if err := l.fetched(f, at(1)); !errors.Is(err, ErrNotLeaderOrFollower) {
			t.Fatalf("I19: %v", err)
		}
	}
	if end, epoch := l.followers[2].end, l.followers[2].brokerEpoch; end != 90 || epoch != 12 {
		t.Fatalf("broker 2 counts up to %d in broker epoch %d", end, epoch)
	}
	if _, ok := l.maybeExpand(3, at(1)); ok || l.followers[3].end >= 0 {
		t.Fatal("I19: broker 3 was wished for on the strength of a fetch without a broker epoch")
	}
}

func TestNewLeaderGivesAFullLagWindow(t *testing.T) {
	l := ledBy1(1, 2, 3)
	if _, ok := l.maybeShrink(at(30)); ok {
		t.Fatal("a follower was wished out within its lag window")
	}
	mustFetch(t, l, fetchAt(2, 100), at(30))
	w, ok := l.maybeShrink(at(31))
	if !ok || len(w.isr) != 2 || w.isr[1].broker != 2 {
		t.Fatalf("wish %+v, %v", w, ok)
	}
	if !slices.Equal(l.isr.maximal(), []int32{1, 2, 3}) {
		t.Fatalf("I15: a leaver no longer counts before its leaving is committed: %v", l.isr.maximal())
	}
}

func TestFollowerUnderSteadyWritesStaysInSync(t *testing.T) {
	l := ledBy1(1, 2)
	for s := 1; s < 120; s++ { // each fetch reaches what was the end at the fetch before
		mustFetch(t, l, fetchAt(2, l.end), at(s))
		l.localEnd(l.end + 10)
		if _, ok := l.maybeShrink(at(s)); ok {
			t.Fatalf("wished out at second %d", s)
		}
	}
}

func TestOneWishAtATime(t *testing.T) {
	l := ledBy1(1)
	mustFetch(t, l, fetchAt(2, 100), at(1))
	mustFetch(t, l, fetchAt(3, 100), at(1))
	w, _ := l.maybeExpand(2, at(1))
	if _, ok := l.maybeExpand(3, at(1)); ok {
		t.Fatal("two wishes are out")
	}
	l.refused(wish{leaderEpoch: 5, partitionEpoch: 8})
	if !l.isr.pending() {
		t.Fatal("the refusal of another wish dropped this one")
	}
	l.refused(w)
	if _, ok := l.maybeExpand(3, at(1)); !ok {
		t.Fatal("no wish after the refusal")
	}
}

func TestFollowerHighWatermarkFallsOnlyByTruncation(t *testing.T) {
	f := follower{high: 50}
	if f.heard(40, 100) || f.high != 50 {
		t.Fatalf("I12: fell to %d", f.high)
	}
	if !f.heard(70, 60) || f.high != 60 {
		t.Fatalf("high watermark %d, want the log's end 60", f.high)
	}
	if f.truncated(55); f.high != 55 {
		t.Fatalf("I16: high watermark %d beyond the end 55", f.high)
	}
}
