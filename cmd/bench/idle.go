package bench

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Process is one process to measure.
type Process struct {
	// Name as the cluster calls it, for example c1 or b2.
	Name string
	// PID of the process.
	PID int
}

// IdleFigure is what one process cost while nobody asked anything of it.
type IdleFigure struct {
	Process Process
	// CorePercent is CPU time over wall time, in percent of one core.
	CorePercent float64
	// ResidentBytes at the end of the span.
	ResidentBytes int64
}

// Idle waits for settle, then measures every process over span.
func Idle(ctx context.Context, processes []Process, settle, span time.Duration) ([]IdleFigure, error) {
	if err := wait(ctx, settle); err != nil {
		return nil, err
	}
	began := time.Now()
	before, err := usages(processes)
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, span); err != nil {
		return nil, err
	}
	after, err := usages(processes)
	if err != nil {
		return nil, err
	}
	wall := time.Since(began)
	figures := make([]IdleFigure, len(processes))
	for i, p := range processes {
		figures[i] = IdleFigure{
			Process:       p,
			CorePercent:   100 * float64(after[i].CPU-before[i].CPU) / float64(wall),
			ResidentBytes: after[i].ResidentBytes,
		}
	}
	return figures, nil
}

func usages(processes []Process) ([]Usage, error) {
	out := make([]Usage, len(processes))
	for i, p := range processes {
		usage, err := ReadUsage(p.PID)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		out[i] = usage
	}
	return out, nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// PrintIdle writes the figures as a table.
func PrintIdle(w io.Writer, figures []IdleFigure) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "PROCESS\tPID\tCPU % OF A CORE\tRESIDENT MIB")
	for _, f := range figures {
		fmt.Fprintf(table, "%s\t%d\t%.2f\t%.1f\n", f.Process.Name, f.Process.PID, f.CorePercent, float64(f.ResidentBytes)/(1<<20))
	}
	return table.Flush()
}
