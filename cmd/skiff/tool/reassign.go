package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/client"
	"github.com/skiffmq/skiff/quorum/controller"
)

func reassignCommand() *cobra.Command {
	cmd := group("reassign", "Move replicas between brokers")
	f := addFinder(cmd)
	cmd.AddCommand(f.reassignPlan(), f.reassignApply(), f.reassignList(), f.reassignCancel())
	return cmd
}

// plannedMove is one partition of a plan. A plan is a JSON list of them: plan prints it, apply reads it.
type plannedMove struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	From      []int32 `json:"from"`
	To        []int32 `json:"to"`
	// Copied are the replicas that have to be copied; a move that copies none only changes the order.
	Copied []int32 `json:"copied"`
}

func (f *finder) reassignPlan() *cobra.Command {
	var o controller.PlanOptions
	var exclude []int
	cmd := &cobra.Command{
		Use: "plan", Short: "Say which moves would spread replicas and leaders evenly over brokers and racks", Args: none,
		Long: `Plans the fewest moves after which replicas and preferred leaders are spread evenly over the brokers that are up, with the replicas of each
partition in different racks as far as there are racks. Nothing is changed; -o json prints what apply reads.`,
		Example: "  skiff reassign plan\n  skiff reassign plan --exclude-broker 3 -o json > plan.json && skiff reassign apply plan.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			img, err := f.image(cmd)
			if err != nil {
				return err
			}
			for _, id := range exclude {
				o.Exclude = append(o.Exclude, int32(id)) //nolint:gosec // an id that is none matches nothing
			}
			moves, err := controller.Plan(img, o)
			if err != nil {
				return config.Failed("skiff broker list", "plan: %v", err)
			}
			plan := []plannedMove{}
			table := output.Rows{Head: []string{"topic", "partition", "from", "to", "copied"}}
			copied := 0
			for _, m := range moves {
				plan = append(plan, plannedMove{Topic: m.Topic, Partition: m.Partition, From: m.From, To: m.To, Copied: append([]int32{}, m.Added()...)})
				copied += len(m.Added())
				table.Add(m.Topic, m.Partition, ids(m.From), ids(m.To), ids(m.Added()))
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%d partitions change, %d replicas are copied\n", len(moves), copied)
			return output.Print(cmd.OutOrStdout(), f.format, plan, table)
		},
	}
	cmd.Flags().StringSliceVar(&o.Topics, "topic", nil, "`NAME` of a topic to place anew, may be repeated; without it all of them")
	cmd.Flags().IntSliceVar(&exclude, "exclude-broker", nil, "`ID` of a broker to empty, may be repeated")
	return cmd
}

// planBytesMax bounds a file with a plan (I20).
const planBytesMax = 64 << 20

func (f *finder) reassignApply() *cobra.Command {
	dryRun := false
	cmd := &cobra.Command{
		Use: "apply FILE|-", Short: "Start the moves of a plan", Args: one,
		Long: "Reads what `skiff reassign plan -o json` prints, or a list of your own: topic, partition and to are what counts.",
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := readPlan(cmd, args[0])
			if err != nil {
				return err
			}
			var wishes []*controllerv1.Reassignment
			for _, m := range plan {
				wishes = append(wishes, &controllerv1.Reassignment{Topic: m.Topic, PartitionId: m.Partition, Replicas: &metadatav1.BrokerIDs{Ids: m.To}})
			}
			return f.mutate(cmd, dryRun, alterReassignments("reassign", wishes))
		},
	}
	return dryRunFlag(cmd, &dryRun)
}

func readPlan(cmd *cobra.Command, path string) ([]plannedMove, error) {
	in := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, config.Usage("name a file with a plan, or - for stdin", "%v", err)
		}
		defer file.Close()
		in = file
	}
	var plan []plannedMove
	decoder := json.NewDecoder(io.LimitReader(in, planBytesMax))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&plan); err != nil {
		return nil, config.Usage("skiff reassign plan -o json", "%s is no plan: %v", path, err)
	}
	for _, m := range plan {
		if len(m.To) == 0 {
			return nil, config.Usage("give every partition the replicas that it shall have", "%s-%d has no \"to\"", m.Topic, m.Partition)
		}
	}
	return plan, nil
}

func alterReassignments(verb string, wishes []*controllerv1.Reassignment) mutation {
	return mutation{verb: verb, ask: func(ctx context.Context, c *client.Client, dryRun bool) (outcome, error) {
		answer, err := c.AlterReassignments(ctx, &controllerv1.AlterReassignmentsRequest{
			Context: operator("AlterPartitionReassignments"), ValidateOnly: dryRun, Partitions: wishes,
		})
		out := outcome{rehearsal: answer.GetRehearsal()}
		for _, p := range answer.GetPartitions() {
			out.items = append(out.items, item(fmt.Sprintf("%s/%d", p.GetTopic(), p.GetPartitionId()), p.GetError()))
		}
		return out, err
	}}
}

