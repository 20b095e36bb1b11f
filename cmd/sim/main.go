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
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	f := flags{out: os.Stdout}
	f.parse()
	if !f.run() {
		os.Exit(1)
	}
}

// run runs what was asked for and tells whether all of it held.
func (f *flags) run() bool {
	if f.seed != 0 {
		return f.one(f.seed)
	}
	start := f.start
	if start == 0 {
		start = rand.Uint64N(1<<40) + 1
	}
	f.say("seeds from %d", start)
	began, held := time.Now(), 0
	for ; held < f.seeds && (f.seconds == 0 || time.Since(began) < time.Duration(f.seconds)*time.Second); held++ {
		if !f.one(start + uint64(held)) {
			return false
		}
	}
	f.say("%d seeds held in %s", held, time.Since(began).Round(time.Second))
	return true
}

// say writes a line of the result.
func (f *flags) say(format string, args ...any) {
	if _, err := fmt.Fprintf(f.out, format+"\n", args...); err != nil {
		panic(err) // nobody can hear the result
	}
}

// flags of the command.
type flags struct {
	out                     io.Writer
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

// one runs a seed and tells whether it held.
func (f *flags) one(seed uint64) bool {
	o := f.options(seed)
	s := New(o)
	if f.trace {
		s.trace.live = f.out
	}
	v := s.Run()
	if f.verbose {
		f.say("seed %d: %s", seed, s.Summary())
	}
	if v == nil {
		return true
	}
	f.say("%s\nseed %d breaks %s", strings.Join(s.Trace(), "\n"), seed, v)
	if !f.noSmall {
		small, last := Shrink(o, v)
		f.say("smaller: sim -seed %d -steps %d -without '%s' -plant '%s'\n%s", seed, small.Steps, numbers(small.Without), small.Plant, last)
	}
	return false
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
	return fmt.Sprintf("%d steps, %d entries, %d faults, %d/%d records acknowledged, %d read, admin %v, %d truncations, %d excused, dropped %v, fenced %v, %d probes, judged %d (%d undecided), trace %x",
		s.step, st.entries, st.faults, st.acked, st.produced, st.consumed, st.adminOps, st.truncations, st.excused, st.dropped, st.fencings, st.probes, st.judged, st.undecided, s.trace.hash.Sum64())
}
