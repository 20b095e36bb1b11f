package tool

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/explain"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// storyEvents is how many events of a subject an explanation looks at.
const storyEvents = 20

func explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain TOPIC[/PARTITION] | broker ID",
		Short: "Say why something is as it is, and what would change it",
		Long: `Says why a partition has the leader and the ISR that it has, why a broker is fenced, or why a topic cannot be created, from the
metadata and from the quorum's history, and what must happen before that changes.

The exit code is 10 when what is explained is not healthy.`,
		Example: "  skiff explain orders/3\n  skiff explain broker 2\n  skiff explain orders --partitions 6 --replication-factor 3\n  skiff explain orders/3 --as-of 15m",
		Args:    cobra.RangeArgs(1, 2),
	}
	f := addFinder(cmd)
	f.asOfFlag(cmd)
	wanted := topicWish{partitions: -1, replicas: -1}
	cmd.Flags().Int32Var(&wanted.partitions, "partitions", wanted.partitions, "of a topic that shall be created")
	cmd.Flags().Int16Var(&wanted.replicas, "replication-factor", wanted.replicas, "of a topic that shall be created")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := f.within(cmd)
		defer cancel()
		list, err := f.explain(ctx, args, wanted)
		if err != nil {
			return err
		}
		return printExplanations(cmd, f.format, list)
	}
	return cmd
}

// topicWish is a topic that somebody wants to create.
type topicWish struct {
	partitions int32
	replicas   int16
}

func (f *finder) explain(ctx context.Context, args []string, wanted topicWish) ([]explain.Explanation, error) {
	if len(args) == 2 && args[0] != "broker" {
		return nil, config.Usage("skiff explain --help", "explain takes TOPIC, TOPIC/PARTITION or broker ID, got %q", args)
	}
	img, err := f.imageIn(ctx)
	if err != nil {
		return nil, err
	}
	if len(args) == 2 {
		id, err := parseBroker(args[1])
		if err != nil {
			return nil, err
		}
		facts := explain.Facts{Image: img}
		if facts.Fencings, err = f.fencings(ctx, img, []int32{id}); err != nil {
			return nil, err
		}
		return []explain.Explanation{explain.Broker(facts, id)}, nil
	}
	topic, partition, err := parseSubject(args[0])
	if err != nil {
		return nil, err
	}
	t, ok := img.TopicByName(topic)
	if !ok {
		e, err := f.explainMissing(ctx, img, topic, wanted)
		return []explain.Explanation{e}, err
	}
	return f.explainTopic(ctx, img, t, partition)
}

// explainTopic explains one partition, or all.
func (f *finder) explainTopic(ctx context.Context, img *fsm.Image, t *fsm.Topic, partition *int32) ([]explain.Explanation, error) {
	facts := explain.Facts{Image: img}
	var err error
	req := f.upTo(img, &quorumv1.HistoryRequest{Topic: t.Name(), PartitionId: partition, Newest: storyEvents})
	if facts.Events, _, _, err = f.history(ctx, req); err != nil {
		return nil, err
	}
	var absent []int32
	for b := range img.Brokers() {
		if b.Fenced {
			absent = append(absent, b.ID)
		}
	}
	if facts.Fencings, err = f.fencings(ctx, img, absent); err != nil {
		return nil, err
	}
	var list []explain.Explanation
	for n, p := range t.Partitions() {
		if partition == nil || *partition == n {
			list = append(list, explain.Partition(facts, t, n, p))
		}
	}
	if len(list) == 0 {
		return nil, config.Failed("skiff topic describe "+t.Name(), "topic %s has %d partitions and no %d", t.Name(), t.NumPartitions(), *partition)
	}
	return list, nil
}

// fencings are the events of brokers' registrations.
func (f *finder) fencings(ctx context.Context, img *fsm.Image, ids []int32) ([]*quorumv1.HistoryEvent, error) {
	var all []*quorumv1.HistoryEvent
	for _, id := range ids {
		events, _, _, err := f.history(ctx, f.upTo(img, &quorumv1.HistoryRequest{BrokerId: &id, Newest: 10 * storyEvents}))
		if err != nil {
			return nil, err
		}
		all = append(all, events...)
	}
	return all, nil
}

// upTo ends a request where the image ends.
func (f *finder) upTo(img *fsm.Image, req *quorumv1.HistoryRequest) *quorumv1.HistoryRequest {
	req.Until = &quorumv1.AsOf{Moment: &quorumv1.AsOf_MetadataOffset{MetadataOffset: img.AppliedOffset()}}
	return req
}

// explainMissing says what became of a topic, and whether it could be created now.
func (f *finder) explainMissing(ctx context.Context, img *fsm.Image, topic string, wanted topicWish) (explain.Explanation, error) {
	e := explain.Explanation{Subject: topic, State: "does not exist", Because: []string{}, Needs: []string{}}
	events, _, _, err := f.history(ctx, f.upTo(img, &quorumv1.HistoryRequest{Topic: topic, Newest: storyEvents}))
	if err != nil {
		return e, err
	}
	e.Story = explain.Topic(events, topic)
	if f.asOf != "" {
		return e, nil
	}
	return e, f.kafkaWith(ctx, func(ctx context.Context, admin *kadm.Client) error {
		answers, err := admin.ValidateCreateTopics(ctx, wanted.partitions, wanted.replicas, nil, topic)
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Err == nil {
				e.Needs = append(e.Needs, fmt.Sprintf("it can be created with %d partitions and %d replicas: skiff topic create %s", a.NumPartitions, a.ReplicationFactor, topic))
				continue
			}
			e.Because = append(e.Because, fmt.Sprintf("creating it is refused: %v: %s", a.Err, a.ErrMessage))
		}
		return nil
	})
}

// printExplanations prints them; what is not healthy makes the exit code 10.
func printExplanations(cmd *cobra.Command, format output.Format, list []explain.Explanation) error {
	var table output.Rows
	unhealthy := ""
	for _, e := range list {
		table.Add(e.Subject, e.State)
		for _, part := range []struct {
			name  string
			lines []string
		}{{"because", e.Because}, {"needs", e.Needs}, {"story", e.Story}} {
			for _, line := range part.lines {
				table.Add("  "+part.name, line)
			}
		}
		if !e.Healthy && unhealthy == "" {
			unhealthy = e.Subject
		}
	}
	if err := output.Print(cmd.OutOrStdout(), format, list, table); err != nil {
		return err
	}
	if unhealthy != "" {
		return &config.ExitError{Code: config.ExitUnhealthy, Cause: unhealthy + " is not as it should be"}
	}
	return nil
}
