package tool

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// historyLine is one change in the output of history.
type historyLine struct {
	Time            string `json:"time"`
	MetadataOffset  int64  `json:"metadata_offset"`
	ControllerEpoch int64  `json:"controller_epoch"`
	Kind            string `json:"kind"`
	Subject         string `json:"subject"`
	Change          string `json:"change"`
	Before          string `json:"before"`
	After           string `json:"after"`
	ReasonCode      string `json:"reason_code"`
	Reason          string `json:"reason"`
	Principal       string `json:"principal"`
	ClientAddress   string `json:"client_address"`
	Request         string `json:"request"`
}

func historyCommand() *cobra.Command {
	var since, until string
	newest := int32(100)
	cmd := &cobra.Command{
		Use:   "history [TOPIC[/PARTITION] | broker ID]",
		Short: "Tell what changed, when, by whose decision and why",
		Long: `Tells the changes of the metadata, oldest first, out of the history that a quorum node keeps: of all of it, of a topic, of a
partition, or of a broker and the partitions that it leads or replicates.

--since and --until take a metadata offset, a time (RFC 3339), or a duration before now (15m).`,
		Example: "  skiff history\n  skiff history orders/3 --since 1h\n  skiff history broker 2 -o json",
		Args:    cobra.MaximumNArgs(2),
	}
	f := addFinder(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req, err := historyRequest(args, since, until)
		if err != nil {
			return err
		}
		req.Newest = newest
		ctx, cancel := f.within(cmd)
		defer cancel()
		events, gaps, end, err := f.history(ctx, req)
		if err != nil {
			return err
		}
		for _, g := range gaps {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: node %d has no events from metadata offset %d to %d: it was given a snapshot instead\n", end.GetNodeId(), g.GetFrom(), g.GetNext()-1)
		}
		if n := end.GetLeftOut(); n > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%d older events are left out; see them with --newest or --until\n", n)
		}
		lines, table := historyLines(events)
		return output.Print(cmd.OutOrStdout(), f.format, lines, table)
	}
	cmd.Flags().StringVar(&since, "since", "", "first `MOMENT`: an offset, a time, or a duration before now")
	cmd.Flags().StringVar(&until, "until", "", "last `MOMENT`")
	cmd.Flags().Int32Var(&newest, "newest", newest, "most events that are told, the newest ones")
	return cmd
}

// historyRequest reads the subject and the span.
func historyRequest(args []string, since, until string) (*quorumv1.HistoryRequest, error) {
	req := &quorumv1.HistoryRequest{}
	var err error
	if since != "" {
		if req.From, err = parseMoment(since, time.Now()); err != nil {
			return nil, err
		}
	}
	if until != "" {
		if req.Until, err = parseMoment(until, time.Now()); err != nil {
			return nil, err
		}
	}
	switch {
	case len(args) == 2 && args[0] == "broker":
		id, err := parseBroker(args[1])
		if err != nil {
			return nil, err
		}
		req.BrokerId = &id
	case len(args) == 2:
		return nil, config.Usage("skiff history --help", "history takes TOPIC, TOPIC/PARTITION or broker ID, got %q", args)
	case len(args) == 1:
		topic, partition, err := parseSubject(args[0])
		if err != nil {
			return nil, err
		}
		req.Topic, req.PartitionId = topic, partition
	}
	return req, nil
}

func parseBroker(text string) (int32, error) {
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil || id < 0 {
		return 0, config.Usage("skiff broker list", "%q is no broker id", text)
	}
	return int32(id), nil
}

