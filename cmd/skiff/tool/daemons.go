package tool

import "github.com/spf13/cobra"

// daemons are the two kinds of process, as subcommands.
func daemons() []*cobra.Command {
	return nil
}
