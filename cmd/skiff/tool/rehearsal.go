package tool

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// mutation is one request that changes something: what it asks of the quorum, and how its answer is told.
type mutation struct {
	// verb words it in an error.
	verb string
	// ask makes the request, as a rehearsal or in earnest.
	ask func(ctx context.Context, c *client.Client, dryRun bool) (outcome, error)
}

// outcome is an answer: its items, and what a rehearsal showed.
type outcome struct {
	items     []itemOutcome
	rehearsal *controllerv1.Rehearsal
}

// itemOutcome is what became of one item of a request.
type itemOutcome struct {
	Item  string `json:"item"`
	Done  bool   `json:"done"`
	Error string `json:"error,omitempty"`
}

func item(name string, err *controllerv1.Error) itemOutcome {
	return itemOutcome{Item: name, Done: err == nil, Error: err.GetMessage()}
}

// mutate makes a change, or with --dry-run says what it would do.
func (f *finder) mutate(cmd *cobra.Command, dryRun bool, what mutation) error {
	ctx, cancel := f.within(cmd)
	defer cancel()
	c, _, err := f.quorum()
	if err != nil {
		return err
	}
	defer c.Close()
	out, err := what.ask(ctx, c, dryRun)
	if err != nil {
		return refusedBy(what.verb, err)
	}
	if dryRun {
		err = f.printRehearsal(cmd, out)
	} else {
		table := output.Rows{Head: []string{"item", "done"}}
		for _, i := range out.items {
			table.Add(i.Item, i.Done)
		}
		err = output.Print(cmd.OutOrStdout(), f.format, out.items, table)
	}
	if err != nil {
		return err
	}
	var refused []string
	for _, i := range out.items {
		if !i.Done {
			refused = append(refused, i.Item+": "+i.Error)
		}
	}
	if len(refused) > 0 {
		return config.Failed("", "%s: %s", what.verb, strings.Join(refused, "; "))
	}
	return nil
}

// rehearsedView is what --dry-run prints.
type rehearsedView struct {
	Items        []itemOutcome     `json:"items"`
	DecidedAt    int64             `json:"metadata_offset"`
	Records      []rehearsedRecord `json:"records"`
	Partitions   []rehearsedChange `json:"partitions"`
	Changed      int32             `json:"partitions_changed"`
	Brokers      []rehearsedLoad   `json:"brokers"`
	Before       rehearsedCluster  `json:"before"`
	After        rehearsedCluster  `json:"after"`
	Irreversible []string          `json:"irreversible"`
}

type rehearsedRecord struct {
	// Text is the record as JSON, with the names of its schema.
	Text string `json:"record"`
}

type rehearsedChange struct {
	Topic     string          `json:"topic"`
	Partition int32           `json:"partition"`
	Before    *rehearsedState `json:"before"`
	After     *rehearsedState `json:"after"`
}

type rehearsedState struct {
	Leader   int32   `json:"leader"`
	Replicas []int32 `json:"replicas"`
	ISR      []int32 `json:"isr"`
	Adding   []int32 `json:"adding"`
	Removing []int32 `json:"removing"`
	Racks    int32   `json:"racks"`
	Margin   int32   `json:"margin"`
}

type rehearsedLoad struct {
	Broker         int32  `json:"broker"`
	Rack           string `json:"rack"`
	LeadersBefore  int32  `json:"leaders_before"`
	LeadersAfter   int32  `json:"leaders_after"`
	ReplicasBefore int32  `json:"replicas_before"`
	ReplicasAfter  int32  `json:"replicas_after"`
}

type rehearsedCluster struct {
	Leaderless    int32 `json:"leaderless"`
	ActiveBrokers int32 `json:"active_brokers"`
	Controllers   int32 `json:"controllers"`
	QuorumMargin  int32 `json:"quorum_margin"`
	MinMargin     int32 `json:"smallest_isr_margin"`
}

func (f *finder) printRehearsal(cmd *cobra.Command, out outcome) error {
	view := rehearsedViewOf(out)
	fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed")
	return output.Print(cmd.OutOrStdout(), f.format, view, view.table())
}

