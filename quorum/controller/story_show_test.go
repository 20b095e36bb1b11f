package controller

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// cmdShow tells the state: "show", "show brokers", "show foo".
func (w *world) cmdShow(d *datadriven.TestData) string {
	var b strings.Builder
	only := ""
	if len(d.CmdArgs) > 0 {
		only = d.CmdArgs[0].Key
	}
	if only == "" || only == "brokers" {
		for broker := range w.img.Brokers() {
			fmt.Fprintf(&b, "broker %d: epoch %s, %s, leads %d of %d\n", broker.ID, offsetText(broker.Epoch), brokerText(broker),
				w.img.NumLedBy(broker.ID), w.img.NumReplicasOf(broker.ID))
		}
	}
	for topic := range w.img.Topics() {
		if only != "" && only != topic.Name() {
			continue
		}
		for i, p := range topic.Partitions() {
			fmt.Fprintf(&b, "%s-%d: replicas %v, isr %v, leader %d, leader epoch %d, partition epoch %d%s%s%s\n", topic.Name(), i,
				p.Replicas, p.ISR, p.Leader, p.LeaderEpoch, p.PartitionEpoch, when(p.Recovering, ", recovering"), when(p.AwaitingInventory, ", awaiting inventory"),
				listsText(p))
		}
		for _, c := range w.img.Configs(fsm.TopicResource(topic.Name())) {
			fmt.Fprintf(&b, "%s: %s=%s\n", topic.Name(), c.Key, c.Value)
		}
	}
	return b.String()
}

func brokerText(b *fsm.Broker) string {
	switch {
	case b.Fenced && b.InControlledShutdown:
		return "fenced in controlled shutdown"
	case b.Fenced:
		return "fenced"
	case b.InControlledShutdown:
		return "in controlled shutdown"
	}
	return "active"
}

// recordText is a record in a line.
func (w *world) recordText(r *metadatav1.Record) string {
	switch k := r.GetKind().(type) {
	case *metadatav1.Record_PartitionChange:
		return w.partitionChangeText(k.PartitionChange)
	case *metadatav1.Record_Partition:
		p := k.Partition
		return fmt.Sprintf("partition %d: replicas %v, isr %v, leader %d%s", p.GetPartitionId(), p.GetReplicas(), p.GetIsr(), p.GetLeader(),
			when(p.GetAwaitingInventory(), fmt.Sprintf(", awaiting inventory, leader epoch %d, partition epoch %d", p.GetLeaderEpoch(), p.GetPartitionEpoch())))
	case *metadatav1.Record_RecoveryElected:
		return recoveryElectedText(w, k.RecoveryElected)
	case *metadatav1.Record_LineageConfirmed:
		return "lineage confirmed"
	case *metadatav1.Record_Topic:
		return "topic " + k.Topic.GetName()
	case *metadatav1.Record_RemoveTopic:
		return "remove topic " + w.topicName(k.RemoveTopic.GetTopicId())
	case *metadatav1.Record_RegisterBroker:
		b := k.RegisterBroker
		return fmt.Sprintf("register broker %d: epoch %s%s%s", b.GetBrokerId(), offsetText(b.GetBrokerEpoch()),
			when(b.GetFenced(), ", fenced"), when(b.GetInControlledShutdown(), ", in controlled shutdown"))
	case *metadatav1.Record_UnregisterBroker:
		return fmt.Sprintf("unregister broker %d: epoch %s", k.UnregisterBroker.GetBrokerId(), offsetText(k.UnregisterBroker.GetBrokerEpoch()))
	case *metadatav1.Record_BrokerRegistrationChange:
		return registrationChangeText(k.BrokerRegistrationChange)
	case *metadatav1.Record_Config:
		return configText(k.Config)
	case *metadatav1.Record_ClientQuota:
		return quotaText(k.ClientQuota)
	case *metadatav1.Record_FeatureLevel:
		return fmt.Sprintf("feature %s: level %d", k.FeatureLevel.GetName(), k.FeatureLevel.GetLevel())
	case *metadatav1.Record_ClearElr:
		return "clear elr" + when(k.ClearElr.GetTopicName() != "", " of topic "+k.ClearElr.GetTopicName())
	case *metadatav1.Record_ProducerIds:
		return fmt.Sprintf("producer ids: next %d", k.ProducerIds.GetNextProducerId())
	case *metadatav1.Record_ControllerRegistered:
		c := k.ControllerRegistered
		return fmt.Sprintf("controller %d at %s:%d", c.GetNodeId(), c.GetListeners()[0].GetHost(), c.GetListeners()[0].GetPort())
	}
	return r.String()
}

func (w *world) partitionChangeText(p *metadatav1.PartitionChange) string {
	var said []string
	if p.Isr != nil {
		said = append(said, fmt.Sprintf("isr %v", p.GetIsr().GetIds()))
	}
	if p.Leader != nil {
		said = append(said, fmt.Sprintf("leader %d", p.GetLeader()))
	}
	if p.LeaderEpoch != nil {
		said = append(said, fmt.Sprintf("leader epoch %d", p.GetLeaderEpoch()))
	}
	for _, l := range []struct {
		name string
		ids  *metadatav1.BrokerIDs
	}{
		{"replicas", p.Replicas}, {"adding", p.AddingReplicas}, {"removing", p.RemovingReplicas},
		{"elr", p.EligibleLeaderReplicas}, {"last known", p.LastKnownElr},
	} {
		if l.ids != nil {
			said = append(said, fmt.Sprintf("%s %v", l.name, l.ids.GetIds()))
		}
	}
	if p.Recovering != nil {
		said = append(said, fmt.Sprintf("recovering %t", p.GetRecovering()))
	}
	return fmt.Sprintf("change %s-%d: %s", w.topicName(p.GetTopicId()), p.GetPartitionId(), strings.Join(said, ", "))
}

func registrationChangeText(c *metadatav1.BrokerRegistrationChange) string {
	var said []string
	if c.Fenced != nil {
		said = append(said, fmt.Sprintf("fenced %t", c.GetFenced()))
	}
	if c.InControlledShutdown != nil {
		said = append(said, fmt.Sprintf("in controlled shutdown %t", c.GetInControlledShutdown()))
	}
	return fmt.Sprintf("change broker %d: %s", c.GetBrokerId(), strings.Join(said, ", "))
}
