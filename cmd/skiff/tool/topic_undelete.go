package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// strayTopic is a topic that is gone, in the output of undelete --list.
type strayTopic struct {
	ID         string `json:"topic_id"`
	Name       string `json:"name"`
	Partitions int32  `json:"partitions"`
	// Held is how many of them some broker holds.
	Held     int    `json:"held_partitions"`
	Replicas int    `json:"replicas"`
	Bytes    int64  `json:"bytes"`
	Since    string `json:"since"`
}

// undeleted is what undelete prints.
type undeleted struct {
	ID             string   `json:"topic_id"`
	Name           string   `json:"name"`
	Partitions     int32    `json:"partitions"`
	Empty          []int32  `json:"empty_partitions"`
	DroppedConfigs []string `json:"dropped_configs"`
	DryRun         bool     `json:"dry_run"`
}

// undeleting is one run of undelete.
type undeleting struct {
	f            *finder
	id, name     string
	list, dryRun bool
}

func (f *finder) topicUndelete() *cobra.Command {
	u := &undeleting{f: f}
	cmd := &cobra.Command{
		Use:   "undelete NAME | undelete --id ID [--name NEW] | undelete --list",
		Short: "Bring a topic back from what brokers still hold of it",
		Long: `Brokers keep the replicas of a topic that is gone, by default for a day: because it was deleted, or because a restored snapshot did not know
it. This brings it back under its old id, with its partitions, its configs and its records. Each broker gives its replica its place
again, and the one with the longest log leads. --list lists what can be brought back.

Two topics may have had one name; then, and when nobody knows the name any more, say --id. With --id, --name gives it another name.`,
		Example: "  skiff topic undelete --list --controllers c1:9093\n  skiff topic undelete orders --controllers c1:9093\n" +
			"  skiff topic undelete --id q83vEjRWeJASNFZ4kBI0Vg --name orders-rescued --controllers c1:9093",
		Args: u.read,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := f.within(cmd)
			defer cancel()
			c, _, err := f.quorum()
			if err != nil {
				return err
			}
			defer c.Close()
			if u.list {
				return u.printList(ctx, cmd, c)
			}
			return u.bringBack(ctx, cmd, c)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&u.list, "list", false, "list the topics that can be brought back")
	flags.StringVar(&u.id, "id", "", "`ID` of the topic")
	flags.StringVar(&u.name, "name", "", "`NAME` that the topic of --id shall have; its old one by default")
	flags.BoolVar(&u.dryRun, "dry-run", false, "say what would come back; change nothing")
	return cmd
}

// read judges the command line.
func (u *undeleting) read(cmd *cobra.Command, args []string) error {
	wrong := func(format string, args ...any) error {
		return config.Usage(cmd.CommandPath()+" --help", format, args...)
	}
	switch {
	case len(args) > 1:
		return wrong("%s takes one topic, got %d", cmd.CommandPath(), len(args))
	case u.list && (len(args) > 0 || u.id != ""):
		return wrong("--list takes no topic")
	case u.list:
	case len(args) == 1 && u.id != "":
		return wrong("name the topic by its name or by --id, not by both")
	case len(args) == 0 && u.id == "":
		return wrong("name the topic, or give --list")
	case len(args) == 1 && u.name != "":
		return wrong("--name goes with --id")
	case len(args) == 1:
		u.name = args[0]
	}
	return nil
}

func (u *undeleting) printList(ctx context.Context, cmd *cobra.Command, c *client.Client) error {
	answer, err := c.ListStrays(ctx, &controllerv1.ListStraysRequest{Context: operator("ListStrays")})
	if err != nil {
		return refusedBy("list strays", err)
	}
	list := []strayTopic{}
	table := output.Rows{Head: []string{"topic", "id", "partitions", "held", "replicas", "bytes", "since"}}
	for _, t := range answer.GetTopics() {
		s := summariseStray(t)
		list = append(list, s)
		table.Add(s.Name, s.ID, s.Partitions, s.Held, s.Replicas, s.Bytes, s.Since)
	}
	if missing := answer.GetMissingBrokers(); len(missing) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: the brokers %v have not said what they hold; there may be more\n", missing)
	}
	return output.Print(cmd.OutOrStdout(), u.f.format, list, table)
}

func summariseStray(t *controllerv1.StrayTopic) strayTopic {
	s := strayTopic{ID: rawIDText(t.GetTopicId()), Name: t.GetName(), Partitions: t.GetNumPartitions(), Replicas: len(t.GetReplicas())}
	held, since := map[int32]bool{}, int64(0)
	for _, r := range t.GetReplicas() {
		held[r.GetPartitionId()] = true
		s.Bytes += r.GetSizeBytes()
		since = max(since, r.GetSinceMs())
	}
	s.Held, s.Since = len(held), time.UnixMilli(since).UTC().Format(time.RFC3339)
	return s
}

func rawIDText(raw []byte) string {
	id, err := fsm.UUIDFromBytes(raw)
	if err != nil {
		return ""
	}
	return id.String()
}

func (u *undeleting) bringBack(ctx context.Context, cmd *cobra.Command, c *client.Client) error {
	req := &controllerv1.UndeleteTopicRequest{Context: operator("UndeleteTopic"), Name: u.name, ValidateOnly: u.dryRun}
	if u.id != "" {
		id, err := fsm.ParseUUID(u.id)
		if err != nil {
			return config.Usage("skiff topic undelete --list", "%q is no topic id: %v", u.id, err)
		}
		req.TopicId = id.Bytes()
	}
	answer, err := c.UndeleteTopic(ctx, req)
	if err != nil {
		return refusedBy("undelete", err)
	}
	if refused := answer.GetError(); refused != nil {
		return config.Failed("skiff topic undelete --list", "undelete: %s", refused.GetMessage())
	}
	value := undeleted{
		ID: rawIDText(answer.GetTopicId()), Name: answer.GetName(), Partitions: answer.GetNumPartitions(), DryRun: u.dryRun,
		Empty: append([]int32{}, answer.GetEmptyPartitions()...), DroppedConfigs: append([]string{}, answer.GetDroppedConfigs()...),
	}
	if len(value.Empty) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: no broker holds a replica of the partitions %v; they begin empty\n", value.Empty)
	}
	if len(value.DroppedConfigs) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: these configs are not accepted any more and are left out:", strings.Join(value.DroppedConfigs, ", "))
	}
	if u.dryRun {
		fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed")
	}
	table := output.Rows{Head: []string{"topic", "id", "partitions", "empty"}}
	table.Add(value.Name, value.ID, value.Partitions, len(value.Empty))
	return output.Print(cmd.OutOrStdout(), u.f.format, value, table)
}
