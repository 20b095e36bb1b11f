package tool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
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
	// Equal tells that nothing differs but how far the two are in their history.
	Equal   bool         `json:"equal"`
	Changes []diffChange `json:"changes"`
}

// diffChange is one thing that differs. Without a field the whole object is new (no A) or gone (no B).
type diffChange struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Field string `json:"field"`
	A     string `json:"a"`
	B     string `json:"b"`
}

// positions are the fields of the cluster that say how far an image is in its history. They move with every claim, which changes
// nothing that a cluster does; both sides are printed with them anyway.
var positions = []string{"next metadata offset", "epoch base", "controller epoch", "claim offset"}

// differences are the changes from one image to another.
func differences(a, b *fsm.Image) []diffChange {
	list := []diffChange{}
	if a.Digest() == b.Digest() {
		return list // the digest covers all of both
	}
	for c := range fsm.Changes(a, b) {
		if c.Kind == "cluster" && slices.Contains(positions, c.Field) {
			continue
		}
		list = append(list, diffChange{Kind: c.Kind, Name: c.Name, Field: c.Field, A: c.Old, B: c.New})
	}
	return list
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
			return f.diff(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr(), args, live)
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

func (f *finder) diff(ctx context.Context, w, progress io.Writer, args []string, live bool) error {
	a, sideA, err := imageOf(args[0], progress)
	if err != nil {
		return cannotCompare(err)
	}
	var b *fsm.Image
	var sideB diffSide
	if live {
		b, sideB, err = f.liveImage(ctx)
	} else {
		b, sideB, err = imageOf(args[1], progress)
	}
	if err != nil {
		return cannotCompare(err)
	}
	result := diffed{A: sideA, B: sideB, Changes: differences(a, b)}
	result.Equal = len(result.Changes) == 0
	if err := result.print(w, f.format); err != nil {
		return err
	}
	if result.Equal {
		return nil
	}
	return config.Failed("", "%s and %s differ in %s", sideA.Source, sideB.Source, result.summary())
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
	out := bufio.NewWriter(w)
	for _, c := range d.Changes {
		fmt.Fprintln(out, fsm.Change{Kind: c.Kind, Name: c.Name, Field: c.Field, Old: c.A, New: c.B})
	}
	if err := out.Flush(); err != nil {
		return config.Failed("", "print: %v", err)
	}
	return nil
}

// summary counts the changes of each kind, in one line.
func (d diffed) summary() string {
	counts := make(map[string]int)
	for _, c := range d.Changes {
		counts[c.Kind]++
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s: %d", kind, counts[kind]))
	}
	return strings.Join(parts, ", ")
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
func imageOf(path string, progress io.Writer) (*fsm.Image, diffSide, error) {
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
	img, err := readSnapshotFile(path, newProgress(progress, "read "+path+":"))
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
