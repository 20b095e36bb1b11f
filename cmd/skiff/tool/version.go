package tool

import (
	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/cmd/version"
)

func versionCommand() *cobra.Command {
	format := output.Table
	cmd := &cobra.Command{
		Use: "version", Short: "Say which build this is", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := version.Get()
			table := output.Rows{}
			table.Add("version", info.Version)
			table.Add("revision", info.Revision)
			table.Add("go", info.Go)
			table.Add("platform", info.Platform)
			return output.Print(cmd.OutOrStdout(), format, info, table)
		},
	}
	cmd.Flags().VarP(&format, "output", "o", "format of the result")
	return cmd
}
