// Command sim runs a whole cluster in one goroutine and in virtual time, and holds it against the invariants of
// ARCHITECTURE.md after every step.
//
// What decides is the product's own: the fold, the controller's decisions and its step function, the soft state about
// brokers, a broker's lifecycle, and the partitions with their roles, ISR, high watermark and logs. What carries is a
// model: Raft, the network, the disks, the clock and the clients. A run is a function of its options: the seed that
// fails today fails tomorrow, with a debugger attached.
//
//	sim -seeds 1000          runs fresh seeds, one after the other, and stops at the first that fails
//	sim -seed 42             runs one seed
//	sim -seed 42 -plant X    runs it with a fault planted in the system; the run must fail
//
// A failing run prints what happened last, and is then made smaller: fewer steps, fewer faults.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	var f flags
	f.parse()
	if f.seed != 0 {
		os.Exit(f.one(f.seed))
	}
	start := f.start
	if start == 0 {
		start = rand.Uint64N(1<<40) + 1
	}
	fmt.Printf("seeds from %d\n", start)
	began := time.Now()
	for i := range uint64(f.seeds) {
		if f.seconds > 0 && time.Since(began) > time.Duration(f.seconds)*time.Second {
			fmt.Printf("%d seeds held in %s\n", i, time.Since(began).Round(time.Second))
			return
		}
		if code := f.one(start + i); code != 0 {
			os.Exit(code)
		}
	}
	fmt.Printf("%d seeds held in %s\n", f.seeds, time.Since(began).Round(time.Second))
}

// flags of the command.
type flags struct {
	seed, start             uint64
	seeds, steps, seconds   int
	duration                time.Duration
	plant, without          string
	verbose, trace, noSmall bool
}

func (f *flags) parse() {
	flag.Uint64Var(&f.seed, "seed", 0, "run only this seed")
	flag.Uint64Var(&f.start, "start", 0, "first of the seeds; 0 draws one")
	flag.IntVar(&f.seeds, "seeds", 20, "number of seeds")
	flag.IntVar(&f.seconds, "seconds", 0, "stop after so many seconds of real time; 0 runs all seeds")
	flag.IntVar(&f.steps, "steps", 0, "events before everything is put right; 0 for 90 s of virtual time")
	flag.DurationVar(&f.duration, "duration", 0, "virtual time before everything is put right")
	flag.StringVar(&f.plant, "plant", "", "fault to plant in the system")
	flag.StringVar(&f.without, "without", "", "faults that do not happen, by number, with commas between")
	flag.BoolVar(&f.verbose, "v", false, "print what each run did")
	flag.BoolVar(&f.trace, "trace", false, "print everything that happens")
	flag.BoolVar(&f.noSmall, "no-shrink", false, "do not make a failing run smaller")
	flag.Parse()
}

func (f *flags) options(seed uint64) Options {
	o := DefaultOptions(seed)
	o.Steps, o.Plant = f.steps, Plant(f.plant)
	if f.duration > 0 {
		o.Duration = f.duration
	}
	o.Without = map[int]bool{}
	for number := range strings.SplitSeq(f.without, ",") {
		if i, err := strconv.Atoi(number); err == nil {
			o.Without[i] = true
		}
	}
	return o
}

// one runs a seed and returns the exit code.
func (f *flags) one(seed uint64) int {
	o := f.options(seed)
	s := New(o)
	if f.trace {
		s.trace.live = os.Stdout
	}
	v := s.Run()
	if f.verbose {
		fmt.Printf("seed %d: %s\n", seed, s.Summary())
	}
	if v == nil {
		return 0
	}
	fmt.Println(strings.Join(s.Trace(), "\n"))
	fmt.Printf("seed %d breaks %s\n", seed, v)
	if !f.noSmall {
		small, last := Shrink(o, v)
		fmt.Printf("smaller: sim -seed %d -steps %d -without %s -plant '%s'\n%s\n", seed, small.Steps, numbers(small.Without), small.Plant, last)
	}
	return 1
}

func numbers(set map[int]bool) string {
	var list []string
	for i := range set {
		list = append(list, strconv.Itoa(i))
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// Summary says in a line what a run did.
func (s *Sim) Summary() string {
	st := s.stats
	return fmt.Sprintf("%d steps, %d entries, %d faults, %d/%d records acknowledged, %d read, admin %v, %d truncations, %d excused, dropped %v, judged %d (%d undecided), trace %x",
		s.step, st.entries, st.faults, st.acked, st.produced, st.consumed, st.adminOps, st.truncations, st.excused, st.dropped, st.judged, st.undecided, s.trace.hash.Sum64())
}
