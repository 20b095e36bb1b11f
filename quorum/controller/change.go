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
// a PartitionChange: targets go in, epochs are bumped by which fields come out (I9). Its order is that of Kafka's
// PartitionChangeBuilder: complete a reassignment, find who stays eligible, elect.
type change struct {
	id  fsm.PartitionID
	was fsm.Partition
	// isr is the target. Empty means that the last member is taken out, which is not done while ELR is off.
	isr []int32
	// replicas, adding and removing are the targets of a reassignment.
	replicas, adding, removing []int32
	// recovering is the target of the leader recovery state.
	recovering bool
	election   election
	// mayLead tells whether a broker is up, as it will be when the decision has taken effect.
	mayLead func(broker int32) bool
	eligibility
}

// newChange begins with the partition as it is.
func newChange(id fsm.PartitionID, was fsm.Partition, mayLead func(int32) bool) *change {
	return &change{
		id: id, was: was, isr: was.ISR, recovering: was.Recovering, mayLead: mayLead,
		replicas: was.Replicas, adding: was.Adding, removing: was.Removing,
	}
}

// record returns the change, or nil when nothing would change.
func (c *change) record() *metadatav1.PartitionChange {
	now := c.decide()
	rec := &metadatav1.PartitionChange{TopicId: c.id.Topic.Bytes(), PartitionId: c.id.Partition}
	if now.Leader != c.was.Leader || c.dropsReplicas(now) {
		rec.Leader = proto.Int32(now.Leader)
	}
	for _, l := range []struct {
		to       **metadatav1.BrokerIDs
		was, now []int32
	}{
		{&rec.Isr, c.was.ISR, now.ISR},
		{&rec.Replicas, c.was.Replicas, now.Replicas},
		{&rec.AddingReplicas, c.was.Adding, now.Adding},
		{&rec.RemovingReplicas, c.was.Removing, now.Removing},
		{&rec.EligibleLeaderReplicas, c.was.ELR, now.ELR},
		{&rec.LastKnownElr, c.was.LastKnownELR, now.LastKnownELR},
	} {
		if !slices.Equal(l.was, l.now) {
			*l.to = &metadatav1.BrokerIDs{Ids: slices.Clone(l.now)}
		}
	}
	if now.Recovering != c.was.Recovering {
		rec.Recovering = proto.Bool(now.Recovering)
	}
	if rec.Replicas != nil && len(c.was.Directories) > 0 {
		rec.Directories = directoriesOf(c.was, now.Replicas)
	}
	if !states(rec) {
		return nil
	}
	return rec
}

// states tells whether a record says anything.
func states(rec *metadatav1.PartitionChange) bool {
	return rec.Leader != nil || rec.Isr != nil || rec.Replicas != nil || rec.AddingReplicas != nil || rec.RemovingReplicas != nil ||
		rec.EligibleLeaderReplicas != nil || rec.LastKnownElr != nil || rec.Recovering != nil
}

// decide finds what the partition will be, but for its epochs.
func (c *change) decide() fsm.Partition {
	c.complete()
	now := c.was
	now.Replicas, now.Adding, now.Removing = c.replicas, c.adding, c.removing
	now.ELR, now.LastKnownELR = c.eligible()
	leader, how := c.electAmong(now.ELR, now.LastKnownELR)
	now.Leader, now.ISR, now.Recovering = leader, c.isr, c.recovering
	switch how {
	case fromELR: // it has every committed record, so that nothing is lost
		now.ISR, now.ELR = []int32{leader}, without(now.ELR, leader)
	case uncleanly:
		now.ISR, now.Recovering, now.ELR, now.LastKnownELR = []int32{leader}, true, nil, nil
	case fromISR, nobody:
	}
	if len(now.ISR) == 0 && !c.was.AwaitingInventory {
		c.keepLast(&now)
	}
	return now
}

// dropsReplicas tells whether a replica is no longer one. Then the leader is stated even if it stays, so that whoever
// followed the old list takes notice (I9).
func (c *change) dropsReplicas(now fsm.Partition) bool {
	return slices.ContainsFunc(c.was.Replicas, func(id int32) bool { return !slices.Contains(now.Replicas, id) })
}

// directoriesOf keeps the directory of each replica by its id; a new one has none yet.
func directoriesOf(was fsm.Partition, replicas []int32) *metadatav1.DirectoryIDs {
	list := &metadatav1.DirectoryIDs{}
	for _, id := range replicas {
		var directory fsm.UUID
		if i := slices.Index(was.Replicas, id); i >= 0 {
			directory = was.Directories[i]
		}
		list.Uuids = append(list.Uuids, directory.Bytes())
	}
	return list
}

// elected says where a leader was found.
type elected int

const (
	nobody elected = iota
	fromISR
	fromELR
	uncleanly
)

// elect finds the leader when nobody is eligible but the ISR.
func (c *change) elect() (leader int32, unclean bool) {
	leader, how := c.electAmong(nil, nil)
	return leader, how == uncleanly
}

// electAmong finds the leader. An election never looks at log lengths: every ISR member, and every eligible replica of
// a partition whose ISR is empty, has every committed record.
func (c *change) electAmong(elr, lastKnown []int32) (int32, elected) {
	if c.was.AwaitingInventory {
		return c.was.Leader, nobody // nobody knows the ISR yet; the inventories will decide
	}
	for _, id := range c.candidates() {
		switch {
		case !slices.Contains(c.replicas, id) || !c.mayLead(id):
		case slices.Contains(c.isr, id):
			return id, fromISR
		case len(c.isr) == 0 && slices.Contains(elr, id):
			return id, fromELR
		}
	}
	if id, ok := c.lastKnownLeader(elr, lastKnown); ok {
		return id, uncleanly
	}
	if c.election != electUnclean {
		return noLeader, nobody
	}
	for _, id := range c.replicas {
		if c.mayLead(id) {
			return id, uncleanly
		}
	}
	return noLeader, nobody
}

// candidates are the replicas in the order in which a clean election asks them.
func (c *change) candidates() []int32 {
	order := make([]int32, 0, len(c.replicas)+2)
	if c.election == electPreferred {
		order = append(order, c.replicas[0])
	}
	if c.was.Leader != noLeader {
		order = append(order, c.was.Leader)
	}
	return append(order, c.replicas...)
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
	for _, l := range []struct {
		to   *[]int32
		from *metadatav1.BrokerIDs
	}{
		{&now.ISR, rec.GetIsr()},
		{&now.Replicas, rec.GetReplicas()},
		{&now.Adding, rec.GetAddingReplicas()},
		{&now.Removing, rec.GetRemovingReplicas()},
		{&now.ELR, rec.GetEligibleLeaderReplicas()},
		{&now.LastKnownELR, rec.GetLastKnownElr()},
	} {
		if l.from != nil {
			*l.to = l.from.GetIds()
		}
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
