package tool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/cmd/skiff/up"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/bootstrap"
	"github.com/skiffmq/skiff/quorum/client"
)

func quorumCommand() *cobra.Command {
	cmd := group("quorum", "Look at the quorum and change it")
	f := addFinder(cmd)
	cmd.AddCommand(f.quorumInit(), f.quorumStatus(), f.quorumTransfer(), f.quorumAwaiting(), f.quorumConfirm())
	return cmd
}

// initResult is what init prints.
type initResult struct {
	ClusterID string `json:"cluster_id"`
	PlanID    string `json:"plan_id"`
	Lineage   string `json:"lineage"`
	Changed   bool   `json:"changed"`
}

func (f *finder) quorumInit() *cobra.Command {
	var voters, clusterID string
	cmd := &cobra.Command{
		Use:   "init --voters ID@HOST:PORT,...",
		Short: "Make a quorum of empty nodes that are running",
		Long: `Asks every voter who it is, prepares one plan on all of them and commits it. Repeating the command resumes an interrupted
attempt, or finds that nothing is left to do. A quorum that exists is never changed by it.`,
		Example: "  skiff quorum init --voters 101@c1.example:9093,102@c2.example:9093,103@c3.example:9093",
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := parseVoters(voters)
			if err != nil {
				return err
			}
			ctx, cancel := f.within(cmd)
			defer cancel()
			result, err := initQuorum(ctx, list, clusterID, func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) })
			if err != nil {
				return err
			}
			for _, w := range result.Warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
			}
			if result.AlreadyInitialised {
				fmt.Fprintln(cmd.ErrOrStderr(), "already initialised, nothing changed")
			}
			value := initResult{ClusterID: result.ClusterID, PlanID: result.PlanID.String(), Lineage: result.Lineage.String(), Changed: !result.AlreadyInitialised}
			table := output.Rows{Head: []string{"cluster id", "lineage", "changed"}}
			table.Add(value.ClusterID, value.Lineage, value.Changed)
			return output.Print(cmd.OutOrStdout(), f.format, value, table)
		},
	}
	cmd.Flags().StringVar(&voters, "voters", "", "quorum nodes that shall vote, `ID@HOST:PORT,...`")
	cmd.Flags().StringVar(&clusterID, "cluster-id", "", "`ID` of the cluster; a new one by default")
	return cmd
}

// parseVoters reads ID@HOST:PORT,….
func parseVoters(text string) ([]bootstrap.Voter, error) {
	var voters []bootstrap.Voter
	for item := range strings.SplitSeq(text, ",") {
		id, address, found := strings.Cut(strings.TrimSpace(item), "@")
		n, err := strconv.ParseInt(id, 10, 32)
		if err == nil && found {
			_, _, err = net.SplitHostPort(address)
		}
		if !found || err != nil || n < 0 {
			return nil, config.Usage("write --voters 101@host1:9093,102@host2:9093,103@host3:9093", "voter %q is not ID@HOST:PORT", item)
		}
		voters = append(voters, bootstrap.Voter{NodeID: int32(n), Address: address})
	}
	return voters, nil
}

// initQuorum runs init and words its refusals.
func initQuorum(ctx context.Context, voters []bootstrap.Voter, clusterID string, progress func(string)) (bootstrap.Result, error) {
	result, err := bootstrap.Init(ctx, voters, bootstrap.Options{ClusterID: clusterID, Progress: progress})
	if err == nil {
		return result, nil
	}
	var refused *bootstrap.RefusedError
	switch {
	case errors.As(err, &refused):
		return result, &config.ExitError{Code: config.ExitRefused, Cause: refused.Cause, Fix: refused.Fix, Err: err}
	case errors.Is(err, bootstrap.ErrVoters):
		return result, &config.ExitError{Code: config.ExitUsage, Cause: err.Error(), Fix: "name each voter once, by its own id and address", Err: err}
	}
	return result, &config.ExitError{Code: config.ExitFailed, Cause: fmt.Sprintf("init: %v", err), Fix: "start the nodes and repeat the command; it resumes", Err: err}
}

// initialise makes a new quorum of the nodes of `up`.
func initialise(ctx context.Context, nodes []up.Spec) error {
	voters := make([]bootstrap.Voter, 0, len(nodes))
	for _, s := range nodes {
		voters = append(voters, bootstrap.Voter{NodeID: s.ID, Address: s.Address()})
	}
	_, err := initQuorum(ctx, voters, "", nil)
	return err
}

// nodeStatus is one quorum node in the output of status.
type nodeStatus struct {
	ID             int32  `json:"id"`
	Address        string `json:"address"`
	State          string `json:"state"`
	Term           uint64 `json:"term"`
	LeaderID       int32  `json:"leader_id"`
	LastLogIndex   uint64 `json:"last_log_index"`
	CommitIndex    uint64 `json:"commit_index"`
	AppliedIndex   uint64 `json:"applied_index"`
	SnapshotIndex  uint64 `json:"snapshot_index"`
	Lineage        string `json:"lineage"`
	MetadataOffset int64  `json:"metadata_offset"`
	Epoch          int64  `json:"controller_epoch"`
	Digest         string `json:"digest"`
	Active         bool   `json:"active"`
	Ready          bool   `json:"ready"`
	Trouble        string `json:"trouble"`
	// Unconfirmed: the lineage was restored, and users' changes are refused until skiff quorum confirm.
	Unconfirmed bool `json:"unconfirmed"`
	// Frozen: the image is not to be trusted. Trouble says why.
	Frozen bool `json:"-"`
}

