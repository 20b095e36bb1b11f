package tool

import (
	"strings"

	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
)

// inspectedTopic is one topic in the output of inspect.
type inspectedTopic struct {
	Name              string            `json:"name"`
	ID                string            `json:"id"`
	Partitions        int32             `json:"partitions"`
	ReplicationFactor int               `json:"replication_factor"`
	Leaderless        int               `json:"leaderless"`
	UnderReplicated   int               `json:"under_replicated"`
	Configs           map[string]string `json:"configs"`
}

// inspectedBroker is one broker in the output of inspect.
type inspectedBroker struct {
	ID        int32    `json:"id"`
	Epoch     int64    `json:"broker_epoch"`
	Fenced    bool     `json:"fenced"`
	Rack      string   `json:"rack"`
	Listeners []string `json:"listeners"`
	Replicas  int      `json:"replicas"`
	Led       int      `json:"led"`
}

// inspectedQuorumd is one quorum node in the output of inspect.
type inspectedQuorumd struct {
	ID          int32    `json:"id"`
	DirectoryID string   `json:"directory_id"`
	Listeners   []string `json:"listeners"`
}

// list adds what was asked for by flags.
func (v *inspected) list(img *fsm.Image, topics, brokers bool) {
	if topics {
		for t := range img.Topics() {
			v.Topics = append(v.Topics, inspectTopic(img, t))
		}
	}
	if !brokers {
		return
	}
	for b := range img.Brokers() {
		v.Brokers = append(v.Brokers, inspectedBroker{
			ID: b.ID, Epoch: b.Epoch, Fenced: b.Fenced, Rack: b.Rack, Listeners: listenerTexts(b.Listeners),
			Replicas: img.NumReplicasOf(b.ID), Led: img.NumLedBy(b.ID),
		})
	}
	for c := range img.Controllers() {
		v.ControllerNodes = append(v.ControllerNodes, inspectedQuorumd{ID: c.ID, DirectoryID: c.DirectoryID.String(), Listeners: listenerTexts(c.Listeners)})
	}
}

func inspectTopic(img *fsm.Image, t *fsm.Topic) inspectedTopic {
	out := inspectedTopic{Name: t.Name(), ID: t.ID().String(), Partitions: t.NumPartitions(), Configs: make(map[string]string)}
	for _, p := range t.Partitions() {
		out.ReplicationFactor = max(out.ReplicationFactor, len(p.Replicas))
		out.Leaderless += number(p.Leader < 0)
		out.UnderReplicated += number(len(p.ISR) < len(p.Replicas))
	}
	for _, e := range img.Configs(fsm.TopicResource(t.Name())) {
		out.Configs[e.Key] = e.Value
	}
	return out
}

func listenerTexts(list []fsm.Listener) []string {
	out := make([]string, 0, len(list))
	for _, l := range list {
		out = append(out, l.Name+"://"+l.Address())
	}
	return out
}

func (v *inspected) topicTable() output.Rows {
	t := output.Rows{Head: []string{"topic", "id", "partitions", "replication factor", "leaderless", "under-replicated", "configs"}}
	for _, topic := range v.Topics {
		t.Add(topic.Name, topic.ID, topic.Partitions, topic.ReplicationFactor, topic.Leaderless, topic.UnderReplicated, len(topic.Configs))
	}
	return t
}

func (v *inspected) brokerTable() output.Rows {
	t := output.Rows{Head: []string{"broker", "broker epoch", "fenced", "rack", "listeners", "replicas", "led"}}
	for _, b := range v.Brokers {
		t.Add(b.ID, b.Epoch, b.Fenced, b.Rack, strings.Join(b.Listeners, " "), b.Replicas, b.Led)
	}
	return t
}

func (v *inspected) quorumTable() output.Rows {
	t := output.Rows{Head: []string{"quorum node", "directory", "listeners"}}
	for _, c := range v.ControllerNodes {
		t.Add(c.ID, c.DirectoryID, strings.Join(c.Listeners, " "))
	}
	return t
}
