package tool

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// elect holds preferred or unclean elections.
func (f *finder) elect(cmd *cobra.Command, kind controllerv1.ElectionType, names []string, dryRun bool) error {
	var partitions []*controllerv1.TopicPartition
	for _, name := range names {
		topic, partition, err := parsePartition(name)
		if err != nil {
			return err
		}
		partitions = append(partitions, &controllerv1.TopicPartition{Topic: topic, PartitionId: partition})
	}
	return f.mutate(cmd, dryRun, mutation{verb: "elect", ask: func(ctx context.Context, c *client.Client, dryRun bool) (outcome, error) {
		answer, err := c.ElectLeaders(ctx, &controllerv1.ElectLeadersRequest{Context: operator("ElectLeaders"), Type: kind, Partitions: partitions, ValidateOnly: dryRun})
		out := outcome{rehearsal: answer.GetRehearsal()}
		for _, p := range answer.GetPartitions() {
			out.items = append(out.items, item(fmt.Sprintf("%s/%d", p.GetTopic(), p.GetPartitionId()), p.GetError()))
		}
		return out, err
	}})
}
