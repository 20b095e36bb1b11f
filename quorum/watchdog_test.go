package quorum

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func TestWatchdogCountsTicksOfOneOperation(t *testing.T) {
	repeat := func(id uint64, n int) []uint64 { return slices.Repeat([]uint64{id}, n) }
	cases := map[string]struct {
		oldest  []uint64 // at each tick
		stalled bool     // at the last
	}{
		"idle":                     {repeat(0, 100), false},
		"one operation, in time":   {repeat(7, stallTicks), false},
		"one operation, too long":  {repeat(7, stallTicks+1), true},
		"many operations":          {[]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}, false},
		"it ended at the last":     {append(repeat(7, stallTicks), 0), false},
		"another began meanwhile":  {append(repeat(7, stallTicks), 8), false},
		"a second one, too long":   {append(repeat(7, 5), repeat(8, stallTicks+1)...), true},
		"still the same, later on": {repeat(7, 5*stallTicks), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var dog watchdog
			stalled := false
			for _, id := range c.oldest {
				stalled = dog.tick(id)
			}
			if stalled != c.stalled {
				t.Errorf("stalled: %t", stalled)
			}
		})
	}
}

// TestPauseOfTheProcessIsNoStall: a ticker drops what it could not deliver, so that a pause of any length is one tick.
func TestPauseOfTheProcessIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ticker := time.NewTicker(stallTick)
		defer ticker.Stop()
		var dog watchdog
		dog.tick(1)
		time.Sleep(time.Hour) // nobody reads the ticker
		for len(ticker.C) > 0 {
			<-ticker.C
			if dog.tick(1) {
				t.Fatal("the pause counted")
			}
		}
		if dog.ticks > 1 {
			t.Errorf("%d ticks in a pause", dog.ticks)
		}
	})
}

func TestOldestOperation(t *testing.T) {
	var ops operations
	first, second := ops.begin("a"), ops.begin("b")
	if id, op := ops.oldest(); id != 1 || op.what != "a" {
		t.Errorf("%d %q", id, op.what)
	}
	first()
	if id, op := ops.oldest(); id != 2 || op.what != "b" {
		t.Errorf("%d %q", id, op.what)
	}
	second()
	if id, _ := ops.oldest(); id != 0 || len(ops.running) != 0 {
		t.Errorf("%d, %d run", id, len(ops.running))
	}
}

// deletions remembers the ranges that were deleted in one write each.
type deletions struct {
	*crashingEngine
	ranges [][2]uint64
}

func (d *deletions) DeleteRange(first, last uint64) error {
	d.ranges = append(d.ranges, [2]uint64{first, last})
	return d.InmemStore.DeleteRange(first, last)
}

// TestCompactionDoesNotHoldUpAppends: the head of the log goes piece by piece, its tail and all of it in one write.
func TestCompactionDoesNotHoldUpAppends(t *testing.T) {
	const entries = 3 * deleteMax
	cases := map[string]struct {
		first, last uint64
		want        [][2]uint64
	}{
		"a short head": {1, 10, [][2]uint64{{1, 10}}},
		"a long head":  {1, 2*deleteMax + 1, [][2]uint64{{1, deleteMax}, {deleteMax + 1, 2 * deleteMax}, {2*deleteMax + 1, 2*deleteMax + 1}}},
		"whole pieces": {1, 2 * deleteMax, [][2]uint64{{1, deleteMax}, {deleteMax + 1, 2 * deleteMax}}},
		"the tail":     {5, entries, [][2]uint64{{5, entries}}},
		"all of it":    {1, entries, [][2]uint64{{1, entries}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := &deletions{crashingEngine: &crashingEngine{InmemStore: raft.NewInmemStore(), left: 100}}
			g := newGuard(d, &logSize{}, func(err error) { t.Error(err) })
			var logs []*raft.Log
			for i := range uint64(entries) {
				logs = append(logs, &raft.Log{Index: i + 1})
			}
			if err := g.StoreLogs(logs); err != nil {
				t.Fatal(err)
			}
			if err := g.DeleteRange(c.first, c.last); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(d.ranges, c.want) {
				t.Errorf("%v, want %v", d.ranges, c.want)
			}
		})
	}
}
