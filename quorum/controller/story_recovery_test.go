package controller

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// cmdRebirth restores the cluster from its present image: a new lineage, and a controller that knows nothing else.
func (w *world) cmdRebirth(d *datadriven.TestData) string {
	w.rebirths++
	born, err := fsm.Rebirth(w.img, fsm.Birth{ClusterID: w.img.ClusterID(), UUID: fsm.UUID{0xaa, 2, 15: w.rebirths}})
	if err != nil {
		w.t.Fatalf("rebirth: %v", err)
	}
	w.img = born
	w.cmdFailover(d)
	return fmt.Sprintf("lineage %d, %d partitions await inventories\n", born.Lineage().ID.Number, born.NumAwaiting())
}

// cmdReport reports a broker's logs, one a line: "foo-0 3/40" for 40 records up to leader epoch 3, "foo-0 3/40 from=10";
// a stray has the word stray and what is known of its topic: "foo-0 3/40 stray name=foo of=2 rf=2 since=7 set=k:v".
// Arguments: epoch, offset (what the broker had applied).
func (w *world) cmdReport(d *datadriven.TestData) string {
	o := w.options(d)
	id := toID(w.t, d.CmdArgs[0].Key)
	epoch := int64(-1)
	if b, ok := w.img.Broker(id); ok {
		epoch = b.Epoch
	}
	epoch = int64(o.number("epoch", int(epoch)))
	r := NewInventoryReport(id, epoch, int64(o.number("offset", int(w.img.NextOffset()))))
	var part []*controllerv1.ReplicaInventory
	for line := range strings.Lines(d.Input) {
		part = append(part, w.inventory(strings.Fields(line)))
	}
	if err := r.Add(part); err != nil {
		return "malformed: " + err.Error() + "\n"
	}
	r.Seal()
	return tell(w, ReportInventory(w.img, w.env, r), func(r *controllerv1.ReportInventoryResponse) string {
		return fmt.Sprintf("%d replicas\n", r.GetReplicas())
	})
}

func (w *world) inventory(words []string) *controllerv1.ReplicaInventory {
	topic, partition := w.partition(words[0])
	p := &controllerv1.ReplicaInventory{TopicId: w.idOf(topic).Bytes(), PartitionId: partition, Clean: true}
	if _, err := fmt.Sscanf(words[1], "%d/%d", &p.LastLeaderEpoch, &p.LogEndOffset); err != nil {
		w.t.Fatalf("%v: %v", words, err)
	}
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		if p.Stray == nil && key != "from" {
			p.Stray = &controllerv1.StrayReplica{}
		}
		switch key {
		case "from":
			p.LogStartOffset = int64(toInt(w.t, value))
		case "name":
			p.Stray.TopicName = value
		case "of":
			p.Stray.NumPartitions = toID(w.t, value)
		case "rf":
			p.Stray.ReplicationFactor = toID(w.t, value)
		case "since":
			p.Stray.SinceMs = int64(toInt(w.t, value))
		case "set":
			k, v, _ := strings.Cut(value, ":")
			p.Stray.Configs = append(p.Stray.Configs, &controllerv1.StrayConfig{Key: k, Value: v})
		}
	}
	return p
}

// idOf is the id that a topic has or had; "id7" is one that nobody knows.
func (w *world) idOf(name string) fsm.UUID {
	if number, unknown := strings.CutPrefix(name, "id"); unknown {
		return fsm.UUID{0x70, 15: byte(toInt(w.t, number))}
	}
	if t, ok := w.img.TopicByName(name); ok {
		return t.ID()
	}
	id, ok := w.gone[name]
	if !ok {
		w.t.Fatalf("no topic was ever called %s", name)
	}
	return id
}

func (w *world) cmdElectInventories(*datadriven.TestData) string {
	return tell(w, ElectFromInventories(w.img, w.env), func(more bool) string { return when(more, "more to do\n") })
}

func (w *world) cmdElectAwaiting(d *datadriven.TestData) string {
	o := w.options(d)
	req := &controllerv1.ElectAwaitingRequest{Now: o.has("now"), ValidateOnly: o.has("dry-run")}
	for line := range strings.Lines(d.Input) {
		topic, partition := w.partition(strings.TrimSpace(line))
		req.Partitions = append(req.Partitions, &controllerv1.TopicPartition{Topic: topic, PartitionId: partition})
	}
	return tell(w, ElectAwaiting(w.img, w.env, req), func(r *controllerv1.ElectAwaitingResponse) string {
		var b strings.Builder
		for _, e := range r.GetElections() {
			b.WriteString(electionText(e))
		}
		for _, e := range r.GetRefused() {
			fmt.Fprintf(&b, "%s-%d: %s\n", e.GetTopic(), e.GetPartitionId(), errorText(e.GetError()))
		}
		if r.GetRemaining() > 0 {
			fmt.Fprintf(&b, "%d remaining\n", r.GetRemaining())
		}
		return b.String()
	})
}

func electionText(e *controllerv1.RecoveryElection) string {
	text := fmt.Sprintf("%s-%d: leader %d in leader epoch %d, log end %d", e.GetTopic(), e.GetPartitionId(), e.GetLeader(), e.GetLeaderEpoch(), e.GetLogEndOffset())
	if len(e.GetMissing()) > 0 {
		text += fmt.Sprintf(", missing %v", e.GetMissing())
	}
	for _, l := range e.GetLate() {
		text += ", late " + reportText(l)
	}
	return text + "\n"
}

