package fsm

import (
	"errors"
	"fmt"
	"math"
	"slices"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// changed returns the partition after a change, with the epochs that I9 demands.
func (p *Partition) changed(r *metadatav1.PartitionChange) (Partition, error) {
	q := p.clone()
	if !q.replaceLists(r) && r.Leader == nil && r.Recovering == nil && r.AwaitingInventory == nil {
		return Partition{}, errors.New("the change states nothing")
	}
	if r.Directories != nil {
		list, err := uuidList("directory", r.GetDirectories().GetUuids())
		if err != nil {
			return Partition{}, err
		}
		q.Directories = list
	}
	if r.Recovering != nil {
		q.Recovering = r.GetRecovering()
	}
	if r.AwaitingInventory != nil {
		q.AwaitingInventory = r.GetAwaitingInventory()
	}
	if p.PartitionEpoch == math.MaxInt32 {
		return Partition{}, fmt.Errorf("partition epoch %d cannot grow", p.PartitionEpoch)
	}
	q.PartitionEpoch++
	if err := q.elect(p, r); err != nil {
		return Partition{}, err
	}
	return q, nil
}

// elect sets leader and leader epoch: every record that names a leader raises the epoch, even when it is the same
// leader, and only the election that ends awaiting inventory may raise it by more than one.
func (p *Partition) elect(old *Partition, r *metadatav1.PartitionChange) error {
	if r.Leader == nil {
		if r.LeaderEpoch != nil {
			return fmt.Errorf("leader epoch %d without a leader", r.GetLeaderEpoch())
		}
		return nil
	}
	p.Leader = r.GetLeader()
	if r.LeaderEpoch != nil {
		if !old.AwaitingInventory || p.AwaitingInventory {
			return fmt.Errorf("leader epoch %d is stated although no wait for inventory ends", r.GetLeaderEpoch())
		}
		if r.GetLeaderEpoch() <= old.LeaderEpoch {
			return fmt.Errorf("leader epoch %d after %d", r.GetLeaderEpoch(), old.LeaderEpoch)
		}
		p.LeaderEpoch = r.GetLeaderEpoch()
		return nil
	}
	if old.LeaderEpoch == math.MaxInt32 {
		return fmt.Errorf("leader epoch %d cannot grow", old.LeaderEpoch)
	}
	p.LeaderEpoch++
	return nil
}

// replaceLists takes over the lists that are present; it reports whether any is.
func (p *Partition) replaceLists(r *metadatav1.PartitionChange) bool {
	present := r.Directories != nil
	for _, l := range []struct {
		to   *[]int32
		from *metadatav1.BrokerIDs
	}{
		{&p.ISR, r.GetIsr()},
		{&p.Replicas, r.GetReplicas()},
		{&p.Removing, r.GetRemovingReplicas()},
		{&p.Adding, r.GetAddingReplicas()},
		{&p.ELR, r.GetEligibleLeaderReplicas()},
		{&p.LastKnownELR, r.GetLastKnownElr()},
	} {
		if l.from != nil {
			*l.to = slices.Clone(l.from.GetIds())
			present = true
		}
	}
	return present
}
