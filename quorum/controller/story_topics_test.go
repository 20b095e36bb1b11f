package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// cmdCreate creates topics. "create foo partitions=3 rf=3" creates one. In the long form each line of the input is one
// topic: "foo partitions=3 rf=2", "bar assign=1,2 assign=2,1", "baz retention.ms=5".
func (w *world) cmdCreate(d *datadriven.TestData) string {
	req := &controllerv1.CreateTopicsRequest{}
	lines := strings.Split(strings.TrimSpace(d.Input), "\n")
	args := d.CmdArgs
	if len(args) > 0 && args[0].Key == "validate-only" {
		req.ValidateOnly = true
		args = args[1:]
	}
	if len(args) > 0 {
		req.Topics = append(req.Topics, w.creatable(args))
	}
	for _, line := range lines {
		if line == "" {
			continue
		}
		_, parsed, err := datadriven.ParseLine("create " + line)
		if err != nil {
			w.t.Fatalf("create %s: %v", line, err)
		}
		req.Topics = append(req.Topics, w.creatable(parsed))
	}
	return tell(w, rehearsed(w, CreateTopics, req), createReply)
}

func createReply(r *controllerv1.CreateTopicsResponse) string {
	var b strings.Builder
	for _, t := range r.GetTopics() {
		if t.GetError() != nil {
			fmt.Fprintf(&b, "%s: %s\n", t.GetName(), errorText(t.GetError()))
			continue
		}
		fmt.Fprintf(&b, "%s: %d partitions, replication factor %d\n", t.GetName(), t.GetNumPartitions(), t.GetReplicationFactor())
	}
	return b.String()
}

func (w *world) creatable(args []datadriven.CmdArg) *controllerv1.CreatableTopic {
	t := &controllerv1.CreatableTopic{Name: args[0].Key, NumPartitions: -1, ReplicationFactor: -1}
	if t.GetName() == "(empty)" {
		t.Name = ""
	}
	if n, ok := strings.CutPrefix(t.GetName(), "(long)"); ok {
		t.Name = strings.Repeat("x", toInt(w.t, n))
	}
	for _, arg := range args[1:] {
		switch arg.Key {
		case "partitions":
			t.NumPartitions = toID(w.t, arg.Vals[0])
		case "rf":
			t.ReplicationFactor = toID(w.t, arg.Vals[0])
		case "assign": // assign=1,2,3 for the next partition
			t.Assignments = append(t.Assignments, &controllerv1.ReplicaAssignment{
				PartitionId: int32(len(t.GetAssignments())), BrokerIds: toIDs(w.t, values(arg)),
			})
		case "assign-at": // assign-at=7,1,2 for partition 7
			ids := toIDs(w.t, values(arg))
			t.Assignments = append(t.Assignments, &controllerv1.ReplicaAssignment{PartitionId: ids[0], BrokerIds: ids[1:]})
		case "null":
			t.Configs = append(t.Configs, &controllerv1.TopicConfig{Key: arg.Vals[0]})
		default:
			t.Configs = append(t.Configs, &controllerv1.TopicConfig{Key: arg.Key, Value: proto.String(strings.Join(arg.Vals, ","))})
		}
	}
	return t
}

// cmdDelete deletes topics: "delete foo bar", "delete id:foo" by the id of foo, "delete id:none" by an id that no
// topic has, "delete both:foo" by both.
func (w *world) cmdDelete(d *datadriven.TestData) string {
	req := &controllerv1.DeleteTopicsRequest{}
	for _, arg := range d.CmdArgs {
		kind, name, tagged := strings.Cut(arg.Key, ":")
		item := &controllerv1.DeletableTopic{}
		switch {
		case arg.Key == "validate-only":
			req.ValidateOnly = true
			continue
		case arg.Key == "(neither)":
		case !tagged:
			item.Name = arg.Key
		case name == "none":
			item.TopicId = fsm.UUID{0xff, 1}.Bytes()
		case name == "short":
			item.TopicId = []byte{1}
		default:
			item.TopicId = w.topicID(name)
			if kind == "both" {
				item.Name = name
			}
		}
		req.Topics = append(req.Topics, item)
	}
	return tell(w, rehearsed(w, DeleteTopics, req), func(r *controllerv1.DeleteTopicsResponse) string {
		var b strings.Builder
		for _, t := range r.GetTopics() {
			if t.GetError() != nil {
				fmt.Fprintf(&b, "%q: %s\n", t.GetName(), errorText(t.GetError()))
			} else {
				fmt.Fprintf(&b, "%q: deleted\n", t.GetName())
			}
		}
		return b.String()
	})
}

func (w *world) topicID(name string) []byte {
	t, ok := w.img.TopicByName(name)
	if !ok {
		return fsm.UUID{0xff, 2}.Bytes()
	}
	return t.ID().Bytes()
}

// cmdConfig writes a config as an administrator would: "config foo min.insync.replicas=2", "config cluster ...".
func (w *world) cmdConfig(d *datadriven.TestData) string {
	batch := w.env.emptyBatch(w.img, reason("configs_altered", "a story set configs"))
	for _, arg := range d.CmdArgs[1:] {
		rec := &metadatav1.Config{
			ResourceType: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_TOPIC,
			ResourceName: d.CmdArgs[0].Key,
			Key:          arg.Key,
			Value:        proto.String(strings.Join(arg.Vals, ",")),
		}
		if d.CmdArgs[0].Key == "cluster" {
			rec.ResourceType, rec.ResourceName = metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER, ""
		}
		batch.Records = append(batch.Records, &metadatav1.Record{Kind: &metadatav1.Record_Config{Config: rec}})
	}
	w.fold(batch)
	return ""
}

