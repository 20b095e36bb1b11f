package tool

import (
	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/cmd/skiff/up"
)

// nodeFlags are the flags of every node verb.
type nodeFlags struct {
	data   string
	format output.Format
	force  bool
}

func nodeCommand() *cobra.Command {
	f := &nodeFlags{format: output.Table}
	cmd := group("node", "Look at and disturb the processes of a cluster that `skiff up` runs")
	cmd.PersistentFlags().StringVar(&f.data, "data", dataDefault(), "`DIRECTORY` of the cluster (SKIFF_DATA)")
	cmd.PersistentFlags().VarP(&f.format, "output", "o", "format of the result")
	cmd.AddCommand(f.list())
	for _, v := range []struct{ verb, short string }{
		{up.Kill, "End nodes with SIGKILL, after asking each whether this process is it"},
		{up.Stop, "Stop nodes with SIGTERM and wait for them"},
		{up.Pause, "Freeze nodes with SIGSTOP"},
		{up.Resume, "Let paused nodes go on (SIGCONT)"},
		{up.Restart, "Start nodes, stopping them first if they run"},
		{up.Isolate, "Unplug the cables of nodes: they reach nobody, nobody reaches them (skiff up --network-namespaces)"},
		{up.Heal, "Plug the cables of nodes in again, and undo every other cut of their wires"},
	} {
		cmd.AddCommand(f.verb(v.verb, v.short))
	}
	return cmd
}

func (f *nodeFlags) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the nodes and their processes", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := up.NewClient(f.data)
			if err != nil {
				return err
			}
			nodes, err := client.List(cmd.Context())
			if err != nil {
				return err
			}
			return output.Print(cmd.OutOrStdout(), f.format, nodes, up.Table(nodes))
		},
	}
}

func (f *nodeFlags) verb(verb, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " NAME...", Short: short, Args: some,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := up.NewClient(f.data)
			if err != nil {
				return err
			}
			nodes := make([]up.Node, 0, len(args))
			for _, name := range args {
				node, err := client.Do(cmd.Context(), name, verb, f.force)
				if err != nil {
					return err
				}
				nodes = append(nodes, node)
			}
			return output.Print(cmd.OutOrStdout(), f.format, nodes, up.Table(nodes))
		},
	}
	if verb == up.Kill {
		cmd.Flags().BoolVar(&f.force, "force", false, "kill without asking the node who it is")
	}
	return cmd
}