func rehearsedViewOf(out outcome) rehearsedView {
	r := out.rehearsal
	view := rehearsedView{
		Items: out.items, DecidedAt: r.GetMetadataOffset(), Changed: r.GetPartitionsChanged(), Records: []rehearsedRecord{},
		Partitions: []rehearsedChange{}, Brokers: []rehearsedLoad{}, Irreversible: append([]string{}, r.GetIrreversible()...),
		Before: rehearsedClusterOf(r.GetBefore()), After: rehearsedClusterOf(r.GetAfter()),
	}
	for _, record := range r.GetRecords() {
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(record)
		if err != nil {
			text = []byte(record.String())
		}
		view.Records = append(view.Records, rehearsedRecord{Text: string(text)})
	}
	for _, p := range r.GetPartitions() {
		view.Partitions = append(view.Partitions, rehearsedChange{
			Topic: p.GetTopic(), Partition: p.GetPartitionId(), Before: rehearsedStateOf(p.GetBefore()), After: rehearsedStateOf(p.GetAfter()),
		})
	}
	for _, b := range r.GetBrokers() {
		view.Brokers = append(view.Brokers, rehearsedLoad{
			Broker: b.GetBrokerId(), Rack: b.GetRack(), LeadersBefore: b.GetLeadersBefore(), LeadersAfter: b.GetLeadersAfter(),
			ReplicasBefore: b.GetReplicasBefore(), ReplicasAfter: b.GetReplicasAfter(),
		})
	}
	return view
}

func rehearsedClusterOf(c *controllerv1.RehearsedCluster) rehearsedCluster {
	return rehearsedCluster{
		Leaderless: c.GetLeaderless(), ActiveBrokers: c.GetActiveBrokers(), Controllers: c.GetControllers(),
		QuorumMargin: c.GetQuorumMargin(), MinMargin: c.GetMinMargin(),
	}
}

func rehearsedStateOf(s *controllerv1.RehearsedState) *rehearsedState {
	if s == nil {
		return nil
	}
	return &rehearsedState{
		Leader: s.GetLeader(), Replicas: s.GetReplicas(), ISR: s.GetIsr(), Adding: s.GetAdding(), Removing: s.GetRemoving(),
		Racks: s.GetRacks(), Margin: s.GetMargin(),
	}
}

// table tells what people want to know first: what is lost, who leads, what the margins are, and the records last.
func (v rehearsedView) table() output.Rows {
	t := output.Rows{Head: []string{"what", "which", "before", "after"}}
	for _, i := range v.Items {
		if !i.Done {
			t.Add("refused", i.Item, i.Error, "")
		}
	}
	for _, text := range v.Irreversible {
		t.Add("cannot be undone", text, "", "")
	}
	for _, p := range v.Partitions {
		t.Add("partition", fmt.Sprintf("%s-%d", p.Topic, p.Partition), p.Before.text(), p.After.text())
	}
	if more := int(v.Changed) - len(v.Partitions); more > 0 {
		t.Add("partition", fmt.Sprintf("and %d more", more), "", "")
	}
	for _, b := range v.Brokers {
		t.Add("broker", fmt.Sprintf("%d %s", b.Broker, b.Rack), fmt.Sprintf("leads %d of %d", b.LeadersBefore, b.ReplicasBefore),
			fmt.Sprintf("leads %d of %d", b.LeadersAfter, b.ReplicasAfter))
	}
	t.Add("leaderless partitions", "", v.Before.Leaderless, v.After.Leaderless)
	t.Add("active brokers", "", v.Before.ActiveBrokers, v.After.ActiveBrokers)
	if v.Changed > 0 {
		t.Add("ISR members to spare", "smallest", v.Before.MinMargin, v.After.MinMargin)
	}
	t.Add("quorum nodes to spare", "", v.Before.QuorumMargin, v.After.QuorumMargin)
	for _, r := range v.Records {
		t.Add("record", r.Text, "", "")
	}
	return t
}

func (s *rehearsedState) text() string {
	if s == nil {
		return "none"
	}
	text := fmt.Sprintf("leader %d, replicas %s, isr %s, %d racks", s.Leader, ids(s.Replicas), ids(s.ISR), s.Racks)
	if len(s.Adding)+len(s.Removing) > 0 {
		text += fmt.Sprintf(", adding %s, removing %s", ids(s.Adding), ids(s.Removing))
	}
	return text
}

// dryRunFlag adds --dry-run to a mutation.
func dryRunFlag(cmd *cobra.Command, dryRun *bool) *cobra.Command {
	cmd.Flags().BoolVar(dryRun, "dry-run", false, "say what would be changed, and what could not be undone; change nothing")
	return cmd
}
