package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// awaitingPoll is how often the quorum is asked while a command waits.
const awaitingPoll = 250 * time.Millisecond

// replicaReport is what one replica reported of its log.
type replicaReport struct {
	Broker          int32 `json:"broker"`
	Present         bool  `json:"present"`
	LastLeaderEpoch int32 `json:"last_leader_epoch"`
	LogStartOffset  int64 `json:"log_start_offset"`
	LogEndOffset    int64 `json:"log_end_offset"`
}

// awaitingPartition has no leader until its replicas have reported.
type awaitingPartition struct {
	Topic      string          `json:"topic"`
	Partition  int32           `json:"partition"`
	Replicas   []int32         `json:"replicas"`
	Missing    []int32         `json:"missing"`
	Reports    []replicaReport `json:"reports"`
	WouldElect int32           `json:"would_elect"`
}

// recoveryElection was made without the report of every replica.
type recoveryElection struct {
	Topic        string          `json:"topic"`
	Partition    int32           `json:"partition"`
	Leader       int32           `json:"leader"`
	LeaderEpoch  int32           `json:"leader_epoch"`
	LogEndOffset int64           `json:"log_end_offset"`
	Missing      []int32         `json:"missing"`
	Late         []replicaReport `json:"late"`
}

// missingBroker has not reported, and partitions wait for it.
type missingBroker struct {
	Broker     int32 `json:"broker"`
	Registered bool  `json:"registered"`
	Partitions int32 `json:"partitions"`
}

// awaitingStatus is what awaiting prints. The lists are cut when there are very many; the numbers are not.
type awaitingStatus struct {
	Lineage        string              `json:"lineage"`
	Confirmed      bool                `json:"confirmed"`
	Awaiting       int32               `json:"awaiting"`
	WaitMs         int64               `json:"wait_ms"`
	MissingBrokers []missingBroker     `json:"missing_brokers"`
	Partitions     []awaitingPartition `json:"partitions"`
	Elected        int32               `json:"elected_without_all_reports"`
	Elections      []recoveryElection  `json:"elections"`
}

func reportsOf(list []*controllerv1.ReplicaReport) []replicaReport {
	out := make([]replicaReport, 0, len(list))
	for _, r := range list {
		out = append(out, replicaReport{
			Broker: r.GetBrokerId(), Present: r.GetPresent(), LastLeaderEpoch: r.GetLastLeaderEpoch(),
			LogStartOffset: r.GetLogStartOffset(), LogEndOffset: r.GetLogEndOffset(),
		})
	}
	return out
}

func electionOf(e *controllerv1.RecoveryElection) recoveryElection {
	return recoveryElection{
		Topic: e.GetTopic(), Partition: e.GetPartitionId(), Leader: e.GetLeader(), LeaderEpoch: e.GetLeaderEpoch(),
		LogEndOffset: e.GetLogEndOffset(), Missing: e.GetMissing(), Late: reportsOf(e.GetLate()),
	}
}

func awaitingOf(r *controllerv1.ListAwaitingResponse) (awaitingStatus, error) {
	lineage, err := fsm.LineageIDFromProto(r.GetLineage())
	if err != nil {
		return awaitingStatus{}, config.Failed("", "the quorum's answer: %v", err)
	}
	s := awaitingStatus{
		Lineage: lineage.String(), Confirmed: r.GetConfirmed(), WaitMs: r.GetWaitMs(), Awaiting: r.GetAwaiting(), Elected: r.GetRecoveryElections(),
		MissingBrokers: []missingBroker{}, Partitions: []awaitingPartition{}, Elections: []recoveryElection{},
	}
	for _, b := range r.GetMissingBrokers() {
		s.MissingBrokers = append(s.MissingBrokers, missingBroker{Broker: b.GetBrokerId(), Registered: b.GetRegistered(), Partitions: b.GetPartitions()})
	}
	for _, p := range r.GetPartitions() {
		s.Partitions = append(s.Partitions, awaitingPartition{
			Topic: p.GetTopic(), Partition: p.GetPartitionId(), Replicas: p.GetReplicas(), Missing: p.GetMissing(),
			Reports: reportsOf(p.GetReports()), WouldElect: p.GetWouldElect(),
		})
	}
	for _, e := range r.GetElections() {
		s.Elections = append(s.Elections, electionOf(e))
	}
	return s, nil
}

func (s awaitingStatus) table() output.Rows {
	t := output.Rows{Head: []string{"partition", "state", "replicas", "missing", "leader", "log end", "at stake"}}
	for _, p := range s.Partitions {
		leader := "none can be elected"
		if p.WouldElect >= 0 {
			leader = fmt.Sprintf("%d if elected now", p.WouldElect)
		}
		t.Add(fmt.Sprintf("%s/%d", p.Topic, p.Partition), "awaiting", ids(p.Replicas), ids(p.Missing), leader, reportedEnds(p.Reports), "")
	}
	for _, e := range s.Elections {
		e.addTo(&t)
	}
	return t
}

