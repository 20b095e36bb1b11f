package tool

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// configVerbs are the verbs of `skiff config` that are about a running cluster.
func configVerbs() []*cobra.Command {
	return []*cobra.Command{configGet(), configChange("set", "KEY=VALUE..."), configChange("unset", "KEY...")}
}

// configTarget is what a config is of.
type configTarget struct {
	kind metadatav1.ConfigResourceType
	name string
	// rest of the arguments.
	rest []string
}

// parseTarget reads "topic NAME ...", "broker ID ..." or "cluster ...".
func parseTarget(args []string) (configTarget, error) {
	const usage = "write topic NAME, broker ID or cluster"
	if len(args) == 0 {
		return configTarget{}, config.Usage(usage, "configs of what?")
	}
	broker := metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER
	switch {
	case args[0] == "cluster":
		return configTarget{kind: broker, rest: args[1:]}, nil
	case len(args) < 2:
		return configTarget{}, config.Usage(usage, "which %s?", args[0])
	case args[0] == "topic":
		return configTarget{kind: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC, name: args[1], rest: args[2:]}, nil
	case args[0] == "broker":
		if _, err := strconv.ParseInt(args[1], 10, 32); err != nil {
			return configTarget{}, config.Usage("skiff broker list", "%q is no broker id", args[1])
		}
		return configTarget{kind: broker, name: args[1], rest: args[2:]}, nil
	}
	return configTarget{}, config.Usage(usage, "there are no configs of %q", args[0])
}

func (t configTarget) String() string {
	switch {
	case t.kind == metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC:
		return "topic " + t.name
	case t.name == "":
		return "cluster"
	}
	return "broker " + t.name
}

// configValue is one key in the output of get.
type configValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func configGet() *cobra.Command {
	cmd := &cobra.Command{
		Use: "get topic NAME|broker ID|cluster [KEY...]", Short: "Show the configs in force, and where each comes from", Args: some,
		Example: "  skiff config get topic orders\n  skiff config get broker 1 log.retention.ms\n  skiff config get cluster",
	}
	f := addFinder(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		target, err := parseTarget(args)
		if err != nil {
			return err
		}
		return f.kafka(cmd, func(ctx context.Context, admin *kadm.Client) error {
			described, err := target.describe(ctx, admin)
			if err != nil {
				return err
			}
			if described.Err != nil {
				return config.Failed("", "%s: %v", target, described.Err)
			}
			values := []configValue{}
			table := output.Rows{Head: []string{"key", "value", "source"}}
			for _, c := range described.Configs {
				if len(target.rest) > 0 && !slices.Contains(target.rest, c.Key) {
					continue
				}
				values = append(values, configValue{Key: c.Key, Value: c.MaybeValue(), Source: c.Source.String()})
				table.Add(c.Key, c.MaybeValue(), c.Source)
			}
			return output.Print(cmd.OutOrStdout(), f.format, values, table)
		})
	}
	return cmd
}

// describe asks for the configs of one resource.
func (t configTarget) describe(ctx context.Context, admin *kadm.Client) (kadm.ResourceConfig, error) {
	var answers kadm.ResourceConfigs
	var err error
	switch {
	case t.kind == metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC:
		answers, err = admin.DescribeTopicConfigs(ctx, t.name)
	case t.name == "":
		answers, err = admin.DescribeBrokerConfigs(ctx)
	default:
		var id int64
		if id, err = strconv.ParseInt(t.name, 10, 32); err == nil {
			answers, err = admin.DescribeBrokerConfigs(ctx, int32(id))
		}
	}
	if err != nil {
		return kadm.ResourceConfig{}, err
	}
	if len(answers) != 1 {
		return kadm.ResourceConfig{}, fmt.Errorf("%d answers for %s", len(answers), t)
	}
	return answers[0], nil
}

// configChange is set or unset.
func configChange(verb, what string) *cobra.Command {
	dryRun := false
	cmd := &cobra.Command{
		Use: verb + " topic NAME|broker ID|cluster " + what, Short: map[string]string{"set": "Set configs", "unset": "Take configs away, so that defaults are in force"}[verb], Args: some,
		Example: map[string]string{
			"set":   "  skiff config set topic orders retention.ms=86400000\n  skiff config set cluster log.retention.ms=86400000 --dry-run",
			"unset": "  skiff config unset topic orders retention.ms",
		}[verb],
	}
	f := addFinder(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		target, err := parseTarget(args)
		if err != nil {
			return err
		}
		if len(target.rest) == 0 {
			return config.Usage(cmd.CommandPath()+" --help", "%s what?", verb)
		}
		changes, err := configChanges(verb, target.rest)
		if err != nil {
			return err
		}
		return f.mutate(cmd, dryRun, alterConfigs(target, changes))
	}
	return dryRunFlag(cmd, &dryRun)
}

func configChanges(verb string, words []string) ([]*controllerv1.ConfigChange, error) {
	var changes []*controllerv1.ConfigChange
	for _, word := range words {
		if verb == "unset" {
			changes = append(changes, &controllerv1.ConfigChange{Key: word, Operation: controllerv1.ConfigOperation_CONFIG_OPERATION_DELETE})
			continue
		}
		key, value, found := strings.Cut(word, "=")
		if !found || key == "" {
			return nil, config.Usage("write key=value", "%q is not key=value", word)
		}
		changes = append(changes, &controllerv1.ConfigChange{Key: key, Operation: controllerv1.ConfigOperation_CONFIG_OPERATION_SET, Value: proto.String(value)})
	}
	return changes, nil
}

// alterConfigs changes the configs of one resource.
func alterConfigs(target configTarget, changes []*controllerv1.ConfigChange) mutation {
	return mutation{verb: "change configs", ask: func(ctx context.Context, c *client.Client, dryRun bool) (outcome, error) {
		answer, err := c.AlterConfigs(ctx, &controllerv1.AlterConfigsRequest{
			Context: operator("AlterConfigs"), ValidateOnly: dryRun,
			Resources: []*controllerv1.AlterConfigsResource{{Type: int32(target.kind), Name: target.name, Changes: changes}},
		})
		var out outcome
		for _, r := range answer.GetResources() {
			out.items = append(out.items, item(target.String(), r.GetError()))
		}
		out.rehearsal = answer.GetRehearsal()
		return out, err
	}}
}
