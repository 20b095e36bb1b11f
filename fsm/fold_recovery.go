package fsm

import (
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// lineageConfirmed ends the time in which users' changes are refused. It does so once: a second record would say
// that somebody has decided on another image.
func (f *fold) lineageConfirmed() error {
	if !f.img.unconfirmed {
		return violation(0, "lineage", "%s is confirmed already", f.img.lineage.ID)
	}
	f.img.unconfirmed = false
	f.confirmed = true
	return nil
}

// recoveryElected states an election that this entry or an earlier one made, or adds late reports to it.
func (f *fold) recoveryElected(r *metadatav1.RecoveryElected) error {
	t, err := f.topicNow(r.GetTopicId())
	if err != nil {
		return err
	}
	object := partitionName{t.name, r.GetPartitionId()}
	p, ok := t.Partition(r.GetPartitionId())
	if !ok {
		return violation(0, object.String(), "does not exist")
	}
	e, err := recoveryFromRecord(r)
	if err != nil {
		return violation(0, object.String(), "recovery election: %v", err)
	}
	id := PartitionID{Topic: t.id, Partition: r.GetPartitionId()}
	old, stated := f.img.recoveries.Get(id)
	switch {
	case stated && old.LeaderEpoch == e.LeaderEpoch:
		if err := e.continues(old); err != nil {
			return violation(0, object.String(), "recovery election: %v", err)
		}
	case e.Leader != p.Leader || e.LeaderEpoch != p.LeaderEpoch:
		return violation(9, object.String(), "recovery election of leader %d in leader epoch %d, but it is %d in %d", e.Leader, e.LeaderEpoch, p.Leader, p.LeaderEpoch)
	case subset(e.Missing, p.Replicas) != "":
		return violation(8, object.String(), "recovery election: missing %v of replicas %v: %s", e.Missing, p.Replicas, subset(e.Missing, p.Replicas))
	}
	f.setRecovery(id, e)
	return nil
}

// topicNow returns a topic as the records so far left it, without making it one that the entry changes.
func (f *fold) topicNow(raw []byte) (*Topic, error) {
	id, err := requireUUID("topic id", raw)
	if err != nil {
		return nil, violation(0, "topic", "%v", err)
	}
	if e, edited := f.edits[id]; edited && e.after != nil {
		return e.after, nil
	} else if t, ok := f.img.topics.Get(id); ok && !edited {
		return t, nil
	}
	return nil, violation(0, "topic "+id.String(), "does not exist")
}

// setRecovery replaces what is stated of a partition's election, nil removes it.
func (f *fold) setRecovery(id PartitionID, e *RecoveryElection) {
	if old, ok := f.img.recoveries.Get(id); ok {
		f.remove(old.sum(id))
	} else if e == nil {
		return
	}
	put(&f.recoveries, id, struct{}{})
	if e == nil {
		f.img.recoveries = f.img.recoveries.Delete(id)
		return
	}
	f.add(e.sum(id))
	f.img.recoveries = f.img.recoveries.Set(id, e)
}

// removeRecoveries forgets the elections of a topic that is removed.
func (f *fold) removeRecoveries(t *Topic) {
	if f.img.recoveries.Len() == 0 {
		return
	}
	for i := range t.count {
		f.setRecovery(PartitionID{Topic: t.id, Partition: i}, nil)
	}
}
