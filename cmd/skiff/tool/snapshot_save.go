package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/client"
)

// saved is what save prints.
type saved struct {
	File           string `json:"file"`
	Source         string `json:"source"`
	ClusterID      string `json:"cluster_id"`
	Lineage        string `json:"lineage"`
	MetadataOffset int64  `json:"metadata_offset"`
	// KnownCommitted is the last metadata offset that is certainly decided; what is beyond it may be on this disk alone.
	KnownCommitted int64  `json:"known_committed_offset"`
	Digest         string `json:"digest"`
	Bytes          int64  `json:"bytes"`
}

func (s saved) table() output.Rows {
	table := output.Rows{Head: []string{"file", "source", "cluster id", "lineage", "metadata offset", "known committed", "digest", "bytes"}}
	table.Add(s.File, s.Source, s.ClusterID, s.Lineage, s.MetadataOffset, s.KnownCommitted, shorten(s.Digest), s.Bytes)
	return table
}

// askTimeout is how long nodes may take to say how they are before a source is chosen.
const askTimeout = 5 * time.Second

// saving is one run of the command.
type saving struct {
	f         *finder
	from      string
	dataDir   string
	committed bool
	overwrite bool
	stdout    io.Writer
	stderr    io.Writer
	// incomplete is why the snapshot, which is sound, has not everything that the disk may hold.
	incomplete error
}

