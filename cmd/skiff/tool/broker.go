package tool

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
)

// brokerCommand asks the quorum, which also knows the brokers that are down.
func brokerCommand() *cobra.Command {
	cmd := group("broker", "Look at brokers as the quorum sees them, or forget one")
	f := addFinder(cmd)
	cmd.AddCommand(f.asOfFlag(f.brokerList()), f.asOfFlag(f.brokerDescribe()), f.brokerUnregister(), f.brokerAdopt(), f.brokerPurge())
	return cmd
}

// brokerSummary is one broker in the output of list.
type brokerSummary struct {
	ID        int32    `json:"id"`
	State     string   `json:"state"`
	Epoch     int64    `json:"broker_epoch"`
	Listeners []string `json:"listeners"`
	Rack      string   `json:"rack"`
	Replicas  int      `json:"replicas"`
	Led       int      `json:"led"`
	OutOfISR  int      `json:"out_of_isr"`
}

// describedBroker is what describe adds.
type describedBroker struct {
	brokerSummary
	Incarnation string          `json:"incarnation_id"`
	Directories []string        `json:"directories"`
	Features    []brokerFeat    `json:"features"`
	Partitions  []brokerReplica `json:"partitions"`
}

type brokerFeat struct {
	Name string `json:"name"`
	Min  int32  `json:"min"`
	Max  int32  `json:"max"`
}

type brokerReplica struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Leader      int32  `json:"leader"`
	LeaderEpoch int32  `json:"leader_epoch"`
	InISR       bool   `json:"in_isr"`
}

func (f *finder) brokerList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the registered brokers", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			img, err := f.image(cmd)
			if err != nil {
				return err
			}
			list := []brokerSummary{}
			table := output.Rows{Head: []string{"id", "state", "broker epoch", "listeners", "rack", "replicas", "led", "out of isr"}}
			for b := range img.Brokers() {
				s := summariseBroker(img, b)
				list = append(list, s)
				table.Add(s.ID, s.State, s.Epoch, strings.Join(s.Listeners, " "), s.Rack, s.Replicas, s.Led, s.OutOfISR)
			}
			return output.Print(cmd.OutOrStdout(), f.format, list, table)
		},
	}
}

// image is the state of the cluster that the flags name, now or as of the moment that they name.
func (f *finder) image(cmd *cobra.Command) (*fsm.Image, error) {
	ctx, cancel := f.within(cmd)
	defer cancel()
	return f.imageIn(ctx)
}

func (f *finder) imageIn(ctx context.Context) (*fsm.Image, error) {
	if f.asOf != "" {
		return f.imageAsOf(ctx, f.asOf)
	}
	c, controllers, err := f.quorum()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return image(ctx, c, controllers)
}

func summariseBroker(img *fsm.Image, b *fsm.Broker) brokerSummary {
	s := brokerSummary{ID: b.ID, State: brokerState(b), Epoch: b.Epoch, Rack: b.Rack, Replicas: img.NumReplicasOf(b.ID), Led: img.NumLedBy(b.ID)}
	for _, l := range b.Listeners {
		s.Listeners = append(s.Listeners, l.Name+"://"+l.Address())
	}
	for id := range img.PartitionsOf(b.ID) {
		if p, ok := img.Partition(id); ok && !slices.Contains(p.ISR, b.ID) {
			s.OutOfISR++
		}
	}
	return s
}

// brokerState words what the registration says.
func brokerState(b *fsm.Broker) string {
	switch {
	case b.Fenced:
		return "fenced"
	case b.InControlledShutdown:
		return "shutting down"
	}
	return "active"
}

func (f *finder) brokerDescribe() *cobra.Command {
	return &cobra.Command{
		Use: "describe ID", Short: "Describe one broker and its partitions", Args: one,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil {
				return config.Usage("skiff broker list", "%q is no broker id", args[0])
			}
			img, err := f.image(cmd)
			if err != nil {
				return err
			}
			b, ok := img.Broker(int32(id))
			if !ok {
				return config.Failed("skiff broker list", "no broker %d is registered", id)
			}
			d := describeBroker(img, b)
			return output.Print(cmd.OutOrStdout(), f.format, d, d.table())
		},
	}
}

func describeBroker(img *fsm.Image, b *fsm.Broker) describedBroker {
	d := describedBroker{brokerSummary: summariseBroker(img, b), Incarnation: b.IncarnationID.String(), Partitions: []brokerReplica{}}
	for _, dir := range b.Directories {
		d.Directories = append(d.Directories, dir.String())
	}
	for _, feature := range b.Features {
		d.Features = append(d.Features, brokerFeat{Name: feature.Name, Min: feature.Min, Max: feature.Max})
	}
	for id := range img.PartitionsOf(b.ID) {
		p, _ := img.Partition(id)
		topic, ok := img.Topic(id.Topic)
		if !ok {
			continue
		}
		d.Partitions = append(d.Partitions, brokerReplica{
			Topic: topic.Name(), Partition: id.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, InISR: slices.Contains(p.ISR, b.ID),
		})
	}
	return d
}

func (d describedBroker) table() output.Rows {
	var t output.Rows
	t.Add("id", d.ID)
	t.Add("state", d.State)
	t.Add("broker epoch", d.Epoch)
	t.Add("incarnation", d.Incarnation)
	t.Add("listeners", strings.Join(d.Listeners, " "))
	t.Add("rack", d.Rack)
	t.Add("directories", strings.Join(d.Directories, " "))
	t.Add("replicas", d.Replicas)
	t.Add("led", d.Led)
	for _, p := range d.Partitions {
		role := "follower of " + strconv.Itoa(int(p.Leader))
		if p.Leader == d.ID {
			role = "leader"
		}
		if !p.InISR {
			role += ", out of ISR"
		}
		t.Add(p.Topic+"-"+strconv.Itoa(int(p.Partition)), role)
	}
	return t
}
