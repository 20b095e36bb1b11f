package tool

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/up"
)

func upCommand() *cobra.Command {
	o := up.Options{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a cluster of real processes on this machine",
		Long: `Runs quorum nodes (c1, c2, …) and brokers (b1, b2, …) as child processes until Ctrl-C or SIGTERM.

A directory that already holds a cluster is continued. With base port P, broker i listens at P+100(i-1) and quorum node i at
P+1+100(i-1).`,
		Example: `  skiff up
  skiff up --controllers 1 --brokers 1 --port 0 --ready-file ready.json`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, abort, stop := untilSignal(cmd.Context())
			defer stop()
			executable, err := os.Executable()
			if err != nil {
				return config.Failed("", "which binary this is: %v", err)
			}
			o.Executable, o.Init = executable, initialise
			o.Stdout, o.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			for name, number := range map[string]*int{"controllers": &o.Controllers, "brokers": &o.Brokers, "port": &o.Port} {
				if !cmd.Flags().Changed(name) {
					*number = up.Unset
				}
			}
			return up.Run(ctx, abort, o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Controllers, "controllers", 3, "number of quorum nodes")
	f.IntVar(&o.Brokers, "brokers", 3, "number of brokers")
	f.StringVar(&o.Data, "data", dataDefault(), "`DIRECTORY` of the cluster (SKIFF_DATA)")
	f.IntVar(&o.Port, "port", 9092, "base of the ports; 0 picks free ones and keeps them")
	f.BoolVar(&o.Namespaces, "network-namespaces", false, "give every node a network namespace of its own, so that skiff node isolate can cut it off (Linux, root)")
	f.StringVar(&o.ReadyFile, "ready-file", "", "`FILE` to write as JSON when every node is ready")
	f.StringArrayVar(&o.Set, "set", nil, "`KEY=VALUE` for every node's configuration, may be repeated")
	f.DurationVar(&o.Wait, "wait", time.Minute, "longest time until every node is ready")
	return cmd
}

// dataDefault is the directory that `skiff up` and the commands agree on.
func dataDefault() string {
	if dir := os.Getenv("SKIFF_DATA"); dir != "" {
		return dir
	}
	return "skiff-data"
}
