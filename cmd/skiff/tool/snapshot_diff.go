package tool

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/compare"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
)

// diffSide is one side of a diff.
type diffSide struct {
	Source          string `json:"source"`
	ClusterID       string `json:"cluster_id"`
	Lineage         string `json:"lineage"`
	MetadataOffset  int64  `json:"metadata_offset"`
	ControllerEpoch int64  `json:"controller_epoch"`
	Digest          string `json:"digest"`
}

// diffed is what diff prints.
type diffed struct {
	A diffSide `json:"a"`
	B diffSide `json:"b"`
	*compare.Difference
}

func (f *finder) snapshotDiff() *cobra.Command {
	live := false
	cmd := &cobra.Command{
		Use:   "diff A B | diff A --live",
		Short: "Say how two snapshots differ, or a snapshot and the live cluster",
		Long: `Compares what two snapshots say: topics, partitions, leaders, ISR, configs, brokers, quorum nodes. A and B are files, or data directories
of nodes (a quorum node must be stopped). How far each is in its history is told and is no difference by itself.

Exits as diff does: 0 when nothing differs, 1 when something does, 2 when they could not be compared.`,
		Example: "  skiff snapshot diff monday.snapshot tuesday.snapshot\n  skiff snapshot diff nightly.snapshot --live -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if want := 2 - number(live); len(args) != want {
				return config.Usage(cmd.CommandPath()+" --help", "%s takes %d arguments here, got %d", cmd.CommandPath(), want, len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := f.within(cmd)
			defer cancel()
			return f.diff(ctx, cmd.OutOrStdout(), args, live)
		},
	}
	cmd.Flags().BoolVar(&live, "live", false, "compare A with the live cluster")
	return cmd
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (f *finder) diff(ctx context.Context, w io.Writer, args []string, live bool) error {
	a, sideA, err := imageOf(args[0])
	if err != nil {
		return cannotCompare(err)
	}
	var b *fsm.Image
	var sideB diffSide
	if live {
		b, sideB, err = f.liveImage(ctx)
	} else {
		b, sideB, err = imageOf(args[1])
	}
	if err != nil {
		return cannotCompare(err)
	}
	result := diffed{A: sideA, B: sideB, Difference: compare.Images(a, b)}
	if err := result.print(w, f.format); err != nil {
		return err
	}
	if result.Equal {
		return nil
	}
	return config.Failed("", "%s and %s differ: %s", sideA.Source, sideB.Source, result.Summary())
}

func (d diffed) print(w io.Writer, format output.Format) error {
	if format != output.Table {
		return output.Print(w, format, d, output.Rows{})
	}
	table := output.Rows{Head: []string{"", "source", "cluster id", "lineage", "metadata offset", "controller epoch", "digest"}}
	table.Add("a", d.A.Source, d.A.ClusterID, d.A.Lineage, d.A.MetadataOffset, d.A.ControllerEpoch, shorten(d.A.Digest))
	table.Add("b", d.B.Source, d.B.ClusterID, d.B.Lineage, d.B.MetadataOffset, d.B.ControllerEpoch, shorten(d.B.Digest))
	if err := output.Print(w, format, d, table); err != nil {
		return err
	}
	if err := d.Text(w); err != nil {
		return config.Failed("", "print: %v", err)
	}
	return nil
}

// cannotCompare gives an error the exit code that diff has for trouble: 1 says that something differs.
func cannotCompare(err error) error {
	var exit *config.ExitError
	if !errors.As(err, &exit) {
		return &config.ExitError{Code: config.ExitUsage, Cause: err.Error(), Err: err}
	}
	return &config.ExitError{Code: config.ExitUsage, Cause: exit.Cause, Fix: exit.Fix, Err: err}
}

// imageOf reads the metadata of a snapshot file or a data directory.
func imageOf(path string) (*fsm.Image, diffSide, error) {
	if isDirectory(path) {
		from, err := readDirectory(path)
		if err != nil {
			return nil, diffSide{}, err
		}
		if from.trouble != nil {
			return nil, diffSide{}, config.Failed("save what can be read (skiff snapshot save FILE --data-dir) and compare that", "%s: %v", path, from.trouble)
		}
		return from.image, sideOfDiff(path, from.image), nil
	}
	img, err := readSnapshotFile(path)
	if err != nil {
		return nil, diffSide{}, err
	}
	return img, sideOfDiff(path, img), nil
}

func (f *finder) liveImage(ctx context.Context) (*fsm.Image, diffSide, error) {
	c, controllers, err := f.quorum()
	if err != nil {
		return nil, diffSide{}, err
	}
	defer c.Close()
	img, err := image(ctx, c, controllers)
	if err != nil {
		return nil, diffSide{}, err
	}
	return img, sideOfDiff("the live cluster", img), nil
}

func sideOfDiff(source string, img *fsm.Image) diffSide {
	return diffSide{
		Source: source, ClusterID: img.ClusterID(), Lineage: img.Lineage().ID.String(), MetadataOffset: img.AppliedOffset(),
		ControllerEpoch: img.ControllerEpoch(), Digest: img.Digest().String(),
	}
}

// errDamaged words where in a file a snapshot ends to be one.
func errDamaged(at int64, err error) error { return fmt.Errorf("at byte %d: %w", at, err) }
