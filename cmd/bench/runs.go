package bench

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Runs are the figures of all runs of one benchmark, in their order.
type Runs []time.Duration

// Median is the middle run, the lower of two.
func (r Runs) Median() time.Duration {
	if len(r) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r))
	return sorted[(len(sorted)-1)/2]
}

// Print writes every run, and then what they come to.
func (r Runs) Print(w io.Writer, what string) error {
	if len(r) == 0 {
		_, err := fmt.Fprintf(w, "%s: no run\n", what)
		return err
	}
	fmt.Fprintf(w, "%s, ms:", what)
	for _, d := range r {
		fmt.Fprintf(w, " %d", d.Milliseconds())
	}
	_, err := fmt.Fprintf(w, "\n%s: %d runs, min %d ms, median %d ms, max %d ms\n", what, len(r),
		slices.Min(r).Milliseconds(), r.Median().Milliseconds(), slices.Max(r).Milliseconds())
	return err
}
