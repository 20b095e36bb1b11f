package tool

import (
	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
)

func electCommand() *cobra.Command {
	var awaiting, now, dryRun bool
	cmd := &cobra.Command{
		Use:   "elect --awaiting [TOPIC/PARTITION...]",
		Short: "Elect leaders of partitions",
		Long: `With --awaiting it elects, after a restore, leaders of partitions that wait for the inventories of their replicas, with the reports
there are: of the replicas that have reported the one with the most is elected, and what a missing replica has beyond it is lost.
Without names it is for all partitions that wait. Before recovery.election.wait.ms is over it is refused unless --now is given.`,
		Example: "  skiff quorum awaiting\n  skiff elect --awaiting --dry-run\n  skiff elect --awaiting --now orders/0",
	}
	f := addFinder(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if !awaiting {
			return config.Usage("skiff elect --awaiting", "which kind of election?")
		}
		return f.electAwaiting(cmd, names, now, dryRun)
	}
	flags := cmd.Flags()
	flags.BoolVar(&awaiting, "awaiting", false, "elect in partitions that await inventories after a restore")
	flags.BoolVar(&now, "now", false, "with --awaiting: do not wait any longer for brokers that have not reported")
	flags.BoolVar(&dryRun, "dry-run", false, "say what would be elected; change nothing")
	return cmd
}
