package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/skiffmq/skiff/fsm"
)

var (
	seedFlag  = flag.Uint64("sim.seed", 0, "run only this seed")
	freshFlag = flag.Duration("sim.fresh", 0, "how long to run fresh seeds; 0 is 4 s, or 60 s in CI")
	seedsFlag = flag.Uint64("sim.seeds", 3, "how many of the first seeds TestSeedsHold runs")
	hourFlag  = flag.Bool("sim.hour", false, "run an hour of a cluster of 5 quorum nodes and 10 brokers")
)

// report fails a test with what happened last.
func report(t *testing.T, s *Sim, v *Violation) {
	t.Helper()
	t.Fatalf("%s\n%s\nseed %d breaks %s", strings.Join(s.Trace(), "\n"), s.Summary(), s.opt.Seed, v)
}

// TestFreshSeeds runs seeds that were never run before.
func TestFreshSeeds(t *testing.T) {
	if *seedFlag != 0 {
		s := New(DefaultOptions(*seedFlag))
		if v := s.Run(); v != nil {
			report(t, s, v)
		}
		t.Log(s.Summary())
		return
	}
	limit := 4 * time.Second
	if os.Getenv("SKIFF_CI") == "1" {
		limit = time.Minute
	}
	if *freshFlag > 0 {
		limit = *freshFlag
	}
	first := rand.Uint64N(1<<40) + 1
	t.Logf("seeds from %d", first)
	acked, seeds := 0, 0
	for began := time.Now(); time.Since(began) < limit; seeds++ {
		s := New(DefaultOptions(first + uint64(seeds)))
		if v := s.Run(); v != nil {
			report(t, s, v)
		}
		acked += s.stats.acked
	}
	t.Logf("%d seeds, %d records acknowledged", seeds, acked)
	if acked < 100*seeds {
		t.Fatalf("%d records were acknowledged in %d runs: too few to prove anything", acked, seeds)
	}
}

// TestSeedsHold runs the first seeds, the same in every run.
func TestSeedsHold(t *testing.T) {
	for seed := range *seedsFlag {
		s := New(DefaultOptions(seed + 1))
		if v := s.Run(); v != nil {
			report(t, s, v)
		}
	}
}

// TestARunIsAFunctionOfItsSeed runs seeds twice and compares all that happened.
func TestARunIsAFunctionOfItsSeed(t *testing.T) {
	for seed := range uint64(3) {
		o := DefaultOptions(seed + 1)
		o.Duration = 30 * time.Second
		once, again := New(o), New(o)
		once.Run()
		again.Run()
		if a, b := once.Summary(), again.Summary(); a != b {
			t.Fatalf("seed %d:\n%s\n%s", seed+1, a, b)
		}
	}
}

// busy is the temper in which several entries are in flight: only then can an entry follow one that was lost.
func busy(seed uint64) Options {
	o := DefaultOptions(seed)
	o.Depth, o.Admins, o.Disk, o.Think, o.Duration = 4, 12, 60*time.Millisecond, 50*time.Millisecond, 45*time.Second
	return o
}

// TestThePlantedFaultsAreFound takes checks out of the simulated system, one at a time. A checker that misses one
// proves nothing about a system that has all of them.
func TestThePlantedFaultsAreFound(t *testing.T) {
	for _, plant := range Plants {
		t.Run(string(plant), func(t *testing.T) {
			options := DefaultOptions
			if plant == SkipClaim || plant == SkipFirst {
				options = busy
			}
			began := time.Now()
			for seed := uint64(1); time.Since(began) < time.Minute; seed++ {
				o := options(seed)
				o.Plant = plant
				if v := New(o).Run(); v != nil {
					t.Logf("found at seed %d after %s: %s", seed, time.Since(began).Round(time.Millisecond), v)
					return
				}
			}
			t.Fatal("not found in a minute")
		})
	}
}

