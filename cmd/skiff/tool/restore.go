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
	"github.com/skiffmq/skiff/quorum/bootstrap"
	"github.com/skiffmq/skiff/quorum/client"
)

// restoring is one run of restore.
type restoring struct {
	f         *finder
	voters    string
	clusterID string
	replace   bool
	dryRun    bool
	witnesses []string
	repairs   []string
	stdout    io.Writer
	stderr    io.Writer
}

func (f *finder) snapshotRestore() *cobra.Command {
	r := &restoring{f: f}
	cmd := &cobra.Command{
		Use:   "restore FILE --voters ID@HOST:PORT,...",
		Short: "Make a quorum of empty nodes that begins with a snapshot",
		Long: `Makes a new quorum of running nodes with empty directories, which begins with the metadata of a snapshot. The file is validated as a
whole before any node is touched. Repeating the command resumes an interrupted attempt, or finds that nothing is left to do; a quorum
that exists is never changed by it.

The new quorum is a new lineage: its metadata offsets and its epochs are above all that the lost quorum can have given out. It trusts
no leader and no ISR of the snapshot: brokers report what logs they hold, and the replica with the most is elected. It refuses its
users' changes until skiff quorum confirm.

Without --replace the new quorum is a new cluster, and no broker of the old one follows it: a drill beside production. With
--replace it takes the place of the lost cluster: brokers follow it by themselves, and a node of the old quorum that meets it stops
for good.

--witness names what has seen the lost cluster after the snapshot was saved: other snapshots, data directories of its quorum nodes
or of its brokers. The numbers of the new lineage go above what they show.`,
		Example: "  skiff snapshot restore nightly.snapshot --voters 101@c1:9093,102@c2:9093,103@c3:9093 --dry-run\n" +
			"  skiff snapshot restore nightly.snapshot --voters 101@c1:9093,102@c2:9093,103@c3:9093 --replace --witness /var/lib/skiff/old",
		Args: one,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.stdout, r.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			ctx, _, stop := untilSignal(cmd.Context())
			defer stop()
			return r.run(ctx, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.voters, "voters", "", "empty quorum nodes that shall vote, `ID@HOST:PORT,...`")
	flags.StringVar(&r.clusterID, "cluster-id", "", "`ID` of the new cluster; a random one by default")
	flags.BoolVar(&r.replace, "replace", false, "take the place of the cluster that the snapshot is of")
	flags.BoolVar(&r.dryRun, "dry-run", false, "validate, ask the nodes and say what would be done; change nothing")
	flags.StringArrayVar(&r.witnesses, "witness", nil, "`PATH` of a snapshot or a data directory that has seen the lost cluster; may be given again")
	flags.StringArrayVar(&r.repairs, "repair", nil, "`RULE` to apply to a snapshot that breaks an invariant; may be given again")
	return cmd
}

func (r *restoring) run(ctx context.Context, path string) error {
	voters, err := parseVoters(r.voters)
	if err != nil {
		return err
	}
	img, err := r.load(path)
	if err != nil {
		return err
	}
	witnesses, err := r.testimony()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.f.timeout)
	defer cancel()
	restored, err := bootstrap.Restore(ctx, voters,
		bootstrap.Restoration{Image: img, Replace: r.replace, Witnesses: witnesses, DryRun: r.dryRun},
		bootstrap.Options{ClusterID: r.clusterID, Progress: r.say})
	if err != nil {
		return restoreRefused(err)
	}
	return r.report(path, restored)
}

// say tells the operator how far the command is.
func (r *restoring) say(line string) { fmt.Fprintln(r.stderr, line) }

// restoreRefused words why a restore stopped.
func restoreRefused(err error) error {
	var refused *bootstrap.RefusedError
	switch {
	case errors.As(err, &refused):
		return &config.ExitError{Code: config.ExitRefused, Cause: refused.Cause, Fix: refused.Fix, Err: err}
	case errors.Is(err, bootstrap.ErrVoters):
		return &config.ExitError{Code: config.ExitUsage, Cause: err.Error(), Fix: "name each voter once, by its own id and address", Err: err}
	case errors.Is(err, bootstrap.ErrRestoration):
		return &config.ExitError{Code: config.ExitUsage, Cause: err.Error(), Fix: "nothing was touched; skiff snapshot restore --help says which flags belong together", Err: err}
	}
	return &config.ExitError{Code: config.ExitFailed, Cause: fmt.Sprintf("restore: %v", err), Fix: "start the nodes and repeat the command; it resumes", Err: err}
}

// restoreSide is one side of a restore: the snapshot, or the lineage that begins with it.
type restoreSide struct {
	ClusterID       string `json:"cluster_id"`
	Lineage         string `json:"lineage"`
	NextOffset      int64  `json:"next_metadata_offset"`
	ControllerEpoch int64  `json:"controller_epoch"`
	NextProducerID  int64  `json:"next_producer_id"`
	Brokers         int    `json:"brokers"`
	Topics          int    `json:"topics"`
	Partitions      int    `json:"partitions"`
	Led             int    `json:"partitions_with_leader"`
	Digest          string `json:"digest"`
}

