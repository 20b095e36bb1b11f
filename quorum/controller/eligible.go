package controller

import (
	"slices"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
)

// eligibility is what an election has to know of KIP-966; the zero value is that it is off.
type eligibility struct {
	// elr says that the feature is on.
	elr bool
	// minISR is the topic's min.insync.replicas.
	minISR int
	// lost brokers came back without proof that they have what they had: they are in no list of eligible replicas.
	lost []int32
}

// eligibility of the partitions of a topic.
func (e *Env) eligibility(img *fsm.Image, topic fsm.UUID, lost []int32) eligibility {
	if img.FeatureLevel(fsm.FeatureELR) == 0 {
		return eligibility{}
	}
	minISR := 1
	if t, ok := img.Topic(topic); ok {
		minISR = int(topicconfig.Of(img, e.Defaults.Topics, t.Name()).MinInSyncReplicas)
	}
	return eligibility{elr: true, minISR: minISR, lost: lost}
}

// change begins a change of a partition.
func (e *Env) change(img *fsm.Image, id fsm.PartitionID, was fsm.Partition, mayLead func(int32) bool) *change {
	c := newChange(id, was, mayLead)
	c.eligibility = e.eligibility(img, id.Topic, nil)
	return c
}

// eligible are the lists of KIP-966 for the target ISR (PartitionChangeBuilder.populateTargetElr). Whoever was in the
// ISR when it was large enough has every committed record, until it proves otherwise or the ISR is large enough again.
func (c *change) eligible() (elr, lastKnown []int32) {
	if !c.elr || c.was.AwaitingInventory || len(c.isr) >= min(c.minISR, len(c.replicas)) {
		return nil, nil
	}
	for _, id := range c.replicas {
		member := slices.Contains(c.was.ISR, id) || slices.Contains(c.was.ELR, id)
		if member && !slices.Contains(c.isr, id) && !slices.Contains(c.lost, id) {
			elr = append(elr, id)
		}
	}
	return c.sameOrder(elr), c.was.LastKnownELR
}

// sameOrder keeps the order of the present list when it has the same members, so that nothing changes by it.
func (c *change) sameOrder(elr []int32) []int32 {
	if len(elr) != len(c.was.ELR) || len(without(c.was.ELR, elr...)) > 0 {
		return elr
	}
	return c.was.ELR
}

// lastKnownLeader is the leader of a partition that has neither ISR nor eligible replicas: the one that led it last, if
// it is up. It may have lost records.
func (c *change) lastKnownLeader(elr, lastKnown []int32) (int32, bool) {
	if !c.elr || len(c.isr) > 0 || len(elr) > 0 || len(lastKnown) != 1 {
		return noLeader, false
	}
	id := lastKnown[0]
	return id, slices.Contains(c.replicas, id) && c.mayLead(id)
}

// keepLast writes down what is known of a partition that loses its last ISR member: with ELR off that member itself,
// else who led last.
func (c *change) keepLast(now *fsm.Partition) {
	if !c.elr {
		now.ISR, now.ELR, now.LastKnownELR = c.lastMember(), nil, nil
		if len(now.ISR) == 0 { // it was empty when ELR was on, and what is known stays known
			now.ELR, now.LastKnownELR = c.was.ELR, c.was.LastKnownELR
		}
		return
	}
	if len(c.was.ISR) == 0 {
		return
	}
	if last := c.lastMember(); len(last) > 0 {
		now.LastKnownELR = last
	}
}
