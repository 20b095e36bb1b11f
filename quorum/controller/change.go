package controller

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// noLeader stands for "nobody leads the partition".
const noLeader int32 = -1

// election says how far an election may go to find a leader.
type election int

const (
	// electOnline keeps the leader if it may stay, else takes the first ISR member in replica order.
	electOnline election = iota
	// electPreferred tries the first replica before it does the same. It is never unclean.
	electPreferred
	// electUnclean does the same as electOnline and then, at the cost of records, takes any replica that is up.
	electUnclean
)

// change turns what a decision wants of one partition into the record that says so. It is the only place that builds
// a PartitionChange: targets go in, epochs are bumped by which fields come out (I9).
type change struct {
	id  fsm.PartitionID
	was fsm.Partition
	// isr is the target. Empty means that the last member is taken out, which is not done while ELR is off.
	isr []int32
	// recovering is the target of the leader recovery state.
	recovering bool
	election   election
	// mayLead tells whether a broker is up, as it will be when the decision has taken effect.
	mayLead func(broker int32) bool
}

// newChange begins with the partition as it is.
func newChange(id fsm.PartitionID, was fsm.Partition, mayLead func(int32) bool) *change {
	return &change{id: id, was: was, isr: was.ISR, recovering: was.Recovering, mayLead: mayLead}
}

// record returns the change, or nil when nothing would change.
func (c *change) record() *metadatav1.PartitionChange {
	isr, recovering := c.isr, c.recovering
	leader, unclean := c.elect()
	if unclean {
		isr, recovering = []int32{leader}, true
	}
	if len(isr) == 0 {
		isr = c.lastMember()
	}
	rec := &metadatav1.PartitionChange{TopicId: c.id.Topic.Bytes(), PartitionId: c.id.Partition}
	changed := false
	if leader != c.was.Leader {
		rec.Leader, changed = proto.Int32(leader), true
	}
	if !slices.Equal(isr, c.was.ISR) {
		rec.Isr, changed = &metadatav1.BrokerIDs{Ids: slices.Clone(isr)}, true
	}
	if recovering != c.was.Recovering {
		rec.Recovering, changed = proto.Bool(recovering), true
	}
	if !changed {
		return nil
	}
	return rec
}

// elect finds the leader. An election never looks at log lengths: every ISR member has every committed record.
func (c *change) elect() (leader int32, unclean bool) {
	if c.was.AwaitingInventory {
		return c.was.Leader, false // nobody knows the ISR yet; the inventories will decide
	}
	for _, id := range c.candidates() {
		if slices.Contains(c.isr, id) && c.mayLead(id) {
			return id, false
		}
	}
	if c.election != electUnclean {
		return noLeader, false
	}
	for _, id := range c.was.Replicas {
		if c.mayLead(id) {
			return id, true
		}
	}
	return noLeader, false
}

// candidates are the replicas in the order in which a clean election asks them.
func (c *change) candidates() []int32 {
	order := make([]int32, 0, len(c.was.Replicas)+2)
	if c.election == electPreferred {
		order = append(order, c.was.Replicas[0])
	}
	if c.was.Leader != noLeader {
		order = append(order, c.was.Leader)
	}
	return append(order, c.was.Replicas...)
}

// lastMember is the ISR of a partition that loses all its members. With ELR off one of them stays, so that a clean
// leader can be found when it comes back: the leader, whose log is the longest, else the first in replica order.
func (c *change) lastMember() []int32 {
	if slices.Contains(c.was.ISR, c.was.Leader) {
		return []int32{c.was.Leader}
	}
	for _, id := range c.was.Replicas {
		if slices.Contains(c.was.ISR, id) {
			return []int32{id}
		}
	}
	return nil // the ISR was empty
}

// after is the partition as it will be.
func (c *change) after() fsm.Partition { return after(c.was, c.record()) }

// after is the partition once rec is folded: the answer to give to its leader.
func after(was fsm.Partition, rec *metadatav1.PartitionChange) fsm.Partition {
	now := was
	if rec == nil {
		return now
	}
	now.PartitionEpoch++
	if rec.Leader != nil {
		now.Leader = rec.GetLeader()
		now.LeaderEpoch++
	}
	if rec.Isr != nil {
		now.ISR = rec.GetIsr().GetIds()
	}
	if rec.Recovering != nil {
		now.Recovering = rec.GetRecovering()
	}
	return now
}

func changeRecord(rec *metadatav1.PartitionChange) *metadatav1.Record {
	return &metadatav1.Record{Kind: &metadatav1.Record_PartitionChange{PartitionChange: rec}}
}

func without(ids []int32, gone ...int32) []int32 {
	kept := make([]int32, 0, len(ids))
	for _, id := range ids {
		if !slices.Contains(gone, id) {
			kept = append(kept, id)
		}
	}
	return kept
}