// cmdAlter proposes an ISR as the leader would: "alter foo-0 isr=1,2". by, broker-epoch, leader-epoch, partition-epoch,
// recovering and member-epoch=broker,epoch make it wrong.
func (w *world) cmdAlter(d *datadriven.TestData) string {
	o := w.options(d)
	name, index := w.partition(d.CmdArgs[0].Key)
	item := &controllerv1.AlterPartition{TopicId: w.topicID(name), PartitionId: index, Recovering: o.has("recovering")}
	var was fsm.Partition
	if t, ok := w.img.TopicByName(name); ok {
		was, _ = t.Partition(index)
	}
	item.LeaderEpoch = int32(o.number("leader-epoch", int(was.LeaderEpoch)))
	item.PartitionEpoch = int32(o.number("partition-epoch", int(was.PartitionEpoch)))
	for _, id := range toIDs(w.t, o.list("isr")) {
		m := &controllerv1.ISRMember{BrokerId: id, BrokerEpoch: -1}
		if b, ok := w.img.Broker(id); ok {
			m.BrokerEpoch = b.Epoch
		}
		if e := toIDs(w.t, o.list("member-epoch")); len(e) == 2 && e[0] == id {
			m.BrokerEpoch = int64(e[1])
		}
		item.NewIsr = append(item.NewIsr, m)
	}
	req := &controllerv1.AlterPartitionsRequest{BrokerId: int32(o.number("by", int(was.Leader)))}
	for range o.number("times", 1) {
		req.Partitions = append(req.Partitions, item)
	}
	if b, ok := w.img.Broker(req.GetBrokerId()); ok {
		req.BrokerEpoch = b.Epoch
	}
	req.BrokerEpoch = int64(o.number("broker-epoch", int(req.GetBrokerEpoch())))
	var answers []*controllerv1.AlterPartitionResult
	out := tell(w, AlterPartitions(w.img, w.env, req), func(r *controllerv1.AlterPartitionsResponse) string {
		answers = r.GetPartitions()
		return w.alterReply(r)
	})
	w.checkAnswers(answers)
	return out
}

func (w *world) alterReply(r *controllerv1.AlterPartitionsResponse) string {
	var b strings.Builder
	for _, p := range r.GetPartitions() {
		if p.GetError() != nil {
			fmt.Fprintf(&b, "%s-%d: %s\n", w.topicName(p.GetTopicId()), p.GetPartitionId(), errorText(p.GetError()))
			continue
		}
		fmt.Fprintf(&b, "%s-%d: leader %d, leader epoch %d, isr %v, partition epoch %d%s\n", w.topicName(p.GetTopicId()),
			p.GetPartitionId(), p.GetLeader(), p.GetLeaderEpoch(), p.GetIsr(), p.GetPartitionEpoch(), when(p.GetRecovering(), ", recovering"))
	}
	return b.String()
}

// checkAnswers holds the last answer for each partition against the image: an answer is the state after the change.
func (w *world) checkAnswers(answers []*controllerv1.AlterPartitionResult) {
	for _, a := range answers {
		topic, err := fsm.UUIDFromBytes(a.GetTopicId())
		p, ok := w.img.Partition(fsm.PartitionID{Topic: topic, Partition: a.GetPartitionId()})
		if err != nil || !ok || a.GetError() != nil {
			continue
		}
		if p.Leader != a.GetLeader() || p.LeaderEpoch != a.GetLeaderEpoch() || p.PartitionEpoch != a.GetPartitionEpoch() ||
			!slices.Equal(p.ISR, a.GetIsr()) || p.Recovering != a.GetRecovering() {
			w.t.Errorf("the answer %v is not the state %+v", a, p)
		}
	}
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// cmdElect asks for elections: "elect preferred foo-0 foo-1", "elect unclean" for all.
func (w *world) cmdElect(d *datadriven.TestData) string {
	req := &controllerv1.ElectLeadersRequest{}
	switch d.CmdArgs[0].Key {
	case "preferred":
		req.Type = controllerv1.ElectionType_ELECTION_TYPE_PREFERRED
	case "unclean":
		req.Type = controllerv1.ElectionType_ELECTION_TYPE_UNCLEAN
	}
	for _, arg := range d.CmdArgs[1:] {
		name, index := w.partition(arg.Key)
		req.Partitions = append(req.Partitions, &controllerv1.TopicPartition{Topic: name, PartitionId: index})
	}
	return tell(w, rehearsed(w, ElectLeaders, req), func(r *controllerv1.ElectLeadersResponse) string {
		var b strings.Builder
		for _, p := range r.GetPartitions() {
			said := "elected"
			if p.GetError() != nil {
				said = errorText(p.GetError())
			}
			fmt.Fprintf(&b, "%s-%d: %s\n", p.GetTopic(), p.GetPartitionId(), said)
		}
		return b.String()
	})
}

func (w *world) cmdBalance(*datadriven.TestData) string {
	return tell(w, BalanceLeaders(w.img, w.env), moreText)
}

func (w *world) cmdElectLeaderless(*datadriven.TestData) string {
	return tell(w, ElectLeaderless(w.img, w.env), moreText)
}

func moreText(more bool) string { return when(more, "there is more to do\n") }
