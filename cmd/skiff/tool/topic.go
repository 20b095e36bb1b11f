package tool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/cmd/version"
	"github.com/skiffmq/skiff/fsm"
)

// topicCommand asks brokers over Kafka's own protocol, so it sees what any client sees and works with any Kafka.
func topicCommand() *cobra.Command {
	cmd := group("topic", "Create, list, describe, alter, delete and undelete topics")
	f := addFinder(cmd)
	cmd.AddCommand(f.topicCreate(), f.asOfFlag(f.topicList()), f.asOfFlag(f.topicDescribe()), f.topicAlter(), f.topicDelete(), f.topicUndelete())
	return cmd
}

// kafka runs what a command does with a client of the brokers.
func (f *finder) kafka(cmd *cobra.Command, do func(context.Context, *kadm.Client) error) error {
	ctx, cancel := f.within(cmd)
	defer cancel()
	return f.kafkaWith(ctx, do)
}

func (f *finder) kafkaWith(ctx context.Context, do func(context.Context, *kadm.Client) error) error {
	servers, err := f.brokers(ctx)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(servers...), kgo.SoftwareNameAndVersion("skiff", version.String()), kgo.RetryTimeout(f.timeout))
	if err != nil {
		return config.Usage("write --bootstrap-server host:port", "bootstrap server: %v", err)
	}
	defer cl.Close()
	err = do(ctx, kadm.NewClient(cl))
	var exit *config.ExitError
	if err == nil || errors.As(err, &exit) {
		return err
	}
	return &config.ExitError{
		Code: config.ExitFailed, Cause: fmt.Sprintf("brokers at %s: %v", strings.Join(servers, ", "), err),
		Fix: "are they up? `skiff broker list` asks the quorum", Err: err,
	}
}

// createdTopic is one topic in the output of create.
type createdTopic struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions int32  `json:"partitions"`
	Replicas   int16  `json:"replication_factor"`
}

func (f *finder) topicCreate() *cobra.Command {
	partitions, replicas := int32(-1), int16(-1)
	var settings []string
	dryRun := false
	cmd := &cobra.Command{
		Use: "create NAME...", Short: "Create topics", Args: some,
		Example: "  skiff topic create orders --partitions 6 --replication-factor 3 --config min.insync.replicas=2",
		RunE: func(cmd *cobra.Command, names []string) error {
			configs, err := parseSettings(settings)
			if err != nil {
				return err
			}
			if dryRun {
				return f.rehearseCreate(cmd, names, partitions, replicas, configs)
			}
			return f.kafka(cmd, func(ctx context.Context, admin *kadm.Client) error {
				answers, err := admin.CreateTopics(ctx, partitions, replicas, configs, names...)
				if err != nil {
					return err
				}
				var created []createdTopic
				var failed failures
				table := output.Rows{Head: []string{"name", "id", "partitions", "replication factor"}}
				for _, a := range answers.Sorted() {
					if a.Err != nil {
						failed.add(a.Topic, a.Err, a.ErrMessage)
						continue
					}
					created = append(created, createdTopic{Name: a.Topic, ID: topicID(a.ID), Partitions: a.NumPartitions, Replicas: a.ReplicationFactor})
					table.Add(a.Topic, topicID(a.ID), a.NumPartitions, a.ReplicationFactor)
				}
				return failed.after(cmd.OutOrStdout(), f.format, created, table)
			})
		},
	}
	cmd.Flags().Int32Var(&partitions, "partitions", -1, "number of partitions; -1 for the cluster's default")
	cmd.Flags().Int16Var(&replicas, "replication-factor", -1, "replicas of each partition; -1 for the cluster's default")
	cmd.Flags().StringArrayVar(&settings, "config", nil, "`KEY=VALUE` of the topic, may be repeated")
	return dryRunFlag(cmd, &dryRun)
}

