package tool

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
)

// objectUsage is what one object takes of a snapshot.
type objectUsage struct {
	Object     string `json:"object"`
	Bytes      uint64 `json:"bytes"`
	Share      string `json:"share"`
	Partitions uint64 `json:"partitions"`
	Records    uint64 `json:"records"`
}

func (f *finder) snapshotTop() *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use:   "top FILE",
		Short: "Say what takes the space in a snapshot",
		Long: `Lists the objects that take most of the space, the largest first: topics with their partitions, the configs of a resource,
registrations. The file is read to its end and verified.`,
		Example: "  skiff snapshot top nightly.snapshot --limit 20",
		Args:    one,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 100_000 {
				return config.Usage("give a number from 1 to 100000", "--limit is %d", limit)
			}
			info, err := inspectFile(args[0], limit, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			list := make([]objectUsage, 0, len(info.Top))
			table := output.Rows{Head: []string{"object", "bytes", "share", "partitions", "records"}}
			for _, o := range info.Top {
				u := objectUsage{Object: o.Object, Bytes: o.Bytes, Share: fmt.Sprintf("%.1f%%", 100*float64(o.Bytes)/float64(info.Bytes)), Partitions: o.Partitions, Records: o.Records}
				list = append(list, u)
				table.Add(u.Object, u.Bytes, u.Share, u.Partitions, u.Records)
			}
			return output.Print(cmd.OutOrStdout(), f.format, list, table)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 10, "number of objects")
	return cmd
}
