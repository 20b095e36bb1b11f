package replica

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
)

var testPartition = fsm.PartitionID{Topic: fsm.UUID{15: 1}, Partition: 0}

// bench is one partition with a world that the test sets.
type bench struct {
	*Partition
	t      *testing.T
	now    time.Time
	active map[int32]bool
	epoch  int32 // partition epoch of the last registration
}

func newBench(t *testing.T) *bench {
	t.Helper()
	log, err := partlog.Open(t.TempDir(), partlog.Options{TopicID: testPartition.Topic})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Partition: newPartition(testPartition, "t", log, 0), t: t, now: epochZero, active: map[int32]bool{1: true, 2: true, 3: true}}
	b.world = func(s topicconfig.Settings) view {
		return view{now: b.now, lag: DefaultLagMax, minISR: int(s.MinInSyncReplicas), member: func(id int32) (int64, bool) { return 10 + int64(id), b.active[id] }}
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// lead makes broker 1 the leader in an epoch; replicas are 1, 2, 3 unless only ISR members are.
func (b *bench) registration(leader, leaderEpoch int32, isr ...int32) registration {
	b.epoch++
	replicas := []int32{1, 2, 3}
	if len(isr) == 0 {
		replicas, isr = []int32{1}, []int32{1}
	}
	return registration{
		Partition: fsm.Partition{Replicas: replicas, ISR: isr, Leader: leader, LeaderEpoch: leaderEpoch, PartitionEpoch: b.epoch},
		settings:  topicconfig.Settings{MaxMessageBytes: 1 << 20, MinInSyncReplicas: 1}, self: 1,
	}
}

func (b *bench) lead(leaderEpoch int32, isr ...int32) {
	b.t.Helper()
	if err := b.becomeLeader(b.registration(1, leaderEpoch, isr...)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) follow(leader, leaderEpoch int32) {
	b.t.Helper()
	if _, err := b.becomeFollower(b.registration(leader, leaderEpoch, 1, 2, 3)); err != nil {
		b.t.Fatal(err)
	}
}

func records(t *testing.T, base int64, epoch int32, n int) []byte {
	t.Helper()
	list := make([]recordbatch.Record, n)
	for i := range list {
		list[i] = recordbatch.Record{Value: fmt.Appendf(nil, "%d/%d", epoch, base+int64(i)), TimestampMs: epochZero.UnixMilli()}
	}
	b, err := recordbatch.Build(list, recordbatch.BuildOptions{BaseOffset: base, LeaderEpoch: epoch})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) mustAppend(n int) Appended {
	b.t.Helper()
	a, err := b.append(records(b.t, 0, -1, n), AppendOptions{Acks: AcksAll, LeaderEpoch: -1})
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

func (b *bench) fetchAs(follower int32, offset int64) FetchResult {
	f := FetchPartition{ID: testPartition, Offset: offset, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 1 << 20}
	res, _ := b.read(f, reader{replicaID: follower, replicaEpoch: 10 + int64(follower), note: true}, room{bytes: 1 << 20, atLeastOne: true})
	return res
}

func TestOnlyTheLeaderOfTheEpochAppends(t *testing.T) {
	b := newBench(t)
	if _, err := b.append(records(t, 0, -1, 1), AppendOptions{LeaderEpoch: -1}); !errors.Is(err, ErrNotLeaderOrFollower) {
		t.Fatalf("before any role: %v", err)
	}
	b.lead(5, 1, 2, 3)
	for epoch, want := range map[int32]error{4: ErrFencedLeaderEpoch, 6: ErrUnknownLeaderEpoch, 5: nil, -1: nil} {
		if _, err := b.append(records(t, 0, -1, 1), AppendOptions{LeaderEpoch: epoch}); !errors.Is(err, want) {
			t.Errorf("I14: append in leader epoch %d: %v, want %v", epoch, err, want)
		}
	}
	b.follow(2, 6)
	for epoch, want := range map[int32]error{5: ErrFencedLeaderEpoch, 6: ErrNotLeaderOrFollower, 7: ErrUnknownLeaderEpoch} {
		if _, err := b.append(records(t, 0, -1, 1), AppendOptions{LeaderEpoch: epoch}); !errors.Is(err, want) {
			t.Errorf("the epoch is judged before the leadership: append in %d: %v, want %v", epoch, err, want)
		}
	}
}

func TestALeaderEpochThatTheLogHasSeenIsRefused(t *testing.T) {
	b := newBench(t)
	b.lead(5, 1, 2, 3)
	b.mustAppend(1)
	again := newBench(t)
	if err := again.log.AssignEpoch(5, 0); err != nil {
		t.Fatal(err)
	}
	for _, epoch := range []int32{4, 5} {
		if err := again.becomeLeader(again.registration(1, epoch, 1, 2, 3)); !errors.Is(err, ErrLeaderEpochNotAbove) {
			t.Fatalf("I14: lead in epoch %d over a log with 5: %v", epoch, err)
		}
		if _, err := again.append(records(t, 0, -1, 1), AppendOptions{LeaderEpoch: -1}); !errors.Is(err, ErrNotLeaderOrFollower) {
			t.Fatalf("append after a refused role: %v", err)
		}
	}
	again.lead(6, 1, 2, 3)
	again.mustAppend(1)
}

func TestOldMetadataIsIgnored(t *testing.T) {
	b := newBench(t)
	old := b.registration(2, 4, 1, 2, 3)
	b.lead(5, 1, 2, 3)
	if _, err := b.becomeFollower(old); err != nil {
		t.Fatal(err)
	}
	b.mustAppend(1)
}

func TestAcksAllWaitsForTheISR(t *testing.T) {
	b := newBench(t)
	b.lead(5, 1, 2)
	a := b.mustAppend(3)
	if decided, _ := b.replicated(a); decided {
		t.Fatal("I13: decided before broker 2 has the records")
	}
	b.fetchAs(2, 3)
	if decided, err := b.replicated(a); !decided || err != nil {
		t.Fatalf("decided %v, %v", decided, err)
	}
}

func TestTheISRMayShrinkAfterTheAppend(t *testing.T) {
	b := newBench(t)
	r := b.registration(1, 5, 1, 2)
	r.settings.MinInSyncReplicas = 2
	if err := b.becomeLeader(r); err != nil {
		t.Fatal(err)
	}
	a := b.mustAppend(3)
	b.fetchAs(2, 3)
	smaller := b.registration(1, 5, 1)
	smaller.settings.MinInSyncReplicas = 2
	if err := b.becomeLeader(smaller); err != nil {
		t.Fatal(err)
	}
	if decided, err := b.replicated(a); !decided || !errors.Is(err, ErrNotEnoughReplicasAfterAppend) {
		t.Fatalf("I13: decided %v, %v", decided, err)
	}
	if _, err := b.append(records(t, 0, -1, 1), AppendOptions{Acks: AcksAll, LeaderEpoch: -1}); !errors.Is(err, ErrNotEnoughReplicas) {
		t.Fatalf("acks=all with an ISR of one: %v", err)
	}
	if _, err := b.append(records(t, 0, -1, 1), AppendOptions{Acks: AcksLeader, LeaderEpoch: -1}); err != nil {
		t.Fatalf("acks=1 with an ISR of one: %v", err)
	}
}

func TestANewRoleAnswersThoseWhoWait(t *testing.T) {
	b := newBench(t)
	b.lead(5, 1, 2)
	a := b.mustAppend(1)
	w := newWaiter()
	b.enlist(w, forHigh)
	b.follow(2, 6)
	select {
	case <-w.wake:
	default:
		t.Fatal("nobody was woken")
	}
	if decided, err := b.replicated(a); !decided || !errors.Is(err, ErrNotLeaderOrFollower) {
		t.Fatalf("decided %v, %v", decided, err)
	}
}

func TestWaitersAreBounded(t *testing.T) {
	var l waitList
	for range waitersMax {
		if !l.add(newWaiter(), forHigh) {
			t.Fatal("I20: refused below the bound")
		}
	}
	if l.add(newWaiter(), forEnd) {
		t.Fatal("I20: no bound")
	}
}

func TestConsumersReadToTheHighWatermarkFollowersToTheEnd(t *testing.T) {
	b := newBench(t)
	b.lead(5, 1, 2)
	b.mustAppend(2)
	if res := b.fetchAs(ConsumerReplicaID, 0); len(res.Records) != 0 || res.HighWatermark != 0 {
		t.Fatalf("a consumer got %d bytes at high watermark %d", len(res.Records), res.HighWatermark)
	}
	if res := b.fetchAs(2, 0); len(res.Records) == 0 {
		t.Fatal("a follower got nothing")
	}
	b.fetchAs(2, 2)
	if res := b.fetchAs(ConsumerReplicaID, 1); len(res.Records) == 0 || res.HighWatermark != 2 {
		t.Fatalf("a consumer got %d bytes at high watermark %d", len(res.Records), res.HighWatermark)
	}
	if res := b.fetchAs(ConsumerReplicaID, 3); !errors.Is(res.Err, ErrOffsetOutOfRange) || res.LogStartOffset != 0 {
		t.Fatalf("beyond the end: %+v", res)
	}
	if res := b.fetchAs(4, 0); !errors.Is(res.Err, ErrNotLeaderOrFollower) {
		t.Fatalf("a stranger's fetch: %v", res.Err)
	}
}

func TestTheOnlyReplicaCountsWhatIsFlushed(t *testing.T) {
	b := newBench(t)
	b.lead(5)
	if _, only := b.flusher.durable(); !only {
		t.Fatal("the only replica does not flush its batches")
	}
	for _, acks := range []int16{AcksNone, AcksLeader, AcksAll} {
		a, err := b.append(records(t, 0, -1, 1), AppendOptions{Acks: acks, LeaderEpoch: -1})
		if err != nil {
			t.Fatal(err)
		}
		if durable, _ := b.flusher.durable(); durable != a.LastOffset+1 {
			t.Fatalf("acks %d: durable to %d after an append of %d", acks, durable, a.LastOffset)
		}
		if decided, err := b.replicated(a); !decided || err != nil {
			t.Fatalf("acks %d: %v, %v", acks, decided, err)
		}
	}
	b.recommit(b.registration(1, 5, 1))
	if _, only := b.flusher.durable(); only {
		t.Fatal("other replicas came and each batch is still flushed")
	}
}

func TestANewLeaderDoesNotKnowTheLatestOffset(t *testing.T) {
	b := newBench(t)
	b.follow(2, 4)
	if _, err := b.copy(copied{leaderEpoch: 4, records: records(t, 0, 4, 3), high: 1, logStart: 0}); err != nil {
		t.Fatal(err)
	}
	b.lead(5, 1, 2)
	if _, err := b.listOffset(ListOffsetQuery{CurrentLeaderEpoch: -1, Timestamp: TimestampLatest}); !errors.Is(err, ErrOffsetNotAvailable) {
		t.Fatalf("latest offset with the high watermark below the epoch's start (KIP-207): %v", err)
	}
	if res, err := b.listOffset(ListOffsetQuery{CurrentLeaderEpoch: -1, Timestamp: TimestampEarliest}); err != nil || res.Offset != 0 {
		t.Fatalf("earliest: %+v, %v", res, err)
	}
	b.fetchAs(2, 3)
	if res, err := b.listOffset(ListOffsetQuery{CurrentLeaderEpoch: -1, Timestamp: TimestampLatest}); err != nil || res.Offset != 3 || res.LeaderEpoch != 5 {
		t.Fatalf("latest: %+v, %v", res, err)
	}
}

func TestAFollowerTakesNothingOfAnotherEpoch(t *testing.T) {
	b := newBench(t)
	b.follow(2, 4)
	b.follow(3, 5)
	if _, err := b.copy(copied{leaderEpoch: 4, records: records(t, 0, 4, 3), high: 3}); !errors.Is(err, errNotFollowing) {
		t.Fatalf("I14: an answer of the last leader: %v", err)
	}
	b.lead(6, 1, 2)
	if _, err := b.copy(copied{leaderEpoch: 5, records: records(t, 0, 5, 3), high: 3}); !errors.Is(err, errNotFollowing) {
		t.Fatalf("I14: an answer after the election: %v", err)
	}
	if b.log.EndOffset() != 0 {
		t.Fatalf("log ends at %d", b.log.EndOffset())
	}
}

func TestAFollowerOfAnEmptyLeadershipDoesNotDiverge(t *testing.T) {
	b := newBench(t)
	b.follow(2, 4)
	if _, err := b.copy(copied{leaderEpoch: 4, records: records(t, 0, 4, 3), high: 3}); err != nil {
		t.Fatal(err)
	}
	b.lead(5, 1, 2, 3) // and appends nothing
	b.follow(3, 6)
	pos, err := b.position(6)
	if err != nil || pos.LastFetchedEpoch != 4 || pos.Offset != 3 {
		t.Fatalf("position %+v, %v; the last record is of leader epoch 4", pos, err)
	}
}

func TestAFollowerStartsAnewBehindTheLeadersStart(t *testing.T) {
	b := newBench(t)
	b.follow(2, 4)
	cut, err := b.copy(copied{leaderEpoch: 4, outOfRange: true, logStart: 100, high: 150})
	if err != nil || cut.to != 100 || b.log.StartOffset() != 100 || b.log.EndOffset() != 100 || b.highWatermark() != 100 {
		t.Fatalf("%+v, %v: log %d to %d, high watermark %d", cut, err, b.log.StartOffset(), b.log.EndOffset(), b.highWatermark())
	}
	if _, err := b.copy(copied{leaderEpoch: 4, records: records(t, 100, 4, 5), high: 150, logStart: 103}); err != nil {
		t.Fatal(err)
	}
	if b.log.StartOffset() != 103 || b.highWatermark() != 105 {
		t.Fatalf("log starts at %d, high watermark %d", b.log.StartOffset(), b.highWatermark())
	}
}