func reportText(r *controllerv1.ReplicaReport) string {
	if !r.GetPresent() {
		return fmt.Sprintf("%d has none", r.GetBrokerId())
	}
	return fmt.Sprintf("%d has %d..%d/%d", r.GetBrokerId(), r.GetLogStartOffset(), r.GetLastLeaderEpoch(), r.GetLogEndOffset())
}

func (w *world) cmdAwaiting(*datadriven.TestData) string {
	return tell(w, ListAwaiting(w.img, w.env, &controllerv1.ListAwaitingRequest{}), func(r *controllerv1.ListAwaitingResponse) string {
		var b strings.Builder
		fmt.Fprintf(&b, "lineage %d%s, %d awaiting, %d recovery elections, wait %d ms\n", r.GetLineage().GetNumber(),
			when(r.GetConfirmed(), " confirmed"), r.GetAwaiting(), r.GetRecoveryElections(), r.GetWaitMs())
		for _, m := range r.GetMissingBrokers() {
			fmt.Fprintf(&b, "broker %d is missing for %d partitions%s\n", m.GetBrokerId(), m.GetPartitions(), when(!m.GetRegistered(), " and has not registered"))
		}
		for _, p := range r.GetPartitions() {
			fmt.Fprintf(&b, "%s-%d: missing %v, would elect %d", p.GetTopic(), p.GetPartitionId(), p.GetMissing(), p.GetWouldElect())
			for _, rep := range p.GetReports() {
				b.WriteString(", " + reportText(rep))
			}
			b.WriteByte('\n')
		}
		for _, e := range r.GetElections() {
			b.WriteString("elected " + electionText(e))
		}
		return b.String()
	})
}

func (w *world) cmdConfirm(d *datadriven.TestData) string {
	o := w.options(d)
	lineage := w.img.Lineage().ID
	lineage.Number = uint64(o.number("lineage", int(lineage.Number)))
	req := &controllerv1.ConfirmLineageRequest{Lineage: lineage.Proto(), ValidateOnly: o.has("dry-run")}
	return tell(w, ConfirmLineage(w.img, w.env, req), func(r *controllerv1.ConfirmLineageResponse) string {
		return fmt.Sprintf("%sawaiting %d\n", when(r.GetAlready(), "already confirmed, "), r.GetAwaiting())
	})
}

func (w *world) cmdStrays(*datadriven.TestData) string {
	return tell(w, ListStrays(w.img, w.env, &controllerv1.ListStraysRequest{}), func(r *controllerv1.ListStraysResponse) string {
		var b strings.Builder
		for _, t := range r.GetTopics() {
			fmt.Fprintf(&b, "topic %q, %d partitions\n", t.GetName(), t.GetNumPartitions())
			for _, rep := range t.GetReplicas() {
				fmt.Fprintf(&b, "  partition %d: %s since %d\n", rep.GetPartitionId(), reportText(rep.GetReport()), rep.GetSinceMs())
			}
		}
		if len(r.GetMissingBrokers()) > 0 {
			fmt.Fprintf(&b, "missing %v\n", r.GetMissingBrokers())
		}
		return b.String()
	})
}

// cmdUndelete asks for a topic back: "undelete name=foo", "undelete id=foo name=bar" for the topic that was called foo.
func (w *world) cmdUndelete(d *datadriven.TestData) string {
	o := w.options(d)
	req := &controllerv1.UndeleteTopicRequest{Name: o.text("name", ""), ValidateOnly: o.has("dry-run")}
	if o.has("id") {
		req.TopicId = w.idOf(o.text("id", "")).Bytes()
	}
	return tell(w, UndeleteTopic(w.img, w.env, req), func(r *controllerv1.UndeleteTopicResponse) string {
		return fmt.Sprintf("topic %s, %d partitions%s%s\n", r.GetName(), r.GetNumPartitions(),
			when(len(r.GetEmptyPartitions()) > 0, fmt.Sprintf(", empty %v", r.GetEmptyPartitions())),
			when(len(r.GetDroppedConfigs()) > 0, fmt.Sprintf(", without %v", r.GetDroppedConfigs())))
	})
}

func recoveryElectedText(w *world, e *metadatav1.RecoveryElected) string {
	text := fmt.Sprintf("recovery of %s-%d: leader %d, leader epoch %d, log end %d/%d, missing %v", w.topicName(e.GetTopicId()), e.GetPartitionId(),
		e.GetLeader(), e.GetLeaderEpoch(), e.GetLastLeaderEpoch(), e.GetLogEndOffset(), e.GetMissing())
	for _, l := range e.GetLate() {
		text += fmt.Sprintf(", late %d with %d/%d", l.GetBrokerId(), l.GetLastLeaderEpoch(), l.GetLogEndOffset())
	}
	return text
}

// offsetText is a metadata offset; those of later lineages are told from where their lineage begins.
func offsetText(offset int64) string {
	if offset < 1<<44 {
		return fmt.Sprint(offset)
	}
	return fmt.Sprintf("%d:%d", offset>>44, offset&(1<<44-1))
}