func sideOf(img *fsm.Image) restoreSide {
	return restoreSide{
		ClusterID: img.ClusterID(), Lineage: img.Lineage().ID.String(), NextOffset: img.NextOffset(),
		ControllerEpoch: max(img.ControllerEpoch(), img.EpochBase()), NextProducerID: img.NextProducerID(),
		Brokers: img.NumBrokers(), Topics: img.NumTopics(), Partitions: img.NumPartitions(),
		Led: img.NumPartitions() - img.NumLeaderless(), Digest: img.Digest().String(),
	}
}

// restoreResult is what restore prints.
type restoreResult struct {
	File         string      `json:"file"`
	PlanID       string      `json:"plan_id"`
	DryRun       bool        `json:"dry_run"`
	Changed      bool        `json:"changed"`
	Resumed      bool        `json:"resumed"`
	Snapshot     restoreSide `json:"snapshot"`
	Restored     restoreSide `json:"restored"`
	Irreversible []string    `json:"irreversible"`
	Next         []string    `json:"next"`
}

func (v restoreResult) table() output.Rows {
	t := output.Rows{Head: []string{"", "snapshot", "restored"}}
	a, b := v.Snapshot, v.Restored
	t.Add("cluster id", a.ClusterID, b.ClusterID)
	t.Add("lineage", a.Lineage, b.Lineage)
	t.Add("next metadata offset", a.NextOffset, b.NextOffset)
	t.Add("controller epoch", a.ControllerEpoch, fmt.Sprintf("above %d", b.ControllerEpoch))
	t.Add("next producer id", a.NextProducerID, b.NextProducerID)
	t.Add("brokers", a.Brokers, fmt.Sprintf("%d, all fenced", b.Brokers))
	t.Add("topics", a.Topics, b.Topics)
	t.Add("partitions", a.Partitions, b.Partitions)
	t.Add("with a leader", a.Led, b.Led)
	t.Add("digest", shorten(a.Digest), shorten(b.Digest))
	return t
}

// report prints the plan and what comes next.
func (r *restoring) report(path string, done bootstrap.Restored) error {
	value := restoreResult{
		File: path, PlanID: done.PlanID.String(), DryRun: r.dryRun, Changed: !r.dryRun && !done.AlreadyInitialised, Resumed: done.Resumed,
		Snapshot: sideOf(done.Before), Restored: sideOf(done.After), Irreversible: r.irreversible(done), Next: r.next(done),
	}
	for _, w := range done.Warnings {
		r.say("warning: " + w)
	}
	switch {
	case done.AlreadyInitialised:
		r.say("already restored, nothing changed")
	case r.dryRun:
		r.say("nothing was changed; without --dry-run this becomes irreversible:")
		for _, line := range value.Irreversible {
			r.say("  " + line)
		}
	}
	if err := output.Print(r.stdout, r.f.format, value, value.table()); err != nil {
		return err
	}
	if value.Changed {
		r.awaitLeader()
		for _, line := range value.Next {
			r.say("next: " + line)
		}
	}
	return nil
}

// leaderPatience is how long restore waits for the new quorum to have an active controller; an election takes about a second.
const leaderPatience = 15 * time.Second

// awaitLeader waits for an active controller. A quorum that has none is restored all the same.
func (r *restoring) awaitLeader() {
	controllers := addressesOfVoters(r.voters)
	c, err := client.New(client.Config{Controllers: controllers})
	if err != nil {
		r.say(fmt.Sprintf("warning: %v", err))
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), leaderPatience)
	defer cancel()
	if id := awaitActive(ctx, c, controllers); id >= 0 {
		r.say(fmt.Sprintf("node %d is the active controller", id))
		return
	}
	r.say("warning: the quorum is restored and no controller is active yet; skiff quorum status says why")
}

// irreversible is what no later command takes back.
func (r *restoring) irreversible(done bootstrap.Restored) []string {
	list := []string{"the empty directories of the voters belong to cluster " + done.ClusterID}
	if !r.replace {
		return list
	}
	return append(list,
		fmt.Sprintf("brokers of cluster %s that reach these voters follow lineage %s and never again the old one", done.ClusterID, done.Lineage.String()),
		"a node of the old quorum that meets them stops for good",
		fmt.Sprintf("topics and changes that are newer than metadata offset %d are not in the metadata any more; brokers keep the data of such topics as strays", done.Before.AppliedOffset()))
}

// next are the commands to go on with.
func (r *restoring) next(bootstrap.Restored) []string {
	at := "--controllers " + strings.Join(addressesOfVoters(r.voters), ",")
	return []string{
		"skiff quorum awaiting " + at + "  shows which partitions still wait for which brokers",
		"skiff quorum confirm " + at + "  accepts users' changes again",
	}
}

func addressesOfVoters(text string) []string {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		_, address, _ := strings.Cut(item, "@")
		list = append(list, strings.TrimSpace(address))
	}
	return list
}
