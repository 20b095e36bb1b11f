package controller

import (
	"slices"
	"testing"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

func allBut(down ...int32) func(int32) bool {
	return func(id int32) bool { return !slices.Contains(down, id) }
}

var fooZero = fsm.PartitionID{Topic: fsm.UUID{1}}

// TestElectionMatrix: on replicas [2,1,3], ISR [2,1,3], leader 1, broker 3 down.
func TestElectionMatrix(t *testing.T) {
	base := fsm.Partition{Replicas: []int32{2, 1, 3}, ISR: []int32{2, 1, 3}, Leader: 1}
	wide := base
	wide.Replicas = []int32{2, 1, 3, 4}
	for _, row := range []struct {
		name     string
		was      fsm.Partition
		isr      []int32
		election election
		leader   int32
		unclean  bool
	}{
		{"preferred", base, base.ISR, electPreferred, 2, false},
		{"online", base, base.ISR, electOnline, 1, false},
		{"unclean", base, base.ISR, electUnclean, 1, false},
		{"online, the ISR is down", base, []int32{3}, electOnline, noLeader, false},
		{"preferred, the ISR is down", base, []int32{3}, electPreferred, noLeader, false},
		{"unclean, the ISR is down", base, []int32{3}, electUnclean, 2, true},
		{"unclean, the ISR is elsewhere", wide, []int32{4}, electUnclean, 4, false},
		{"unclean, an empty ISR", base, nil, electUnclean, 2, true},
		{"online, an empty ISR", base, nil, electOnline, noLeader, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newChange(fooZero, row.was, allBut(3))
			c.isr, c.election = row.isr, row.election
			leader, unclean := c.elect()
			if leader != row.leader || unclean != row.unclean {
				t.Errorf("elected %d, unclean %t; want %d, %t", leader, unclean, row.leader, row.unclean)
			}
		})
	}
}

// TestNothingChangedWritesNothing, so that a repeated request costs nothing and bumps no epoch.
func TestNothingChangedWritesNothing(t *testing.T) {
	led := fsm.Partition{Replicas: []int32{1, 2}, ISR: []int32{2, 1}, Leader: 2, LeaderEpoch: 3, PartitionEpoch: 9}
	leaderless := fsm.Partition{Replicas: []int32{1, 2}, ISR: []int32{1}, Leader: noLeader, LeaderEpoch: 3, PartitionEpoch: 9}
	recovering := fsm.Partition{Replicas: []int32{1, 2}, ISR: []int32{1}, Leader: 1, Recovering: true}
	for _, row := range []struct {
		name     string
		was      fsm.Partition
		down     int32
		election election
	}{
		{"steady", led, 0, electOnline},
		{"steady, unclean allowed", led, 0, electUnclean},
		{"already preferred", fsm.Partition{Replicas: []int32{1, 2}, ISR: []int32{1}, Leader: 1}, 0, electPreferred},
		{"preferred is down", led, 1, electPreferred},
		{"no leader to be had", leaderless, 1, electOnline},
		{"recovering stays recovering", recovering, 0, electUnclean},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newChange(fooZero, row.was, allBut(row.down))
			c.election = row.election
			if rec := c.record(); rec != nil {
				t.Errorf("record %v", rec)
			}
		})
	}
}

// TestPartitionsThatAwaitInventoryAreNotElectedIn: nobody knows their ISR, so not even an unclean election is one.
func TestPartitionsThatAwaitInventoryAreNotElectedIn(t *testing.T) {
	was := fsm.Partition{Replicas: []int32{1, 2}, Leader: noLeader, AwaitingInventory: true}
	for _, kind := range []election{electOnline, electPreferred, electUnclean} {
		c := newChange(fooZero, was, allBut())
		c.election = kind
		if rec := c.record(); rec != nil {
			t.Errorf("election %d: record %v", kind, rec)
		}
	}
}