// parseSettings reads KEY=VALUE, each key once.
func parseSettings(settings []string) (map[string]*string, error) {
	configs := make(map[string]*string)
	for _, s := range settings {
		key, value, found := strings.Cut(s, "=")
		if !found || key == "" {
			return nil, config.Usage("write --config key=value", "--config %q is not key=value", s)
		}
		if _, twice := configs[key]; twice {
			return nil, config.Usage("give it once", "--config %s is given twice", key)
		}
		configs[key] = &value
	}
	return configs, nil
}

// failures are the items of a command that failed while others did not.
type failures []string

func (f *failures) add(item string, err error, message string) {
	if message != "" {
		err = fmt.Errorf("%w: %s", err, message)
	}
	*f = append(*f, fmt.Sprintf("%s: %v", item, err))
}

// after prints what succeeded and returns what failed.
func (f failures) after(w io.Writer, format output.Format, value any, table output.Rows) error {
	if len(table.Lines) > 0 || len(f) == 0 {
		if err := output.Print(w, format, value, table); err != nil {
			return err
		}
	}
	if len(f) == 0 {
		return nil
	}
	return config.Failed("", "%s", strings.Join(f, "; "))
}

// topicID words an id as the rest of the tool does; a broker that does not tell it leaves it empty.
func topicID(id kadm.TopicID) string {
	if id == (kadm.TopicID{}) {
		return ""
	}
	return fsm.UUID(id).String()
}

// topicSummary is one topic in the output of list.
type topicSummary struct {
	Name            string `json:"name"`
	ID              string `json:"id"`
	Partitions      int    `json:"partitions"`
	Replicas        int    `json:"replication_factor"`
	UnderReplicated int    `json:"under_replicated"`
	Leaderless      int    `json:"leaderless"`
}

func (f *finder) topicList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List topics", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.asOf != "" {
				return f.listAsOf(cmd)
			}
			return f.kafka(cmd, func(ctx context.Context, admin *kadm.Client) error {
				topics, err := admin.ListTopicsWithInternal(ctx)
				if err != nil {
					return err
				}
				list := []topicSummary{}
				for _, t := range topics.Sorted() {
					list = append(list, summarise(t))
				}
				return output.Print(cmd.OutOrStdout(), f.format, list, topicTable(list))
			})
		},
	}
}

func topicTable(list []topicSummary) output.Rows {
	table := output.Rows{Head: []string{"name", "id", "partitions", "replication factor", "under-replicated", "leaderless"}}
	for _, s := range list {
		table.Add(s.Name, s.ID, s.Partitions, s.Replicas, s.UnderReplicated, s.Leaderless)
	}
	return table
}

func summarise(t kadm.TopicDetail) topicSummary {
	s := topicSummary{Name: t.Topic, ID: topicID(t.ID), Partitions: len(t.Partitions), Replicas: t.Partitions.NumReplicas()}
	for _, p := range t.Partitions {
		if len(p.ISR) < len(p.Replicas) {
			s.UnderReplicated++
		}
		if p.Leader < 0 {
			s.Leaderless++
		}
	}
	return s
}

// describedTopic is one topic in the output of describe.
type describedTopic struct {
	Name       string               `json:"name"`
	ID         string               `json:"id"`
	Configs    map[string]string    `json:"configs"`
	Partitions []describedPartition `json:"partitions"`
}

type describedPartition struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"`
	LeaderEpoch int32   `json:"leader_epoch"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`
	Offline     []int32 `json:"offline_replicas"`
}

func (f *finder) topicDescribe() *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME...", Short: "Describe topics and their partitions", Args: some,
		RunE: func(cmd *cobra.Command, names []string) error {
			if f.asOf != "" {
				return f.describeAsOf(cmd, names)
			}
			return f.kafka(cmd, func(ctx context.Context, admin *kadm.Client) error {
				topics, err := admin.ListTopicsWithInternal(ctx, names...)
				if err != nil {
					return err
				}
				configs, err := topicConfigs(ctx, admin, topics)
				if err != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), "warning: configs:", err)
				}
				var list []describedTopic
				var failed failures
				table := describedHead()
				for _, t := range topics.Sorted() {
					if t.Err != nil {
						failed.add(t.Topic, t.Err, "")
						continue
					}
					d := describe(t, configs[t.Topic])
					list = append(list, d)
					d.addTo(&table)
				}
				return failed.after(cmd.OutOrStdout(), f.format, list, table)
			})
		},
	}
}

