package tool

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
)

// errNoTopicThen is the answer for a topic that was not there at the moment.
var errNoTopicThen = errors.New("there was no topic of that name")

// listAsOf lists the topics of an earlier moment, which only the quorum's history knows.
func (f *finder) listAsOf(cmd *cobra.Command) error {
	img, err := f.image(cmd)
	if err != nil {
		return err
	}
	list := []topicSummary{}
	for t := range img.Topics() {
		list = append(list, summariseAsOf(t))
	}
	return output.Print(cmd.OutOrStdout(), f.format, list, topicTable(list))
}

func summariseAsOf(t *fsm.Topic) topicSummary {
	s := topicSummary{Name: t.Name(), ID: idText(t), Partitions: int(t.NumPartitions())}
	for _, p := range t.Partitions() {
		s.Replicas = max(s.Replicas, len(p.Replicas))
		if len(p.ISR) < len(p.Replicas) {
			s.UnderReplicated++
		}
		if p.Leader < 0 {
			s.Leaderless++
		}
	}
	return s
}

// idText is a topic's id as Kafka's clients print it.
func idText(t *fsm.Topic) string { return t.ID().String() }

// describeAsOf describes topics as they were.
func (f *finder) describeAsOf(cmd *cobra.Command, names []string) error {
	img, err := f.image(cmd)
	if err != nil {
		return err
	}
	var list []describedTopic
	var failed failures
	table := describedHead()
	for _, name := range names {
		t, ok := img.TopicByName(name)
		if !ok {
			failed.add(name, errNoTopicThen, "")
			continue
		}
		d := describedAsOf(img, t)
		list = append(list, d)
		d.addTo(&table)
	}
	return failed.after(cmd.OutOrStdout(), f.format, list, table)
}

func describedAsOf(img *fsm.Image, t *fsm.Topic) describedTopic {
	d := describedTopic{Name: t.Name(), ID: idText(t), Configs: make(map[string]string)}
	for _, c := range img.Configs(fsm.TopicResource(t.Name())) {
		d.Configs[c.Key] = c.Value
	}
	for n, p := range t.Partitions() {
		d.Partitions = append(d.Partitions, describedPartition{
			Partition: n, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR, Offline: offlineThen(img, p),
		})
	}
	return d
}

// offlineThen are the replicas on brokers that were fenced or not registered.
func offlineThen(img *fsm.Image, p fsm.Partition) []int32 {
	return slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool {
		b, ok := img.Broker(id)
		return ok && !b.Fenced
	})
}