// parseSubject reads TOPIC or TOPIC/PARTITION. No topic name has a slash.
func parseSubject(text string) (topic string, partition *int32, err error) {
	topic, number, whole := strings.Cut(text, "/")
	if err := fsm.CheckTopicName(topic); err != nil {
		return "", nil, config.Usage("write TOPIC or TOPIC/PARTITION", "%v", err)
	}
	if !whole {
		return topic, nil, nil
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 0 {
		return "", nil, config.Usage("write TOPIC/PARTITION, for example orders/3", "%q is no partition number", number)
	}
	p := int32(n)
	return topic, &p, nil
}

// parseMoment reads a metadata offset, a time, or a duration before now.
func parseMoment(text string, now time.Time) (*quorumv1.AsOf, error) {
	if offset, err := strconv.ParseInt(text, 10, 64); err == nil && offset >= 0 {
		return &quorumv1.AsOf{Moment: &quorumv1.AsOf_MetadataOffset{MetadataOffset: offset}}, nil
	}
	at := func(t time.Time) *quorumv1.AsOf {
		return &quorumv1.AsOf{Moment: &quorumv1.AsOf_TimeMs{TimeMs: t.UnixMilli()}}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return at(now.Add(-d)), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at(t), nil
	}
	return nil, config.Usage("write a metadata offset (8123), a time (2026-01-31T15:04:05Z) or a duration before now (15m)", "%q is no moment", text)
}

func historyLines(events []*quorumv1.HistoryEvent) ([]historyLine, output.Rows) {
	lines := []historyLine{}
	table := output.Rows{Head: []string{"time", "offset", "epoch", "change", "because", "request"}}
	for _, e := range events {
		for _, c := range e.GetChanges() {
			l := historyLine{
				Time: time.UnixMilli(e.GetTimeMs()).UTC().Format("2006-01-02T15:04:05.000Z"), MetadataOffset: e.GetMetadataOffset(),
				ControllerEpoch: e.GetControllerEpoch(), Kind: c.GetKind(), Subject: c.GetSubject(), Change: c.GetText(), Before: c.GetBefore(), After: c.GetAfter(),
				ReasonCode: e.GetReason().GetCode(), Reason: e.GetReason().GetText(),
				Principal: e.GetCause().GetPrincipal(), ClientAddress: e.GetCause().GetClientAddress(), Request: e.GetCause().GetRequestKind(),
			}
			lines = append(lines, l)
			table.Add(l.Time, l.MetadataOffset, l.ControllerEpoch, l.Change, l.Reason, strings.TrimSpace(l.Request+" "+l.ClientAddress))
		}
		if n := e.GetChangesLeftOut(); n > 0 {
			table.Add("", e.GetMetadataOffset(), e.GetControllerEpoch(), fmt.Sprintf("and %d more changes of this decision", n), "", "")
		}
	}
	return lines, table
}

// history asks the quorum's nodes in turn, the active controller first, until one can tell.
func (f *finder) history(ctx context.Context, req *quorumv1.HistoryRequest) (events []*quorumv1.HistoryEvent, gaps []*quorumv1.HistoryGap, end *quorumv1.HistoryEnd, err error) {
	err = f.oneThatCan(ctx, "history", func(c *client.Client, address string) error {
		events, gaps = nil, nil
		end, err = c.History(ctx, address, req, func(part *quorumv1.HistoryResponse) error {
			if e := part.GetEvent(); e != nil {
				events = append(events, e)
			} else if g := part.GetGap(); g != nil {
				gaps = append(gaps, g)
			}
			return nil
		})
		return err
	})
	return events, gaps, end, err
}

// oneThatCan asks the quorum's nodes in turn, the active controller first, until one answers without an error.
func (f *finder) oneThatCan(ctx context.Context, what string, ask func(c *client.Client, address string) error) error {
	c, controllers, err := f.quorum()
	if err != nil {
		return err
	}
	defer c.Close()
	status := askAll(ctx, c, controllers)
	var faults error
	for _, wantActive := range []bool{true, false} {
		for _, n := range status.Nodes {
			if n.Active != wantActive || n.State == unreachable {
				continue
			}
			err := ask(c, n.Address)
			if err == nil {
				return nil
			}
			faults = errors.Join(faults, err)
		}
	}
	if faults == nil {
		return config.Failed("are they up? `skiff quorum status` asks each", "no answer from the quorum at %s", strings.Join(controllers, ", "))
	}
	return refusedBy(what, faults)
}

// asOfFlag adds --as-of to a command that reads the metadata.
func (f *finder) asOfFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&f.asOf, "as-of", "", "look at an earlier `MOMENT`: a metadata offset, a time, or a duration before now")
	return cmd
}

// imageAsOf is the metadata of a moment.
func (f *finder) imageAsOf(ctx context.Context, moment string) (*fsm.Image, error) {
	at, err := parseMoment(moment, time.Now())
	if err != nil {
		return nil, err
	}
	var img *fsm.Image
	err = f.oneThatCan(ctx, "metadata as of "+moment, func(c *client.Client, address string) error {
		img, err = c.ImageAsOf(ctx, address, at)
		return err
	})
	return img, err
}