// topicConfigs are the configs that were set on the topics themselves.
func topicConfigs(ctx context.Context, admin *kadm.Client, topics kadm.TopicDetails) (map[string]map[string]string, error) {
	var names []string
	for _, t := range topics.Sorted() {
		if t.Err == nil {
			names = append(names, t.Topic)
		}
	}
	if names == nil {
		return nil, nil
	}
	answers, err := admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, err
	}
	configs := make(map[string]map[string]string)
	for _, a := range answers {
		if a.Err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, a.Err)
		}
		configs[a.Name] = make(map[string]string)
		for _, c := range a.Configs {
			if c.Source.String() == "DYNAMIC_TOPIC_CONFIG" {
				configs[a.Name][c.Key] = c.MaybeValue()
			}
		}
	}
	return configs, nil
}

func describe(t kadm.TopicDetail, configs map[string]string) describedTopic {
	d := describedTopic{Name: t.Topic, ID: topicID(t.ID), Configs: configs}
	for _, p := range t.Partitions.Sorted() {
		d.Partitions = append(d.Partitions, describedPartition{
			Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR, Offline: p.OfflineReplicas,
		})
	}
	return d
}

func describedHead() output.Rows {
	return output.Rows{Head: []string{"topic", "partition", "leader", "leader epoch", "replicas", "isr", "offline", "configs"}}
}

func (d describedTopic) addTo(table *output.Rows) {
	var configs []string
	for _, key := range slices.Sorted(maps.Keys(d.Configs)) {
		configs = append(configs, key+"="+d.Configs[key])
	}
	for _, p := range d.Partitions {
		table.Add(d.Name, p.Partition, p.Leader, p.LeaderEpoch, ids(p.Replicas), ids(p.ISR), ids(p.Offline), strings.Join(configs, " "))
	}
}

// ids words a list of broker ids.
func ids(list []int32) string {
	words := make([]string, len(list))
	for i, id := range list {
		words[i] = fmt.Sprint(id)
	}
	return strings.Join(words, ",")
}

func (f *finder) topicDelete() *cobra.Command {
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use: "delete NAME...", Short: "Delete topics and all their records", Args: some,
		RunE: func(cmd *cobra.Command, names []string) error {
			if dryRun {
				return f.rehearseDelete(cmd, names)
			}
			if !yes {
				if err := confirm(cmd, fmt.Sprintf("delete %s with all records?", strings.Join(names, ", "))); err != nil {
					return err
				}
			}
			return f.kafka(cmd, func(ctx context.Context, admin *kadm.Client) error {
				answers, err := admin.DeleteTopics(ctx, names...)
				if err != nil {
					return err
				}
				deleted := []string{}
				var failed failures
				table := output.Rows{Head: []string{"deleted"}}
				for _, a := range answers.Sorted() {
					if a.Err != nil {
						failed.add(a.Topic, a.Err, a.ErrMessage)
						continue
					}
					deleted = append(deleted, a.Topic)
					table.Add(a.Topic)
				}
				return failed.after(cmd.OutOrStdout(), f.format, deleted, table)
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return dryRunFlag(cmd, &dryRun)
}

// confirm asks a person; a script, which has no terminal, is not asked.
func confirm(cmd *cobra.Command, question string) error {
	if _, err := unix.IoctlGetWinsize(int(os.Stdin.Fd()), unix.TIOCGWINSZ); err != nil {
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, err := bufio.NewReader(io.LimitReader(os.Stdin, 1024)).ReadString('\n')
	if err != nil || !strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y") {
		return config.Failed("answer y, or use --yes", "not confirmed")
	}
	return nil
}
