package tool

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// confirmResult is what confirm prints.
type confirmResult struct {
	Lineage  string `json:"lineage"`
	Changed  bool   `json:"changed"`
	DryRun   bool   `json:"dry_run"`
	Awaiting int32  `json:"awaiting"`
	Elected  int32  `json:"elected_without_all_reports"`
}

func (f *finder) quorumConfirm() *cobra.Command {
	dryRun := false
	cmd := &cobra.Command{
		Use: "confirm", Short: "Accept users' changes again after a restore", Args: none,
		Long: `After a restore the cluster serves its clients and refuses every change that an operator or a client asks for, so that a wrong file
does no harm. This ends that time for the lineage that the quorum is of now. It cannot be taken back; repeating it changes nothing.
Partitions that still wait for brokers go on waiting.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := f.within(cmd)
			defer cancel()
			c, _, err := f.quorum()
			if err != nil {
				return err
			}
			defer c.Close()
			status, listed, err := listAwaiting(ctx, c)
			if err != nil {
				return err
			}
			answer, err := c.ConfirmLineage(ctx, &controllerv1.ConfirmLineageRequest{Lineage: listed.GetLineage(), ValidateOnly: dryRun})
			if err != nil {
				return refusedBy("confirm", err)
			}
			if refused := answer.GetError(); refused != nil {
				return config.Failed("look at skiff quorum awaiting and repeat the command", "confirm: %s", refused.GetMessage())
			}
			value := confirmResult{Lineage: status.Lineage, Changed: !dryRun && !answer.GetAlready(), DryRun: dryRun, Awaiting: answer.GetAwaiting(), Elected: status.Elected}
			table := output.Rows{Head: []string{"lineage", "changed", "awaiting", "elected without all reports"}}
			table.Add(value.Lineage, value.Changed, value.Awaiting, value.Elected)
			switch {
			case answer.GetAlready():
				fmt.Fprintln(cmd.ErrOrStderr(), "already confirmed, nothing changed")
			case dryRun:
				fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed; without --dry-run users' changes are accepted from then on, which cannot be taken back")
			}
			return output.Print(cmd.OutOrStdout(), f.format, value, table)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be confirmed; change nothing")
	return cmd
}

// electAwaitingResult is what elect --awaiting prints.
type electAwaitingResult struct {
	DryRun    bool               `json:"dry_run"`
	Elections []recoveryElection `json:"elections"`
	Refused   []string           `json:"refused"`
}

// electAwaiting elects leaders with the reports there are.
func (f *finder) electAwaiting(cmd *cobra.Command, names []string, now, dryRun bool) error {
	partitions, err := parsePartitions(names)
	if err != nil {
		return err
	}
	ctx, cancel := f.within(cmd)
	defer cancel()
	c, _, err := f.quorum()
	if err != nil {
		return err
	}
	defer c.Close()
	answer, err := c.ElectAwaiting(ctx, &controllerv1.ElectAwaitingRequest{Partitions: partitions, Now: now, ValidateOnly: dryRun})
	if err != nil {
		return refusedBy("elect", err)
	}
	if refused := answer.GetError(); refused != nil {
		return config.Failed("wait, or give --now", "elect: %s", refused.GetMessage())
	}
	value := electAwaitingResult{DryRun: dryRun, Elections: []recoveryElection{}, Refused: []string{}}
	table := awaitingStatus{}.table()
	for _, e := range answer.GetElections() {
		election := electionOf(e)
		value.Elections = append(value.Elections, election)
		election.addTo(&table)
	}
	for _, r := range answer.GetRefused() {
		value.Refused = append(value.Refused, fmt.Sprintf("%s/%d: %s", r.GetTopic(), r.GetPartitionId(), r.GetError().GetMessage()))
	}
	if dryRun {
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed; without --dry-run what the missing replicas have beyond the elected logs is lost")
	}
	if err := output.Print(cmd.OutOrStdout(), f.format, value, table); err != nil {
		return err
	}
	if len(value.Refused) > 0 {
		return config.Failed("skiff quorum awaiting lists what waits for whom", "%d partitions were refused: %s", len(value.Refused), strings.Join(value.Refused, "; "))
	}
	return nil
}

// parsePartitions reads TOPIC/PARTITION words.
func parsePartitions(names []string) ([]*controllerv1.TopicPartition, error) {
	list := make([]*controllerv1.TopicPartition, 0, len(names))
	for _, name := range names {
		at := strings.LastIndexByte(name, '/')
		if at <= 0 {
			return nil, config.Usage("write TOPIC/PARTITION, for example orders/0", "%q names no partition", name)
		}
		n, err := strconv.ParseInt(name[at+1:], 10, 32)
		if err != nil || n < 0 {
			return nil, config.Usage("write TOPIC/PARTITION, for example orders/0", "%q names no partition", name)
		}
		list = append(list, &controllerv1.TopicPartition{Topic: name[:at], PartitionId: int32(n)})
	}
	return list, nil
}
