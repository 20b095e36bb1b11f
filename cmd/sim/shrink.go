package main

import "maps"

// shrinkRuns bounds the runs that making a failure smaller may take.
const shrinkRuns = 60

// Shrink looks for a smaller run that breaks the same invariant: it ends where the violation was found, and leaves out
// faults, half of them at first, then fewer and fewer.
func Shrink(o Options, v *Violation) (Options, *Violation) {
	fails := func(try Options) *Violation {
		got := New(try).Run()
		if got == nil || got.Invariant != v.Invariant {
			return nil
		}
		return got
	}
	faults := len(planFaults(o.Seed, o.Duration, max(o.FaultMean, 1)))
	best, found := o, v
	runs := 0
	for size := (faults + 1) / 2; size > 0 && runs < shrinkRuns; size /= 2 {
		for from := 0; from < faults && runs < shrinkRuns; from += size {
			try := best
			try.Without = maps.Clone(best.Without)
			if try.Without == nil {
				try.Without = map[int]bool{}
			}
			more := false
			for i := from; i < min(from+size, faults); i++ {
				more = more || !try.Without[i]
				try.Without[i] = true
			}
			if !more {
				continue
			}
			runs++
			if got := fails(try); got != nil {
				best, found = try, got
			}
		}
	}
	if try := best; found.Step > 0 {
		try.Steps = found.Step + 1
		if got := fails(try); got != nil {
			best, found = try, got
		}
	}
	return best, found
}
