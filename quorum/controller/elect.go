package controller

import (
	"slices"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// active tells whether a broker may lead now.
func active(img *fsm.Image) func(int32) bool {
	return func(id int32) bool {
		b, ok := img.Broker(id)
		return ok && b.Active()
	}
}

// activeWithout is active, seen from after the brokers in gone are out.
func activeWithout(img *fsm.Image, gone []int32) func(int32) bool {
	now := active(img)
	return func(id int32) bool { return !slices.Contains(gone, id) && now(id) }
}

// activeWith is active, seen from after broker back is unfenced.
func activeWith(img *fsm.Image, back int32) func(int32) bool {
	now := active(img)
	return func(id int32) bool { return id == back || now(id) }
}

// automatic is the election that happens without anybody asking: unclean where the topic allows it.
func (e *Env) automatic(img *fsm.Image, topic fsm.UUID) election {
	t, ok := img.Topic(topic)
	if ok && topicconfig.UncleanLeaderElection(img, e.Defaults.Topics, t.Name()) {
		return electUnclean
	}
	return electOnline
}

// leaveISRs takes the brokers in gone out of every ISR and moves their leaderships, all decided together, so that no
// leadership moves to a broker that is about to go as well.
func (e *Env) leaveISRs(img *fsm.Image, gone []int32) []*metadatav1.Record {
	return e.leave(img, gone, nil)
}

// leave is leaveISRs; of the brokers in gone those in lost are no longer eligible either.
func (e *Env) leave(img *fsm.Image, gone, lost []int32) []*metadatav1.Record {
	var records []*metadatav1.Record
	seen := map[fsm.PartitionID]bool{}
	for _, broker := range gone {
		for id := range img.PartitionsOf(broker) {
			p, ok := img.Partition(id)
			if !ok || seen[id] || !leaves(p, broker, lost) {
				continue
			}
			seen[id] = true
			if rec := e.leaveISR(img, id, p, gone, lost).record(); rec != nil {
				records = append(records, changeRecord(rec))
			}
		}
	}
	return records
}

// leaves tells whether a broker that goes means anything to a partition.
func leaves(p fsm.Partition, broker int32, lost []int32) bool {
	return slices.Contains(p.ISR, broker) || p.Leader == broker || (slices.Contains(lost, broker) && slices.Contains(p.ELR, broker))
}

// leaveISR takes the brokers in gone out of one ISR, and those in lost out of the list of eligible replicas.
func (e *Env) leaveISR(img *fsm.Image, id fsm.PartitionID, p fsm.Partition, gone, lost []int32) *change {
	c := e.change(img, id, p, activeWithout(img, gone))
	c.lost = lost
	c.isr = without(p.ISR, gone...)
	c.election = e.automatic(img, id.Topic)
	return c
}

// electLeaderless looks for leaders of all partitions that have none.
func (e *Env) electLeaderless(img *fsm.Image, mayLead func(int32) bool) []*metadatav1.Record {
	var records []*metadatav1.Record
	for id := range img.Leaderless() {
		p, ok := img.Partition(id)
		if !ok {
			continue
		}
		c := e.change(img, id, p, mayLead)
		c.election = e.automatic(img, id.Topic)
		if rec := c.record(); rec != nil {
			records = append(records, changeRecord(rec))
		}
	}
	return records
}