// TestAFailureIsMadeSmaller: the smaller run breaks the same invariant with fewer faults.
func TestAFailureIsMadeSmaller(t *testing.T) {
	var o Options
	var v *Violation
	for seed := uint64(1); v == nil && seed < 20; seed++ {
		o = DefaultOptions(seed)
		o.Plant, o.Duration = ShrinkAlone, 30*time.Second
		v = New(o).Run()
	}
	if v == nil {
		t.Fatal("the planted fault was not found")
	}
	small, last := Shrink(o, v)
	again := New(small).Run()
	if again == nil || again.String() != last.String() {
		t.Fatalf("the smaller run breaks %v, shrinking saw %v", again, last)
	}
	if len(small.Without) == 0 || last.Invariant != v.Invariant {
		t.Fatalf("left out %d faults; breaks %s, at first %s", len(small.Without), last, v)
	}
}

// TestTheTopicModelTellsLies: histories that no single order explains, and some that one does.
func TestTheTopicModelTellsLies(t *testing.T) {
	a, b := fsm.UUID{1}, fsm.UUID{2}
	const never = int64(1) << 62
	op := func(call, ret int64, v verb, r result, id fsm.UUID) porcupine.Operation {
		return porcupine.Operation{Call: call, Return: ret, Input: v, Output: reply{r, id}}
	}
	for _, c := range []struct {
		name  string
		ops   []porcupine.Operation
		legal bool
	}{
		{"created twice", []porcupine.Operation{op(1, 2, create, done, a), op(3, 4, create, done, b)}, false},
		{"created twice, deleted at the same time", []porcupine.Operation{op(1, 2, create, done, a), op(3, 6, create, done, b), op(4, 5, remove, done, a)}, true},
		{"seen before it was created", []porcupine.Operation{op(1, 2, describe, done, a), op(3, 4, create, done, a)}, false},
		{"gone after it was created", []porcupine.Operation{op(1, 2, create, done, a), op(3, 4, describe, missing, fsm.UUID{})}, false},
		{"another id", []porcupine.Operation{op(1, 2, create, done, a), op(3, 4, describe, done, b)}, false},
		{"done though it was never answered", []porcupine.Operation{op(1, never, create, unknown, fsm.UUID{}), op(3, 4, describe, done, b)}, true},
		{"not done and never answered", []porcupine.Operation{op(1, never, create, unknown, fsm.UUID{}), op(3, 4, describe, missing, fsm.UUID{})}, true},
		{"done late and twice seen", []porcupine.Operation{op(1, never, create, unknown, fsm.UUID{}), op(3, 4, describe, done, b), op(5, 6, describe, done, a)}, false},
		{"an unanswered delete explains it", []porcupine.Operation{op(1, 2, create, done, a), op(3, never, remove, unknown, fsm.UUID{}), op(5, 6, create, done, b)}, true},
	} {
		if got := porcupine.CheckOperations(topicModel, c.ops); got != c.legal {
			t.Errorf("%s: legal %v, want %v", c.name, got, c.legal)
		}
	}
}

// hour is the cluster whose hour must cost less than a minute of one core.
func hour(seed uint64) Options {
	o := DefaultOptions(seed)
	o.Controllers, o.Brokers, o.DataTopics, o.Depth, o.BatchRecords, o.Admins, o.Disk = 5, 10, 8, 1, 0, 3, 3*time.Millisecond
	o.Session, o.Lag, o.Think, o.Duration = 9*time.Second, 30*time.Second, time.Second, time.Hour
	o.FaultMean, o.SegmentBytes = 20*time.Second, 1<<20
	return o
}

func TestAnHourOfALargeCluster(t *testing.T) {
	if !*hourFlag {
		t.Skip("runs with -sim.hour")
	}
	began := time.Now()
	s := New(hour(rand.Uint64N(1<<40) + 1))
	if v := s.Run(); v != nil {
		report(t, s, v)
	}
	t.Logf("an hour in %s: %s", time.Since(began).Round(time.Millisecond), s.Summary())
}

func BenchmarkVirtualMinute(b *testing.B) {
	for i := range b.N {
		o := hour(uint64(i + 1))
		o.Duration = time.Minute
		s := New(o)
		s.let(o.Duration)
		if s.violation != nil {
			b.Fatal(fmt.Sprint(s.violation))
		}
	}
}
