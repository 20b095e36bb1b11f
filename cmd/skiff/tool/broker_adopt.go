package tool

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/brokerd"
	"github.com/skiffmq/skiff/brokerd/stray"
	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
)

// adoptResult is what adopt prints.
type adoptResult struct {
	BrokerID    int32        `json:"broker_id"`
	Directory   string       `json:"directory"`
	From        string       `json:"from_lineage"`
	To          string       `json:"to_lineage"`
	FromCluster string       `json:"from_cluster_id"`
	ToCluster   string       `json:"to_cluster_id"`
	NotNeeded   string       `json:"not_needed"`
	Kept        []string     `json:"kept_replicas"`
	Put         []putReplica `json:"stray_replicas"`
	Aside       string       `json:"metadata_log_goes_to"`
	Changed     bool         `json:"changed"`
}

type putReplica struct {
	Replica string `json:"replica"`
	Topic   string `json:"topic"`
	Why     string `json:"why"`
}

// adopting is one run of adopt.
type adopting struct {
	f                           *finder
	dir, metadataDir, clusterID string
	yes, dryRun                 bool
}

func (f *finder) brokerAdopt() *cobra.Command {
	a := &adopting{f: f}
	cmd := &cobra.Command{
		Use:   "adopt --data-dir DIR --controllers HOST:PORT,...",
		Short: "Let a stopped broker follow a quorum whose lineage does not continue its own",
		Long: `A broker follows a restored quorum by itself if it has followed what the snapshot was taken of. It does not if it has followed another
restore of the same snapshot: what it was told there never happened here. This command changes its data directory so that it can.
The broker must be stopped. No log is deleted:

  replicas whose partitions still wait for their replicas' reports stay as they are, and take part in the election;
  all others become strays, with the names of their topics: those that the quorum does not know, those that it does not give to
  this broker, and those that have a leader there already, from which they are copied;
  the broker's metadata log is moved aside.

A directory of another cluster is refused, unless the quorum's cluster id is given with --cluster-id.`,
		Example: "  skiff broker adopt --data-dir /var/lib/skiff/b1 --controllers c1:9093,c2:9093,c3:9093 --dry-run\n" +
			"  skiff broker adopt --data-dir /var/lib/skiff/b1 --controllers c1:9093,c2:9093,c3:9093 --yes",
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&a.dir, "data-dir", "", "the broker's data `DIRECTORY` (log.dirs)")
	flags.StringVar(&a.metadataDir, "metadata-dir", "", "the broker's metadata.log.dir, if it is not in its data directory")
	flags.StringVar(&a.clusterID, "cluster-id", "", "`ID` of the quorum's cluster, for a broker that shall leave its own")
	flags.BoolVar(&a.yes, "yes", false, "do it")
	flags.BoolVar(&a.dryRun, "dry-run", false, "say what would be done; change nothing")
	return cmd
}

func (a *adopting) run(cmd *cobra.Command) (err error) {
	if a.dir == "" {
		return config.Usage(cmd.CommandPath()+" --help", "name the broker's data directory with --data-dir")
	}
	if a.yes && a.dryRun {
		return config.Usage("give one of them", "--yes and --dry-run exclude each other")
	}
	theirs, err := a.f.image(cmd)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return config.Failed("", "%v", err)
	}
	plan, err := brokerd.PlanAdoption(brokerd.AdoptConfig{
		Dir: dir, MetadataDir: a.metadataDir, Theirs: theirs, ClusterID: a.clusterID,
		Logger: hclog.New(&hclog.LoggerOptions{Name: "adopt", Output: cmd.ErrOrStderr()}),
	})
	if err != nil {
		return adoptRefused(err)
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	return a.carryOut(cmd, plan, describeAdoption(dir, plan, theirs))
}

// carryOut says what is to be done, and does it if that was asked for.
func (a *adopting) carryOut(cmd *cobra.Command, plan *brokerd.Adoption, result adoptResult) error {
	result.Changed = a.yes && plan.NotNeeded == ""
	if result.Changed {
		if err := plan.Run(); err != nil {
			return &config.ExitError{Code: config.ExitFailed, Cause: fmt.Sprintf("adopt: %v", err), Fix: "repeat the command; it goes on where it stopped", Err: err}
		}
	}
	if err := output.Print(cmd.OutOrStdout(), a.f.format, result, result.table()); err != nil {
		return err
	}
	switch {
	case plan.NotNeeded != "":
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing has to be done:", plan.NotNeeded)
	case result.Changed:
		fmt.Fprintln(cmd.ErrOrStderr(), "done; start the broker")
	case a.dryRun:
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed")
	default:
		return config.Usage("repeat the command with --yes", "nothing was changed: what is above is done with --yes only")
	}
	return nil
}

func adoptRefused(err error) error {
	var refused *brokerd.RefusedError
	if errors.As(err, &refused) {
		return &config.ExitError{Code: config.ExitRefused, Cause: refused.Cause, Fix: refused.Fix, Err: err}
	}
	return config.Failed("", "adopt: %v", err)
}

func describeAdoption(dir string, plan *brokerd.Adoption, theirs *fsm.Image) adoptResult {
	r := adoptResult{
		BrokerID: plan.NodeID, Directory: dir, To: theirs.Lineage().ID.String(), FromCluster: plan.OldClusterID, ToCluster: theirs.ClusterID(),
		NotNeeded: plan.NotNeeded, Kept: []string{}, Put: []putReplica{}, Aside: plan.Aside,
	}
	if plan.Ours != nil {
		r.From = plan.Ours.Lineage().ID.String()
	}
	for _, id := range plan.Kept {
		r.Kept = append(r.Kept, replicaText(id, stray.TopicOf(theirs, id).Name))
	}
	for _, p := range plan.Put {
		r.Put = append(r.Put, putReplica{Replica: stray.PartitionName(p.ID), Topic: p.Topic.Name, Why: p.Why})
	}
	return r
}

// replicaText names a replica by its topic if that is known.
func replicaText(id fsm.PartitionID, topic string) string {
	if topic == "" {
		return stray.PartitionName(id)
	}
	return fmt.Sprintf("%s/%d", topic, id.Partition)
}

func (r adoptResult) table() output.Rows {
	var t output.Rows
	t.Add("broker", r.BrokerID)
	t.Add("directory", r.Directory)
	t.Add("from lineage", r.From)
	t.Add("to lineage", r.To)
	if r.FromCluster != r.ToCluster {
		t.Add("from cluster", r.FromCluster)
		t.Add("to cluster", r.ToCluster)
	}
	if r.NotNeeded != "" {
		return t
	}
	t.Add("metadata log goes to", r.Aside)
	t.Add("replicas that stay", strings.Join(r.Kept, " "))
	t.Add("replicas that become strays", len(r.Put))
	for _, p := range r.Put {
		name := p.Replica
		if p.Topic != "" {
			name += " (" + p.Topic + ")"
		}
		t.Add("  "+name, p.Why)
	}
	return t
}