// TestOneMemberStaysWhenAWholeISRGoes: the leader, else the first in replica order (I7, I8, ELR off).
func TestOneMemberStaysWhenAWholeISRGoes(t *testing.T) {
	for _, row := range []struct {
		was  fsm.Partition
		want []int32
	}{
		{fsm.Partition{Replicas: []int32{1, 2, 3}, ISR: []int32{3, 2}, Leader: 2}, []int32{2}},
		{fsm.Partition{Replicas: []int32{1, 2, 3}, ISR: []int32{3, 2}, Leader: noLeader}, []int32{2}},
		{fsm.Partition{Replicas: []int32{1, 2, 3}, ISR: []int32{3}, Leader: 3}, []int32{3}},
	} {
		c := newChange(fooZero, row.was, allBut(1, 2, 3))
		c.isr = nil
		now := c.after()
		if !slices.Equal(now.ISR, row.want) || now.Leader != noLeader {
			t.Errorf("%+v becomes ISR %v, leader %d; want ISR %v and no leader", row.was, now.ISR, now.Leader, row.want)
		}
	}
}

// TestAnUncleanLeaderIsAloneAndRecovering, and so is the next one after it.
func TestAnUncleanLeaderIsAloneAndRecovering(t *testing.T) {
	was := fsm.Partition{Replicas: []int32{1, 2, 3}, ISR: []int32{1}, Leader: 1, LeaderEpoch: 4, PartitionEpoch: 8}
	c := newChange(fooZero, was, allBut(1))
	c.isr, c.election = nil, electUnclean
	rec := c.record()
	if rec.GetLeader() != 2 || !slices.Equal(rec.GetIsr().GetIds(), []int32{2}) || !rec.GetRecovering() {
		t.Fatalf("record %v, want leader 2, ISR [2], recovering", rec)
	}
	was = after(was, rec)
	c = newChange(fooZero, was, allBut(1, 2))
	c.isr, c.election = nil, electUnclean
	rec = c.record()
	if rec.GetLeader() != 3 || rec.Recovering != nil {
		t.Errorf("record %v, want leader 3 and recovering not said again", rec)
	}
}

// TestAChangeIsOnlyItsChangedFields: a leader that stays is not named, because naming it would raise its epoch (I9).
func TestAChangeIsOnlyItsChangedFields(t *testing.T) {
	was := fsm.Partition{Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}, Leader: 1}
	shrink := newChange(fooZero, was, allBut())
	shrink.isr = []int32{1, 2}
	move := newChange(fooZero, was, allBut(1))
	for name, row := range map[string]struct {
		rec                     *metadatav1.PartitionChange
		isr, leader, recovering bool
	}{
		"shrink": {shrink.record(), true, false, false},
		"move":   {move.record(), false, true, false},
	} {
		r := row.rec
		if (r.Isr != nil) != row.isr || (r.Leader != nil) != row.leader || (r.Recovering != nil) != row.recovering {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// TestALeaderThatWasMovedAwayNeverStays: not even when nobody who stays may lead (T64).
func TestALeaderThatWasMovedAwayNeverStays(t *testing.T) {
	was := fsm.Partition{Replicas: []int32{2, 3, 1}, ISR: []int32{1, 2}, Leader: 1, Adding: []int32{3}, Removing: []int32{1}}
	c := newChange(fooZero, was, allBut(2, 3))
	c.isr = []int32{1, 2, 3}
	if now := c.after(); now.Leader != noLeader || !slices.Equal(now.Replicas, []int32{2, 3}) || !slices.Equal(now.ISR, []int32{2, 3}) || len(now.Adding)+len(now.Removing) > 0 {
		t.Errorf("%+v", now)
	}
}

// TestDirectoriesFollowTheirReplicas by id, through a move and its end; a new replica has none yet (T66).
func TestDirectoriesFollowTheirReplicas(t *testing.T) {
	was := fsm.Partition{Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}, Leader: 1, Directories: []fsm.UUID{{1}, {2}, {3}}}
	c := newChange(fooZero, was, allBut())
	c.replicas, c.adding, c.removing = []int32{3, 4, 1, 2}, []int32{4}, []int32{1, 2}
	var got []fsm.UUID
	for _, raw := range c.record().GetDirectories().GetUuids() {
		id, err := fsm.UUIDFromBytes(raw)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, id)
	}
	if want := []fsm.UUID{{3}, {}, {1}, {2}}; !slices.Equal(got, want) {
		t.Errorf("directories %v, want %v", got, want)
	}
}