// quorumStatus is the whole output of status.
type quorumStatus struct {
	ClusterID string       `json:"cluster_id"`
	ActiveID  int32        `json:"active_id"`
	Healthy   bool         `json:"healthy"`
	Nodes     []nodeStatus `json:"nodes"`
}

func (f *finder) quorumStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Ask every quorum node how it does", Args: none,
		Long: "Asks every quorum node how it does. Exits with 10 when the quorum was reached and is not healthy.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := f.within(cmd)
			defer cancel()
			c, controllers, err := f.quorum()
			if err != nil {
				return err
			}
			defer c.Close()
			status := askAll(ctx, c, controllers)
			if err := output.Print(cmd.OutOrStdout(), f.format, status, status.table()); err != nil {
				return err
			}
			if slices.ContainsFunc(status.Nodes, func(n nodeStatus) bool { return n.Unconfirmed }) {
				fmt.Fprintln(cmd.ErrOrStderr(), "the metadata was restored and is not confirmed: users' changes are refused until skiff quorum confirm")
			}
			return status.verdict()
		},
	}
}

func (s quorumStatus) table() output.Rows {
	table := output.Rows{Head: []string{"id", "address", "state", "term", "log", "commit", "applied", "metadata offset", "epoch", "digest", "active", "trouble"}}
	for _, n := range s.Nodes {
		table.Add(n.ID, n.Address, n.State, n.Term, n.LastLogIndex, n.CommitIndex, n.AppliedIndex, n.MetadataOffset, n.Epoch, shorten(n.Digest), n.Active, n.Trouble)
	}
	return table
}

// shorten cuts a digest for a table.
func shorten(digest string) string { return digest[:min(12, len(digest))] }

// verdict is the exit of status.
func (s quorumStatus) verdict() error {
	if s.Healthy {
		return nil
	}
	silent := 0
	var troubles []string
	for _, n := range s.Nodes {
		if n.State == unreachable {
			silent++
		}
		if n.Trouble != "" {
			troubles = append(troubles, fmt.Sprintf("%s: %s", n.Address, n.Trouble))
		}
	}
	if silent == len(s.Nodes) {
		return config.Failed("are the nodes up, and is the address right?", "no quorum node answers: %s", strings.Join(troubles, "; "))
	}
	if s.ActiveID < 0 {
		troubles = append([]string{"no active controller"}, troubles...)
	}
	return &config.ExitError{Code: config.ExitUnhealthy, Cause: "the quorum is not healthy: " + strings.Join(troubles, "; "), Fix: "start or repair the nodes named above"}
}

// transferResult is what transfer prints; To is -1 when no controller is active yet.
type transferResult struct {
	From int32 `json:"from"`
	To   int32 `json:"to"`
}

// awaitActive waits until a node is the active controller and returns its id, or -1 when ctx ends first.
func awaitActive(ctx context.Context, c *client.Client, controllers []string) int32 {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if status := askAll(ctx, c, controllers); status.ActiveID >= 0 {
			return status.ActiveID
		}
		select {
		case <-ctx.Done():
			return -1
		case <-ticker.C:
		}
	}
}

func (f *finder) quorumTransfer() *cobra.Command {
	to := int32(-1)
	cmd := &cobra.Command{
		Use: "transfer", Short: "Hand the active controller's role to another quorum node", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := f.within(cmd)
			defer cancel()
			c, controllers, err := f.quorum()
			if err != nil {
				return err
			}
			defer c.Close()
			status := askAll(ctx, c, controllers)
			at := slices.IndexFunc(status.Nodes, func(n nodeStatus) bool { return n.State == "Leader" })
			if at < 0 {
				return config.Failed("skiff quorum status", "none of the quorum nodes at %s says that it leads", strings.Join(controllers, ", "))
			}
			if status.Nodes[at].ID == to {
				return config.Usage("name another one, or leave --to out", "node %d leads already", to)
			}
			answer, err := c.TransferLeadership(ctx, status.Nodes[at].Address, to)
			if err != nil {
				return refusedBy("transfer", err)
			}
			value := transferResult{From: status.Nodes[at].ID, To: answer.GetLeaderId()}
			if value.To < 0 {
				value.To = awaitActive(ctx, c, controllers)
			}
			table := output.Rows{Head: []string{"from", "to"}}
			table.Add(value.From, value.To)
			return output.Print(cmd.OutOrStdout(), f.format, value, table)
		},
	}
	cmd.Flags().Int32Var(&to, "to", -1, "`ID` of the node to lead; by default the one that is most caught up")
	return cmd
}

// lineageText words a lineage, "" for none.
func lineageText(id fsm.LineageID) string {
	if id == (fsm.LineageID{}) {
		return ""
	}
	return id.String()
}
