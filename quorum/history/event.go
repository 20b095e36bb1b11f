package history

import (
	"fmt"
	"slices"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// Filter says which changes are asked for. Its zero value asks for all.
type Filter struct {
	// Topic is a name, Partition one of its partitions, -1 (or without a topic) all.
	Topic     string
	Partition int32
	// Broker is asked for if HasBroker: its registration, and the partitions that it led, leads or replicates.
	Broker    int32
	HasBroker bool
}

// all reports whether everything is asked for.
func (f Filter) all() bool { return f.Topic == "" && !f.HasBroker }

// Events are the changes of an entry on the image before it that a filter asks for, a batch an event. Batches without one
// are left out. The cost follows the batches: a comparison of whole images would cost what exists, at every entry.
func Events(before *fsm.Image, e *controllerv1.EntryApplied, f Filter) ([]*quorumv1.HistoryEvent, error) {
	envelope, err := fsm.DecodeEnvelope(e.GetEnvelope())
	if err != nil {
		return nil, err
	}
	var events []*quorumv1.HistoryEvent
	img, batches := before, envelope.GetBatches()
	for i, b := range batches {
		next, delta, err := foldBatch(img, envelope, i, e)
		if err != nil {
			return nil, fmt.Errorf("batch %d of the entry at metadata offset %d: %w", i, e.GetFirstMetadataOffset(), err)
		}
		if event := eventOf(img, next, delta, b, f); event != nil {
			event.ControllerEpoch = e.GetControllerEpoch()
			events = append(events, event)
		}
		img = next
	}
	return events, nil
}

// foldBatch folds one batch of an entry. One that stands alone is folded as the entry: a claim folds no other way.
func foldBatch(img *fsm.Image, envelope *metadatav1.Envelope, i int, e *controllerv1.EntryApplied) (*fsm.Image, *fsm.Delta, error) {
	if len(envelope.GetBatches()) > 1 {
		return fsm.FoldBatches(img, envelope.GetBatches()[i:i+1], e.GetControllerEpoch())
	}
	r, err := followEnvelope(img, envelope, e)
	return r.Image, r.Delta, err
}

// eventOf is what a batch changed, nil if it is nothing that is asked for.
func eventOf(before, after *fsm.Image, d *fsm.Delta, b *metadatav1.Batch, f Filter) *quorumv1.HistoryEvent {
	event := &quorumv1.HistoryEvent{
		MetadataOffset: before.NextOffset(), NextMetadataOffset: after.NextOffset(), TimeMs: b.GetTimeMs(),
		Cause: b.GetCause(), Reason: b.GetReason(), Changes: changesOf(d, before, after, f),
	}
	if len(event.GetChanges()) == 0 {
		return nil
	}
	return event
}

// changesOf words a delta.
func changesOf(d *fsm.Delta, before, after *fsm.Image, f Filter) []*quorumv1.HistoryChange {
	var list []*quorumv1.HistoryChange
	for _, b := range d.Brokers {
		if f.all() || f.HasBroker && b.ID == f.Broker {
			list = append(list, brokerChange(b))
		}
	}
	for _, t := range d.Topics {
		list = append(list, topicChanges(t, f)...)
	}
	for _, c := range d.Configs {
		if f.all() || c == fsm.TopicResource(f.Topic) || f.HasBroker && c == fsm.BrokerResource(fmt.Sprint(f.Broker)) {
			list = append(list, configChange(c, before, after))
		}
	}
	if f.all() {
		list = append(list, quorumChanges(d, after)...)
	}
	return list
}

func brokerChange(b fsm.BrokerDelta) *quorumv1.HistoryChange {
	c := &quorumv1.HistoryChange{Kind: "broker", Subject: fmt.Sprint(b.ID), Before: wordBroker(b.Old), After: wordBroker(b.New)}
	switch {
	case b.Old == nil:
		c.Text = fmt.Sprintf("broker %d registered, %s", b.ID, c.GetAfter())
	case b.New == nil:
		c.Text = fmt.Sprintf("broker %d was unregistered", b.ID)
	case b.Old.Epoch != b.New.Epoch:
		c.Text = fmt.Sprintf("broker %d registered again, %s", b.ID, c.GetAfter())
	case b.Old.Fenced != b.New.Fenced:
		c.Text = fmt.Sprintf("broker %d was %s", b.ID, map[bool]string{true: "fenced", false: "unfenced"}[b.New.Fenced])
	default:
		c.Text = fmt.Sprintf("broker %d: %s -> %s", b.ID, c.GetBefore(), c.GetAfter())
	}
	return c
}

// wordBroker is a registration in a few words.
func wordBroker(b *fsm.Broker) string {
	if b == nil {
		return ""
	}
	state := "unfenced"
	if b.Fenced {
		state = "fenced"
	}
	if b.InControlledShutdown {
		state += ", in controlled shutdown"
	}
	return fmt.Sprintf("broker epoch %d, %s", b.Epoch, state)
}

func topicChanges(t fsm.TopicDelta, f Filter) []*quorumv1.HistoryChange {
	if f.Topic != "" && t.Name != f.Topic {
		return nil
	}
	var list []*quorumv1.HistoryChange
	wholeTopic := t.Old == nil || t.New == nil
	if wholeTopic && !f.HasBroker {
		list = append(list, wholeTopicChange(t))
	}
	if f.all() && wholeTopic {
		return list // its partitions are what a creation and a removal say already
	}
	for _, p := range t.Partitions {
		if f.Topic != "" && f.Partition >= 0 && p.Partition != f.Partition || f.HasBroker && !concerns(p, f.Broker) {
			continue
		}
		list = append(list, partitionChange(t.Name, p))
	}
	return list
}

func wholeTopicChange(t fsm.TopicDelta) *quorumv1.HistoryChange {
	c := &quorumv1.HistoryChange{Kind: "topic", Subject: t.Name}
	if t.New == nil {
		c.Before = fmt.Sprintf("id %s, %d partitions", t.ID, t.Old.NumPartitions())
		c.Text = fmt.Sprintf("topic %s (%s) was deleted", t.Name, c.GetBefore())
		return c
	}
	c.After = fmt.Sprintf("id %s, %d partitions", t.ID, t.New.NumPartitions())
	c.Text = fmt.Sprintf("topic %s (%s) was created", t.Name, c.GetAfter())
	return c
}

// concerns reports whether a broker has, or had, anything to do with a partition.
func concerns(p fsm.PartitionDelta, broker int32) bool {
	for _, side := range []*fsm.Partition{p.Old, p.New} {
		if side != nil && (side.Leader == broker || slices.Contains(side.Replicas, broker)) {
			return true
		}
	}
	return false
}

func partitionChange(topic string, p fsm.PartitionDelta) *quorumv1.HistoryChange {
	c := &quorumv1.HistoryChange{Kind: "partition", Subject: fmt.Sprintf("%s/%d", topic, p.Partition)}
	if p.Old != nil {
		c.Before = p.Old.String()
	}
	if p.New != nil {
		c.After = p.New.String()
	}
	switch {
	case p.Old == nil:
		c.Text = fmt.Sprintf("%s was created: %s", c.GetSubject(), c.GetAfter())
	case p.New == nil:
		c.Text = c.GetSubject() + " was deleted"
	default:
		c.Text = c.GetSubject() + ": " + wordPartitionChange(p.Old, p.New)
	}
	return c
}

func configChange(r fsm.ConfigResource, before, after *fsm.Image) *quorumv1.HistoryChange {
	c := &quorumv1.HistoryChange{Kind: "config", Subject: r.String(), Before: wordConfigs(before.Configs(r)), After: wordConfigs(after.Configs(r))}
	c.Text = fmt.Sprintf("config of %s: %s -> %s", r, orNone(c.GetBefore()), orNone(c.GetAfter()))
	return c
}

func quorumChanges(d *fsm.Delta, after *fsm.Image) []*quorumv1.HistoryChange {
	var list []*quorumv1.HistoryChange
	add := func(kind, subject, text string) {
		list = append(list, &quorumv1.HistoryChange{Kind: kind, Subject: subject, After: text, Text: text})
	}
	for _, id := range d.Controllers {
		add("controller", fmt.Sprint(id), fmt.Sprintf("quorum node %d registered", id))
	}
	if claim, ok := after.Claim(); ok && d.Claimed {
		add("claim", fmt.Sprint(claim.NodeID), fmt.Sprintf("quorum node %d is the active controller, controller epoch %d", claim.NodeID, after.ControllerEpoch()))
	}
	if d.ProducerIDs {
		add("producer ids", "", fmt.Sprintf("producer ids below %d are given out", after.NextProducerID()))
	}
	if d.Confirmed {
		add("lineage", after.Lineage().ID.String(), "the lineage was confirmed")
	}
	return list
}
