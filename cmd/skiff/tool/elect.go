package tool

import (
	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

func electCommand() *cobra.Command {
	var awaiting, preferred, unclean, now, dryRun bool
	cmd := &cobra.Command{
		Use:   "elect --preferred|--unclean|--awaiting [TOPIC/PARTITION...]",
		Short: "Elect leaders of partitions",
		Args:  partitionNames,
		Long: `With --preferred it gives partitions back to their first replicas, where those are in the ISR. With --unclean it elects, for partitions that
have no leader, whatever replica is up: what that one does not have is lost, also what was acknowledged. Without names both are for all partitions.

With --awaiting it elects, after a restore, leaders of partitions that wait for the inventories of their replicas, with the reports
there are: of the replicas that have reported the one with the most is elected, and what a missing replica has beyond it is lost.
Without names it is for all partitions that wait. Before recovery.election.wait.ms is over it is refused unless --now is given.`,
		Example: "  skiff elect --preferred\n  skiff elect --unclean --dry-run orders/0\n  skiff quorum awaiting\n  skiff elect --awaiting --dry-run\n  skiff elect --awaiting --now orders/0",
	}
	f := addFinder(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		switch {
		case awaiting && !preferred && !unclean:
			return f.electAwaiting(cmd, names, now, dryRun)
		case preferred && !awaiting && !unclean && !now:
			return f.elect(cmd, controllerv1.ElectionType_ELECTION_TYPE_PREFERRED, names, dryRun)
		case unclean && !awaiting && !preferred && !now:
			return f.elect(cmd, controllerv1.ElectionType_ELECTION_TYPE_UNCLEAN, names, dryRun)
		}
		return config.Usage("use one of --preferred, --unclean and --awaiting; --now goes with --awaiting", "which kind of election?")
	}
	flags := cmd.Flags()
	flags.BoolVar(&preferred, "preferred", false, "elect the first replicas, where they are in the ISR")
	flags.BoolVar(&unclean, "unclean", false, "elect any replica that is up, where there is no leader, at the cost of records")
	flags.BoolVar(&awaiting, "awaiting", false, "elect in partitions that await inventories after a restore")
	flags.BoolVar(&now, "now", false, "with --awaiting: do not wait any longer for brokers that have not reported")
	flags.BoolVar(&dryRun, "dry-run", false, "say what would be elected; change nothing")
	return cmd
}