func (f *finder) snapshotSave() *cobra.Command {
	s := &saving{f: f}
	cmd := &cobra.Command{
		Use:   "save FILE|-",
		Short: "Save a snapshot of the metadata to a file",
		Long: `Saves the metadata of one moment, from a live quorum or from the disk of a node that is stopped.

From a live quorum it takes the active controller, or the node that --from names; any quorum node will do, but one that is cut off
may be behind. The bytes are verified as they arrive, and the file gets its name only when it is whole and durable: what is
interrupted leaves no file. With - the snapshot goes to standard output and the report to standard error; the exit code says
whether it was whole.

With --data-dir the metadata is read from the disk of a quorum node (its newest snapshot and the log after it) or of a broker (its
metadata log). Nothing is changed there. A quorum node's log does not say which of its last entries a majority has: the report
names the last metadata offset that is certainly committed. What is beyond it may be missing on other nodes; nobody was ever told
of a change that a majority did not have. --committed leaves it out.`,
		Example: "  skiff snapshot save nightly.snapshot --controllers c1:9093\n  skiff snapshot save - | ssh backup 'cat > nightly.snapshot'\n" +
			"  skiff snapshot save rescue.snapshot --data-dir /var/lib/skiff/quorum",
		Args: one,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.stdout, s.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			ctx, _, stop := untilSignal(cmd.Context())
			defer stop()
			return s.run(ctx, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.from, "from", "", "`HOST:PORT` of the quorum node to save from; by default the active controller")
	flags.StringVar(&s.dataDir, "data-dir", "", "data `DIRECTORY` of a quorum node or a broker that is stopped")
	flags.BoolVar(&s.committed, "committed", false, "with --data-dir: leave out what is not known to be committed")
	flags.BoolVar(&s.overwrite, "overwrite", false, "replace FILE if it exists")
	return cmd
}

func (s *saving) run(ctx context.Context, path string) error {
	if s.from != "" && s.dataDir != "" {
		return config.Usage("give one of them", "--from names a live node and --data-dir a stopped one")
	}
	if s.committed && s.dataDir == "" {
		return config.Usage("leave it out: a live node has only what is committed", "--committed is for --data-dir")
	}
	sink, err := createSnapshot(path, s.stdout, s.overwrite)
	if err != nil {
		return err
	}
	result, err := s.fill(ctx, sink)
	if err != nil {
		return errors.Join(err, sink.abandon())
	}
	result.File, result.Bytes, result.Digest = path, sink.bytes, sink.verifier.Digest().String()
	report := s.stdout
	if path == standardOutput {
		report = s.stderr
	}
	if err := output.Print(report, s.f.format, result, result.table()); err != nil {
		return err
	}
	if s.incomplete != nil {
		return &config.ExitError{
			Code: config.ExitFailed, Cause: fmt.Sprintf("saved %s, but not all: %v", path, s.incomplete),
			Fix: "save from the disk of another node too, and compare with skiff snapshot diff", Err: s.incomplete,
		}
	}
	return nil
}

// fill writes the snapshot from wherever it comes and completes it.
func (s *saving) fill(ctx context.Context, sink *snapshotSink) (saved, error) {
	get := s.live
	if s.dataDir != "" {
		get = s.offline
	}
	result, err := get(ctx, sink)
	if err != nil {
		return result, err
	}
	if err := sink.commit(); err != nil {
		return result, config.Failed("repeat the command; nothing was left under the name", "complete the snapshot %s: %v", sink.path, err)
	}
	return result, nil
}

// live saves from a quorum node.
func (s *saving) live(ctx context.Context, sink *snapshotSink) (saved, error) {
	ctx, cancel := context.WithTimeout(ctx, s.f.timeout)
	defer cancel()
	c, source, err := s.source(ctx)
	if err != nil {
		return saved{}, err
	}
	defer c.Close()
	counted := io.MultiWriter(sink, newProgress(s.stderr, "saved"))
	begin, err := c.SaveSnapshot(ctx, source, counted, func(b *client.SavedSnapshot) {
		fmt.Fprintf(s.stderr, "saving from node %d at %s: %s, %d partitions\n", b.GetNodeId(), source, position(lineageOf(b), b.GetNextMetadataOffset()-1), b.GetPartitions())
	})
	if err != nil {
		return saved{}, saveRefused(source, err)
	}
	return saved{
		Source: fmt.Sprintf("node %d at %s", begin.GetNodeId(), source), ClusterID: begin.GetClusterId(), Lineage: lineageOf(begin).String(),
		MetadataOffset: begin.GetNextMetadataOffset() - 1, KnownCommitted: begin.GetNextMetadataOffset() - 1,
	}, nil
}

// source is the node to save from: the one that was named, else the active controller, else the one that is furthest.
func (s *saving) source(ctx context.Context) (*client.Client, string, error) {
	if s.from != "" {
		c, err := client.New(client.Config{Controllers: []string{s.from}})
		if err != nil {
			return nil, "", config.Usage("write --from HOST:PORT", "%v", err)
		}
		return c, s.from, nil
	}
	c, controllers, err := s.f.quorum()
	if err != nil {
		return nil, "", err
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status := askAll(asking, c, controllers)
	best := status.bestSource()
	if best == nil {
		c.Close()
		return nil, "", config.Failed("name one with --from, or save from the disk of a stopped node with --data-dir",
			"none of the quorum nodes at %s can be saved from: %s", strings.Join(controllers, ", "), status.troubles())
	}
	if !best.Active {
		fmt.Fprintf(s.stderr, "warning: no controller is active; node %d is furthest, and may be behind what was decided\n", best.ID)
	}
	return c, best.Address, nil
}

// bestSource is the node whose metadata is furthest; nil when none has any.
func (s quorumStatus) bestSource() *nodeStatus {
	var best *nodeStatus
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Lineage == "" || n.Frozen {
			continue
		}
		if n.Active {
			return n
		}
		if best == nil || n.MetadataOffset > best.MetadataOffset {
			best = n
		}
	}
	return best
}

// troubles of all nodes, in one line.
func (s quorumStatus) troubles() string {
	var list []string
	for _, n := range s.Nodes {
		if n.Trouble != "" {
			list = append(list, fmt.Sprintf("%s: %s", n.Address, n.Trouble))
		}
	}
	return strings.Join(list, "; ")
}

// lineageOf reads the lineage that a node announced.
func lineageOf(b *client.SavedSnapshot) fsm.LineageID {
	uuid, err := fsm.UUIDFromBytes(b.GetLineage().GetUuid())
	if err != nil {
		return fsm.LineageID{Number: b.GetLineage().GetNumber()}
	}
	return fsm.LineageID{Number: b.GetLineage().GetNumber(), UUID: uuid}
}

// saveRefused words why a node sent no whole snapshot.
func saveRefused(source string, err error) error {
	fix := "repeat the command, or save from another node with --from; nothing was left under the name"
	if errors.Is(err, context.DeadlineExceeded) {
		fix = "repeat the command with a longer --timeout; nothing was left under the name"
	}
	return &config.ExitError{Code: config.ExitFailed, Cause: fmt.Sprintf("save from %s: %s", source, plain(err)), Fix: fix, Err: err}
}
