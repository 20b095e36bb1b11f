package fsm

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// RecoveryElection is an election from inventories that was made although not every replica had reported, and what is
// known of what that may have cost. It is immutable once an image holds it.
type RecoveryElection struct {
	// Leader that was elected, with this LeaderEpoch.
	Leader, LeaderEpoch int32
	// LastLeaderEpoch and LogEndOffset of the elected log at the election; the epoch is -1 for an empty log. What another
	// replica had beyond them is at stake.
	LastLeaderEpoch int32
	LogEndOffset    int64
	// Missing replicas had not reported. Invariant: at least one, each once, without Leader.
	Missing []int32
	// Late are the first reports that missing replicas made after the election, by broker.
	Late []LateInventory
}

// LateInventory is what a missing replica turned out to have.
type LateInventory struct {
	// Broker of the replica.
	Broker int32
	// LastLeaderEpoch in its log, -1 for an empty or absent one.
	LastLeaderEpoch int32
	// LogStartOffset and LogEndOffset of its log.
	LogStartOffset, LogEndOffset int64
}

// Record returns the election as the record that states it.
func (e *RecoveryElection) Record(id PartitionID) *metadatav1.RecoveryElected {
	r := &metadatav1.RecoveryElected{
		TopicId:         id.Topic.Bytes(),
		PartitionId:     id.Partition,
		Leader:          e.Leader,
		LeaderEpoch:     e.LeaderEpoch,
		LastLeaderEpoch: e.LastLeaderEpoch,
		LogEndOffset:    e.LogEndOffset,
		Missing:         e.Missing,
	}
	for _, l := range e.Late {
		r.Late = append(r.Late, &metadatav1.LateInventory{
			BrokerId: l.Broker, LastLeaderEpoch: l.LastLeaderEpoch, LogStartOffset: l.LogStartOffset, LogEndOffset: l.LogEndOffset,
		})
	}
	return r
}

// recoveryFromRecord reads a record that is sound in itself.
func recoveryFromRecord(r *metadatav1.RecoveryElected) (*RecoveryElection, error) {
	e := &RecoveryElection{
		Leader:          r.GetLeader(),
		LeaderEpoch:     r.GetLeaderEpoch(),
		LastLeaderEpoch: r.GetLastLeaderEpoch(),
		LogEndOffset:    r.GetLogEndOffset(),
		Missing:         slices.Clone(r.GetMissing()),
	}
	for _, l := range r.GetLate() {
		e.Late = append(e.Late, LateInventory{
			Broker: l.GetBrokerId(), LastLeaderEpoch: l.GetLastLeaderEpoch(), LogStartOffset: l.GetLogStartOffset(), LogEndOffset: l.GetLogEndOffset(),
		})
	}
	return e, e.check()
}

func (e *RecoveryElection) check() error {
	if e.Leader < 0 || e.LeaderEpoch < 0 {
		return fmt.Errorf("leader %d with leader epoch %d", e.Leader, e.LeaderEpoch)
	}
	if e.LastLeaderEpoch < -1 || e.LogEndOffset < 0 {
		return fmt.Errorf("last leader epoch %d, log end offset %d", e.LastLeaderEpoch, e.LogEndOffset)
	}
	if len(e.Missing) == 0 || len(e.Missing) > maxReplicas {
		return fmt.Errorf("%d missing replicas, want 1 to %d", len(e.Missing), maxReplicas)
	}
	for i, id := range e.Missing {
		if id < 0 || id == e.Leader || slices.Contains(e.Missing[:i], id) {
			return fmt.Errorf("missing replica %d of %v is negative, the leader or named twice", id, e.Missing)
		}
	}
	return e.checkLate()
}

func (e *RecoveryElection) checkLate() error {
	for i, l := range e.Late {
		if !slices.Contains(e.Missing, l.Broker) {
			return fmt.Errorf("broker %d is late and was not missing", l.Broker)
		}
		if i > 0 && e.Late[i-1].Broker >= l.Broker {
			return errors.New("late reports are not in order of the brokers")
		}
		if l.LastLeaderEpoch < -1 || l.LogStartOffset < 0 || l.LogEndOffset < l.LogStartOffset {
			return fmt.Errorf("late broker %d: last leader epoch %d, log from %d to %d", l.Broker, l.LastLeaderEpoch, l.LogStartOffset, l.LogEndOffset)
		}
	}
	return nil
}

// continues says why e cannot replace old: only late reports are added to an election.
func (e *RecoveryElection) continues(old *RecoveryElection) error {
	if e.Leader != old.Leader || e.LastLeaderEpoch != old.LastLeaderEpoch || e.LogEndOffset != old.LogEndOffset || !slices.Equal(e.Missing, old.Missing) {
		return fmt.Errorf("the election in leader epoch %d is already stated otherwise", old.LeaderEpoch)
	}
	if len(e.Late) <= len(old.Late) {
		return fmt.Errorf("%d late reports after %d", len(e.Late), len(old.Late))
	}
	for _, l := range old.Late {
		if !slices.Contains(e.Late, l) {
			return fmt.Errorf("the late report of broker %d is changed", l.Broker)
		}
	}
	return nil
}

// checkRecoveries verifies that every election is one that a fold would have taken.
func checkRecoveries(img *Image) *Violation {
	for id, e := range img.RecoveryElections() {
		if v := checkRecovery(img, id, e); v != nil {
			return v
		}
	}
	return nil
}

func checkRecovery(img *Image, id PartitionID, e *RecoveryElection) *Violation {
	object := fmt.Sprintf("recovery election of %s-%d", id.Topic, id.Partition)
	if err := e.check(); err != nil {
		return violation(0, object, "%v", err)
	}
	p, ok := img.Partition(id)
	if !ok {
		return violation(0, object, "the partition does not exist")
	}
	if e.LeaderEpoch > p.LeaderEpoch {
		return violation(9, object, "leader epoch %d is above the partition's %d", e.LeaderEpoch, p.LeaderEpoch)
	}
	return nil
}

// RecoveryElection returns the last election of a partition that was made without every inventory.
func (img *Image) RecoveryElection(id PartitionID) (*RecoveryElection, bool) {
	return img.recoveries.Get(id)
}

// NumRecoveryElections returns the number of partitions that had such an election.
func (img *Image) NumRecoveryElections() int { return img.recoveries.Len() }

// RecoveryElections yields these elections by topic id and partition.
func (img *Image) RecoveryElections() iter.Seq2[PartitionID, *RecoveryElection] {
	return func(yield func(PartitionID, *RecoveryElection) bool) {
		for it := img.recoveries.Iterator(); !it.Done(); {
			if id, e, _ := it.Next(); !yield(id, e) {
				return
			}
		}
	}
}

func comparePartitions(a, b PartitionID) int {
	return cmp.Or(byUUID(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
