package tool

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// topicAlter adds partitions and changes configs. Each is a request of its own, partitions first.
func (f *finder) topicAlter() *cobra.Command {
	var partitions int32
	var settings, removed []string
	dryRun := false
	cmd := &cobra.Command{
		Use: "alter NAME", Short: "Add partitions to a topic, or change its configs", Args: one,
		Example: "  skiff topic alter orders --partitions 12 --dry-run\n  skiff topic alter orders --config retention.ms=86400000 --delete-config segment.bytes",
		RunE: func(cmd *cobra.Command, args []string) error {
			changes, err := configChanges("set", settings)
			if err != nil {
				return err
			}
			less, err := configChanges("unset", removed)
			if err != nil {
				return err
			}
			changes = append(changes, less...)
			if partitions == 0 && len(changes) == 0 {
				return config.Usage(cmd.CommandPath()+" --help", "alter what?")
			}
			if partitions != 0 {
				if err := f.mutate(cmd, dryRun, addPartitions(args[0], partitions)); err != nil {
					return err
				}
			}
			if len(changes) == 0 {
				return nil
			}
			topic := configTarget{kind: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC, name: args[0]}
			return f.mutate(cmd, dryRun, alterConfigs(topic, changes))
		},
	}
	cmd.Flags().Int32Var(&partitions, "partitions", 0, "number of partitions that the topic shall have, more than now")
	cmd.Flags().StringArrayVar(&settings, "config", nil, "`KEY=VALUE` to set, may be repeated")
	cmd.Flags().StringArrayVar(&removed, "delete-config", nil, "`KEY` to take away, may be repeated")
	return dryRunFlag(cmd, &dryRun)
}

func addPartitions(topic string, count int32) mutation {
	return mutation{verb: "add partitions", ask: func(ctx context.Context, c *client.Client, dryRun bool) (outcome, error) {
		answer, err := c.CreatePartitions(ctx, &controllerv1.CreatePartitionsRequest{
			Context: operator("CreatePartitions"), ValidateOnly: dryRun, Topics: []*controllerv1.GrowingTopic{{Name: topic, Count: count}},
		})
		var out outcome
		for _, t := range answer.GetTopics() {
			out.items = append(out.items, item("topic "+t.GetName(), t.GetError()))
		}
		out.rehearsal = answer.GetRehearsal()
		return out, err
	}}
}

// rehearseCreate says what topic create would do. The request in earnest goes to a broker, as any client's does; the
// controller decides both alike.
func (f *finder) rehearseCreate(cmd *cobra.Command, names []string, partitions int32, replicas int16, configs map[string]*string) error {
	return f.mutate(cmd, true, mutation{verb: "create topics", ask: func(ctx context.Context, c *client.Client, dryRun bool) (outcome, error) {
		req := &controllerv1.CreateTopicsRequest{Context: operator("CreateTopics"), ValidateOnly: dryRun}
		for _, name := range names {
			topic := &controllerv1.CreatableTopic{Name: name, NumPartitions: partitions, ReplicationFactor: int32(replicas)}
			for _, key := range slices.Sorted(maps.Keys(configs)) {
				topic.Configs = append(topic.Configs, &controllerv1.TopicConfig{Key: key, Value: configs[key]})
			}
			req.Topics = append(req.Topics, topic)
		}
		answer, err := c.CreateTopics(ctx, req)
		var out outcome
		for _, t := range answer.GetTopics() {
			out.items = append(out.items, item("topic "+t.GetName(), t.GetError()))
		}
		out.rehearsal = answer.GetRehearsal()
		return out, err
	}})
}

// rehearseDelete says what topic delete would do.
func (f *finder) rehearseDelete(cmd *cobra.Command, names []string) error {
	return f.mutate(cmd, true, mutation{verb: "delete topics", ask: func(ctx context.Context, c *client.Client, dryRun bool) (outcome, error) {
		req := &controllerv1.DeleteTopicsRequest{Context: operator("DeleteTopics"), ValidateOnly: dryRun}
		for _, name := range names {
			req.Topics = append(req.Topics, &controllerv1.DeletableTopic{Name: name})
		}
		answer, err := c.DeleteTopics(ctx, req)
		var out outcome
		for _, t := range answer.GetTopics() {
			out.items = append(out.items, item(fmt.Sprintf("topic %s", t.GetName()), t.GetError()))
		}
		out.rehearsal = answer.GetRehearsal()
		return out, err
	}})
}