// movingPartition is one partition in the output of list.
type movingPartition struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Leader    int32    `json:"leader"`
	Replicas  []int32  `json:"replicas"`
	ISR       []int32  `json:"isr"`
	Adding    []int32  `json:"adding"`
	Removing  []int32  `json:"removing"`
	Waits     []string `json:"waits_for"`
}

func (f *finder) reassignList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the moves that are running, and what each waits for", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			img, err := f.image(cmd)
			if err != nil {
				return err
			}
			list := []movingPartition{}
			table := output.Rows{Head: []string{"topic", "partition", "leader", "replicas", "isr", "adding", "removing", "waits for"}}
			for topic := range img.Topics() {
				for i, p := range topic.Partitions() {
					if len(p.Adding)+len(p.Removing) == 0 {
						continue
					}
					m := movingPartition{
						Topic: topic.Name(), Partition: i, Leader: p.Leader, Replicas: p.Replicas, ISR: p.ISR,
						Adding: append([]int32{}, p.Adding...), Removing: append([]int32{}, p.Removing...), Waits: waitsFor(img, p),
					}
					list = append(list, m)
					table.Add(m.Topic, m.Partition, m.Leader, ids(m.Replicas), ids(m.ISR), ids(m.Adding), ids(m.Removing), strings.Join(m.Waits, "; "))
				}
			}
			return output.Print(cmd.OutOrStdout(), f.format, list, table)
		},
	}
}

// waitsFor says what keeps a move from being complete.
func waitsFor(img *fsm.Image, p fsm.Partition) []string {
	var waits []string
	if p.Leader == fsm.NoLeader {
		waits = append(waits, fmt.Sprintf("the partition has no leader to copy from; one of %s must come back", ids(p.ISR)))
	}
	stays := slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return slices.Contains(p.Removing, id) })
	required := p.Adding
	if len(p.Adding) < len(p.Removing) {
		required = stays
	}
	for _, id := range required {
		if slices.Contains(p.ISR, id) {
			continue
		}
		b, registered := img.Broker(id)
		switch {
		case !registered:
			waits = append(waits, fmt.Sprintf("broker %d is not registered", id))
		case b.Fenced:
			waits = append(waits, fmt.Sprintf("broker %d is fenced", id))
		case b.InControlledShutdown:
			waits = append(waits, fmt.Sprintf("broker %d is shutting down", id))
		default:
			waits = append(waits, fmt.Sprintf("broker %d is catching up", id))
		}
	}
	if p.Recovering {
		waits = append(waits, "the leader is recovering from an unclean election")
	}
	return waits
}

func (f *finder) reassignCancel() *cobra.Command {
	dryRun, all := false, false
	cmd := &cobra.Command{
		Use: "cancel TOPIC/PARTITION...", Short: "Cancel moves that are running", Args: partitionNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return config.Usage("name partitions, or use --all", "which moves?")
			}
			var wishes []*controllerv1.Reassignment
			for _, arg := range args {
				topic, partition, err := parsePartition(arg)
				if err != nil {
					return err
				}
				wishes = append(wishes, &controllerv1.Reassignment{Topic: topic, PartitionId: partition})
			}
			if all {
				img, err := f.image(cmd)
				if err != nil {
					return err
				}
				wishes = allMoving(img)
			}
			return f.mutate(cmd, dryRun, alterReassignments("cancel", wishes))
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "cancel every move")
	return dryRunFlag(cmd, &dryRun)
}

func allMoving(img *fsm.Image) []*controllerv1.Reassignment {
	var wishes []*controllerv1.Reassignment
	for topic := range img.Topics() {
		for i, p := range topic.Partitions() {
			if len(p.Adding)+len(p.Removing) > 0 {
				wishes = append(wishes, &controllerv1.Reassignment{Topic: topic.Name(), PartitionId: i})
			}
		}
	}
	return wishes
}

// partitionNames wants every argument to name a partition.
func partitionNames(_ *cobra.Command, args []string) error {
	for _, arg := range args {
		if _, _, err := parsePartition(arg); err != nil {
			return err
		}
	}
	return nil
}

// parsePartition reads TOPIC/PARTITION.
func parsePartition(text string) (string, int32, error) {
	topic, number, found := strings.Cut(text, "/")
	n, err := strconv.ParseInt(number, 10, 32)
	if !found || topic == "" || err != nil || n < 0 {
		return "", 0, config.Usage("write TOPIC/PARTITION, for example orders/0", "%q names no partition", text)
	}
	return topic, int32(n), nil
}
