package tool

import (
	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/brokercmd"
	"github.com/skiffmq/skiff/cmd/quorumcmd"
)

// daemons are the two kinds of process, as subcommands.
func daemons() []*cobra.Command {
	return []*cobra.Command{quorumcmd.Command(), brokercmd.Command()}
}