func (e recoveryElection) addTo(t *output.Rows) {
	t.Add(fmt.Sprintf("%s/%d", e.Topic, e.Partition), "elected", "", ids(e.Missing), e.Leader, e.LogEndOffset, e.stake())
}

// stake words what the election may have cost.
func (e recoveryElection) stake() string {
	var words []string
	silent := slices.Clone(e.Missing)
	for _, r := range e.Late {
		silent = slices.DeleteFunc(silent, func(id int32) bool { return id == r.Broker })
		switch {
		case !r.Present || r.LogEndOffset <= e.LogEndOffset:
			words = append(words, fmt.Sprintf("broker %d had no more", r.Broker))
		default:
			words = append(words, fmt.Sprintf("broker %d had offsets %d to %d", r.Broker, e.LogEndOffset, r.LogEndOffset-1))
		}
	}
	if len(silent) > 0 {
		words = append(words, fmt.Sprintf("offsets from %d on that brokers %s may have", e.LogEndOffset, ids(silent)))
	}
	return strings.Join(words, "; ")
}

// reportedEnds words what has been reported: broker:end.
func reportedEnds(list []replicaReport) string {
	words := make([]string, 0, len(list))
	for _, r := range list {
		if r.Present {
			words = append(words, fmt.Sprintf("%d:%d", r.Broker, r.LogEndOffset))
		} else {
			words = append(words, fmt.Sprintf("%d:none", r.Broker))
		}
	}
	return strings.Join(words, " ")
}

// listAwaiting asks the active controller.
func listAwaiting(ctx context.Context, c *client.Client) (awaitingStatus, *controllerv1.ListAwaitingResponse, error) {
	answer, err := c.ListAwaiting(ctx, &controllerv1.ListAwaitingRequest{})
	if err != nil {
		return awaitingStatus{}, nil, refusedBy("awaiting", err)
	}
	s, err := awaitingOf(answer)
	return s, answer, err
}

func (f *finder) quorumAwaiting() *cobra.Command {
	wait := false
	cmd := &cobra.Command{
		Use: "awaiting", Short: "List the partitions that a restore left without a leader, and what its elections may have cost", Args: none,
		Long: `After a restore nobody trusts the leaders and the ISRs of the snapshot. Each partition waits until all its replicas have reported what
log they hold; then the one with the most is elected. This lists the partitions that still wait, the brokers they wait for, and the
elections that were made without all reports: what a missing replica had beyond the elected log is lost, and is named when that
replica reports after all.

With --wait it waits until no partition waits any more, or until --timeout, and then exits with 10.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := f.within(cmd)
			defer cancel()
			c, _, err := f.quorum()
			if err != nil {
				return err
			}
			defer c.Close()
			status, err := awaitReports(ctx, c, wait)
			if err != nil {
				return err
			}
			if err := output.Print(cmd.OutOrStdout(), f.format, status, status.table()); err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), status.words())
			if wait && status.Awaiting > 0 {
				return &config.ExitError{Code: config.ExitUnhealthy, Cause: fmt.Sprintf("%d partitions still await inventories", status.Awaiting), Fix: "start the missing brokers, or elect without them: skiff elect --awaiting"}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until every partition has been decided")
	return cmd
}

// awaitReports asks once, or until nothing waits any more or ctx ends.
func awaitReports(ctx context.Context, c *client.Client, wait bool) (awaitingStatus, error) {
	ticker := time.NewTicker(awaitingPoll)
	defer ticker.Stop()
	var last *awaitingStatus
	for {
		status, _, err := listAwaiting(ctx, c)
		switch {
		case err != nil && last != nil && ctx.Err() != nil:
			return *last, nil
		case err != nil:
			return awaitingStatus{}, err
		case !wait || status.Awaiting == 0:
			return status, nil
		}
		last = &status
		select {
		case <-ctx.Done():
			return status, nil
		case <-ticker.C:
		}
	}
}

// words sums the status up in a line.
func (s awaitingStatus) words() string {
	line := fmt.Sprintf("lineage %s, %s: %d partitions await inventories, %d were elected without all reports", s.Lineage, confirmedText(s.Confirmed), s.Awaiting, s.Elected)
	for _, b := range s.MissingBrokers {
		state := "is gone or has not come back"
		if b.Registered {
			state = "is registered and has not reported"
		}
		line += fmt.Sprintf("\nbroker %d %s: %d partitions wait for it", b.Broker, state, b.Partitions)
	}
	if s.WaitMs > 0 && s.Awaiting > 0 {
		line += fmt.Sprintf("\nelections without the missing brokers can be asked for in %s (skiff elect --awaiting), or at once with --now", (time.Duration(s.WaitMs) * time.Millisecond).Round(time.Second))
	}
	return line
}

func confirmedText(confirmed bool) string {
	if confirmed {
		return "confirmed"
	}
	return "not confirmed"
}
