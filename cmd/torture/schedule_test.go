package torture

import (
	"slices"
	"testing"

	"github.com/skiffmq/skiff/cmd/skiff/up"
)

func deal(seed uint64, steps int, kinds ...Kind) []Step {
	s := NewSchedule(seed, 6, kinds...)
	dealt := make([]Step, 0, steps)
	for range steps {
		dealt = append(dealt, s.Next())
	}
	return dealt
}

func TestASeedRepeatsItsScheduleAndAnotherDoesNot(t *testing.T) {
	words := func(steps []Step) []string {
		var all []string
		for _, s := range steps {
			all = append(all, s.String())
		}
		return all
	}
	first := words(deal(7, 200, everyKind...))
	if !slices.Equal(first, words(deal(7, 200, everyKind...))) {
		t.Error("one seed dealt two schedules")
	}
	if slices.Equal(first, words(deal(8, 200, everyKind...))) {
		t.Error("two seeds dealt one schedule")
	}
}

func TestAStepTakesAtMostOneNodeOfEachRole(t *testing.T) {
	for _, step := range deal(3, 2000, everyKind...) {
		roles := map[string]int{}
		for _, f := range step.Faults {
			roles[f.Role]++
			if f.Kind == Strand && len(step.Faults) > 1 {
				t.Errorf("%v: a stranded leader, and more", step)
			}
		}
		if roles[up.Quorum] > 1 || roles[up.Broker] > 1 || len(step.Faults) == 0 {
			t.Errorf("%v", step)
		}
	}
}

func TestEveryKindIsDealtSoonAndOnlyThoseAskedFor(t *testing.T) {
	seen := map[Kind]bool{}
	for _, step := range deal(5, len(allCards), everyKind...) {
		seen[step.Faults[0].Kind] = true
	}
	if len(seen) != len(everyKind) {
		t.Errorf("one deck dealt %v, want all of %v", seen, everyKind)
	}
	for _, step := range deal(5, 100, Kill, Pause) {
		for _, f := range step.Faults {
			if f.Kind != Kill && f.Kind != Pause {
				t.Errorf("%v was not asked for", f)
			}
		}
	}
}

func TestEveryNthCallKillsForAStart(t *testing.T) {
	type counted struct{ role, calls string }
	seen := map[counted][]int{}
	for _, step := range deal(9, 3000, KillAtSyscall) {
		for _, f := range step.Faults {
			key := counted{f.Role, f.Calls}
			seen[key] = append(seen[key], f.Nth)
		}
	}
	if len(seen) != 2*len(syscallSets) {
		t.Fatalf("%d combinations of role and calls, want %d", len(seen), 2*len(syscallSets))
	}
	for key, list := range seen {
		for i := range nthInTurn {
			if list[i] != i+1 {
				t.Errorf("%v: kill %d was at call %d", key, i+1, list[i])
			}
		}
	}
}
