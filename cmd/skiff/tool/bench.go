package tool

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/bench"
	"github.com/skiffmq/skiff/cmd/config"
)

// benchFlags are the flags of every benchmark.
type benchFlags struct {
	data  string
	runs  int
	pause bool
}

func benchCommand() *cobra.Command {
	f := &benchFlags{}
	cmd := group("bench", "Measure a cluster of `skiff up` by disturbing it; every run is printed")
	cmd.PersistentFlags().StringVar(&f.data, "data", dataDefault(), "`DIRECTORY` of the cluster (SKIFF_DATA)")
	cmd.PersistentFlags().IntVarP(&f.runs, "runs", "n", 20, "how often")
	cmd.AddCommand(f.failover(), f.brokerLoss(), f.idle())
	return cmd
}

func (f *benchFlags) failover() *cobra.Command {
	cmd := &cobra.Command{
		Use: "failover", Short: "Kill the active controller and time the next committed CreateTopics", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.repeat(cmd, "active controller lost to next commit", func(c *bench.Cluster, ctx context.Context, _ int, s syscall.Signal) (time.Duration, error) {
				return c.Failover(ctx, s)
			})
		},
	}
	f.addPause(cmd)
	return cmd
}

func (f *benchFlags) brokerLoss() *cobra.Command {
	cmd := &cobra.Command{
		Use: "broker-loss", Short: "Kill a broker and time until the others tell of new leaders for all it led", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.repeat(cmd, "broker lost to live leaders everywhere", (*bench.Cluster).BrokerLoss)
		},
	}
	f.addPause(cmd)
	return cmd
}

func (f *benchFlags) addPause(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.pause, "pause", false, "freeze the process with SIGSTOP instead of ending it with SIGKILL")
}

// measurement is one run of a benchmark: the n-th, with a signal. It has the shape of a method of Cluster.
type measurement func(c *bench.Cluster, ctx context.Context, n int, s syscall.Signal) (time.Duration, error)

// repeat prints every run, those before a failed one too.
func (f *benchFlags) repeat(cmd *cobra.Command, what string, run measurement) error {
	if f.runs < 1 {
		return config.Usage("-n 20", "-n is %d, and must be at least 1", f.runs)
	}
	cluster, err := bench.Attach(f.data)
	if err != nil {
		return err
	}
	signal, how := syscall.SIGKILL, "SIGKILL"
	if f.pause {
		signal, how = syscall.SIGSTOP, "SIGSTOP"
	}
	var runs bench.Runs
	for n := range f.runs {
		took, err := run(cluster, cmd.Context(), n, signal)
		if err != nil {
			_ = runs.Print(cmd.OutOrStdout(), what) // the error below is the one to tell
			return config.Failed("`skiff node list` and the logs in the data directory tell more", "run %d of %d: %v", n+1, f.runs, err)
		}
		runs = append(runs, took)
	}
	return runs.Print(cmd.OutOrStdout(), fmt.Sprintf("%s (%s)", what, how))
}

func (f *benchFlags) idle() *cobra.Command {
	var settle, span time.Duration
	cmd := &cobra.Command{
		Use: "idle", Short: "Measure what each process costs while nobody asks anything of it", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.runs < 1 || span <= 0 {
				return config.Usage("-n 1 --span 60s", "-n is %d and --span %v; both must be positive", f.runs, span)
			}
			cluster, err := bench.Attach(f.data)
			if err != nil {
				return err
			}
			for range f.runs {
				if err := idleOnce(cmd, cluster, settle, span); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&settle, "settle", 30*time.Second, "how long to wait before measuring")
	cmd.Flags().DurationVar(&span, "span", time.Minute, "how long to measure")
	return cmd
}

func idleOnce(cmd *cobra.Command, cluster *bench.Cluster, settle, span time.Duration) error {
	processes, err := cluster.Processes(cmd.Context())
	if err != nil {
		return config.Failed("start what is stopped: `skiff node restart NAME`", "%v", err)
	}
	figures, err := bench.Idle(cmd.Context(), processes, settle, span)
	if err != nil {
		return config.Failed("`skiff node list` tells which processes run", "%v", err)
	}
	return bench.PrintIdle(cmd.OutOrStdout(), figures)
}
