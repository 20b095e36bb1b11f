package fsm

import (
	"fmt"
	"strings"
)

// Describe returns the image as text, one object a line, for scripts and tools. It is stable for one build and not
// meant to be parsed.
func Describe(img *Image) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s lineage %s next offset %d epoch base %d\n", img.clusterID, img.lineage.ID, img.nextOffset, img.epochBase)
	for _, a := range img.lineage.Ancestors {
		fmt.Fprintf(&b, "ancestor %s forked at %d\n", a.UUID, a.ForkOffset)
	}
	if !img.Confirmed() {
		b.WriteString("unconfirmed\n")
	}
	if claim, ok := img.Claim(); ok {
		fmt.Fprintf(&b, "claim at %d by node %d controller epoch %d\n", img.claimOffset, claim.NodeID, img.controllerEpoch)
	}
	for n := range img.Controllers() {
		fmt.Fprintf(&b, "controller %d%s\n", n.ID, describeListeners(n.Listeners))
	}
	for broker := range img.Brokers() {
		fmt.Fprintf(&b, "broker %d epoch %d %s%s%s\n", broker.ID, broker.Epoch, broker.state(), describeRack(broker), describeListeners(broker.Listeners))
	}
	for t := range img.Topics() {
		fmt.Fprintf(&b, "topic %s id %s\n", t.name, t.id)
		for i, p := range t.Partitions() {
			fmt.Fprintf(&b, "  %d %s\n", i, p.String())
		}
	}
	for it := img.configs.Iterator(); !it.Done(); {
		r, entries, _ := it.Next()
		for _, e := range entries {
			fmt.Fprintf(&b, "config %s %s=%s\n", r, e.Key, e.Value)
		}
	}
	for id, e := range img.RecoveryElections() {
		fmt.Fprintf(&b, "recovery of %s-%d %s\n", id.Topic, id.Partition, e)
	}
	for name, level := range img.FeatureLevels() {
		fmt.Fprintf(&b, "feature %s level %d\n", name, level)
	}
	for q := range img.Quotas() {
		fmt.Fprintf(&b, "quota of %s %s=%v\n", q.Entity, q.Key, q.Value)
	}
	for a := range img.Answers() {
		fmt.Fprintf(&b, "answer at %d to %s %s, %d bytes\n", a.Offset, a.Kind, a.RequestID, len(a.Body))
	}
	if img.nextProducerID > 0 {
		fmt.Fprintf(&b, "next producer id %d\n", img.nextProducerID)
	}
	return b.String()
}

// String returns the election and what it may have cost on one line.
func (e *RecoveryElection) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "leader %d epoch %d log end %d/%d missing %v", e.Leader, e.LeaderEpoch, e.LastLeaderEpoch, e.LogEndOffset, e.Missing)
	for _, l := range e.Late {
		fmt.Fprintf(&b, " late %d with %d..%d/%d", l.Broker, l.LogStartOffset, l.LastLeaderEpoch, l.LogEndOffset)
	}
	return b.String()
}

// String returns the partition's state on one line; what is usual is left out.
func (p Partition) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "leader %d epoch %d/%d replicas %v isr %v", p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.Replicas, p.ISR)
	for _, l := range []struct {
		name string
		ids  []int32
	}{{"adding", p.Adding}, {"removing", p.Removing}, {"elr", p.ELR}, {"last known elr", p.LastKnownELR}} {
		if len(l.ids) > 0 {
			fmt.Fprintf(&b, " %s %v", l.name, l.ids)
		}
	}
	if p.Recovering {
		b.WriteString(" recovering")
	}
	if p.AwaitingInventory {
		b.WriteString(" awaiting inventory")
	}
	if len(p.Directories) > 0 {
		fmt.Fprintf(&b, " directories %v", p.Directories)
	}
	return b.String()
}

// state is the broker's control state in one word or two.
func (b *Broker) state() string {
	switch {
	case b.Fenced && b.InControlledShutdown:
		return "fenced in controlled shutdown"
	case b.Fenced:
		return "fenced"
	case b.InControlledShutdown:
		return "in controlled shutdown"
	default:
		return "active"
	}
}

func describeRack(b *Broker) string {
	if !b.HasRack {
		return ""
	}
	return fmt.Sprintf(" rack %q", b.Rack)
}

func describeListeners(list []Listener) string {
	var b strings.Builder
	for _, l := range list {
		fmt.Fprintf(&b, " %s://%s", l.Name, l.Address())
	}
	return b.String()
}
