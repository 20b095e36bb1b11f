package fsm

import (
	"fmt"
	"slices"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// NoLeader is the leader of a partition that has none.
const NoLeader int32 = -1

// maxReplicas bounds the replicas of a partition (I20), so that its record fits a frame of a snapshot.
const maxReplicas = 1024

// PartitionID names a partition.
type PartitionID struct {
	// Topic is the topic's id.
	Topic UUID
	// Partition from 0.
	Partition int32
}

// Partition is the state of one partition. A value taken from an image is the reader's own copy.
type Partition struct {
	// Replicas in order of preference; the first is the preferred leader.
	Replicas []int32
	// ISR in the order in which the leader wrote it. Invariant: I8.
	ISR []int32
	// Adding arrive and Removing leave when the running reassignment completes. Invariant: subsets of Replicas,
	// disjoint.
	Adding, Removing []int32
	// Leader is a broker id or NoLeader. Invariant: in ISR or NoLeader (I8).
	Leader int32
	// LeaderEpoch grows with every record that names a leader (I9).
	LeaderEpoch int32
	// PartitionEpoch grows by one with every change (I9).
	PartitionEpoch int32
	// Recovering is Kafka's leader recovery state RECOVERING: the leader came from an unclean election.
	Recovering bool
	// AwaitingInventory: no ISR is known until the replicas have reported their logs. Invariant: then there is
	// neither leader nor ISR.
	AwaitingInventory bool
	// ELR is KIP-966's eligible leader replicas, LastKnownELR its last known leader. Invariant: ELR is a subset of
	// Replicas and disjoint from ISR (I8).
	ELR, LastKnownELR []int32
	// Directories of the replicas in the order of Replicas; empty when none is known.
	Directories []UUID
}

// Record returns the partition as the record that states it.
func (p *Partition) Record(id PartitionID) *metadatav1.Partition {
	return &metadatav1.Partition{
		TopicId:                id.Topic.Bytes(),
		PartitionId:            id.Partition,
		Replicas:               p.Replicas,
		Isr:                    p.ISR,
		RemovingReplicas:       p.Removing,
		AddingReplicas:         p.Adding,
		Leader:                 p.Leader,
		LeaderEpoch:            p.LeaderEpoch,
		PartitionEpoch:         p.PartitionEpoch,
		Recovering:             p.Recovering,
		AwaitingInventory:      p.AwaitingInventory,
		EligibleLeaderReplicas: p.ELR,
		LastKnownElr:           p.LastKnownELR,
		Directories:            uuidBytes(p.Directories),
	}
}

func partitionFromRecord(r *metadatav1.Partition) (Partition, error) {
	directories, err := uuidList("directory", r.GetDirectories())
	if err != nil {
		return Partition{}, err
	}
	return Partition{
		Replicas:          slices.Clone(r.GetReplicas()),
		ISR:               slices.Clone(r.GetIsr()),
		Adding:            slices.Clone(r.GetAddingReplicas()),
		Removing:          slices.Clone(r.GetRemovingReplicas()),
		Leader:            r.GetLeader(),
		LeaderEpoch:       r.GetLeaderEpoch(),
		PartitionEpoch:    r.GetPartitionEpoch(),
		Recovering:        r.GetRecovering(),
		AwaitingInventory: r.GetAwaitingInventory(),
		ELR:               slices.Clone(r.GetEligibleLeaderReplicas()),
		LastKnownELR:      slices.Clone(r.GetLastKnownElr()),
		Directories:       directories,
	}, nil
}

// equal compares by value; an empty list equals a nil one.
func (p *Partition) equal(q *Partition) bool {
	return slices.Equal(p.Replicas, q.Replicas) && slices.Equal(p.ISR, q.ISR) &&
		slices.Equal(p.Adding, q.Adding) && slices.Equal(p.Removing, q.Removing) &&
		p.Leader == q.Leader && p.LeaderEpoch == q.LeaderEpoch && p.PartitionEpoch == q.PartitionEpoch &&
		p.Recovering == q.Recovering && p.AwaitingInventory == q.AwaitingInventory &&
		slices.Equal(p.ELR, q.ELR) && slices.Equal(p.LastKnownELR, q.LastKnownELR) &&
		slices.Equal(p.Directories, q.Directories)
}

// check verifies what must hold of the partition alone; I7 also needs the registrations.
func (p *Partition) check(object partitionName) *Violation {
	if b := p.checkEpochs(object); b != nil {
		return b
	}
	if b := p.checkReplicaList(object); b != nil {
		return b
	}
	if b := p.checkEligible(object); b != nil {
		return b
	}
	return p.checkISR(object)
}

func (p *Partition) checkEpochs(object partitionName) *Violation {
	if p.LeaderEpoch < 0 || p.PartitionEpoch < 0 {
		return violation(9, object.String(), "leader epoch %d or partition epoch %d is negative", p.LeaderEpoch, p.PartitionEpoch)
	}
	return nil
}

// checkReplicaList verifies what is assigned, whoever leads.
func (p *Partition) checkReplicaList(object partitionName) *Violation {
	if len(p.Replicas) == 0 || len(p.Replicas) > maxReplicas {
		return violation(8, object.String(), "%d replicas, want 1 to %d", len(p.Replicas), maxReplicas)
	}
	for i, r := range p.Replicas {
		if r < 0 || slices.Contains(p.Replicas[:i], r) {
			return violation(8, object.String(), "replica %d of %v is negative or named twice", r, p.Replicas)
		}
	}
	if len(p.Directories) != 0 && len(p.Directories) != len(p.Replicas) {
		return violation(8, object.String(), "%d directories for %d replicas", len(p.Directories), len(p.Replicas))
	}
	if b := p.checkSubset(object, "adding", p.Adding); b != nil {
		return b
	}
	if b := p.checkSubset(object, "removing", p.Removing); b != nil {
		return b
	}
	if id, both := overlap(p.Adding, p.Removing); both {
		return violation(8, object.String(), "replica %d is both adding %v and removing %v", id, p.Adding, p.Removing)
	}
	return nil
}

func (p *Partition) checkSubset(object partitionName, name string, ids []int32) *Violation {
	if detail := subset(ids, p.Replicas); detail != "" {
		return violation(8, object.String(), "%s %v of replicas %v: %s", name, ids, p.Replicas, detail)
	}
	return nil
}

// checkEligible verifies the lists that a leader is taken from.
func (p *Partition) checkEligible(object partitionName) *Violation {
	if b := p.checkSubset(object, "ISR", p.ISR); b != nil {
		return b
	}
	if b := p.checkSubset(object, "ELR", p.ELR); b != nil {
		return b
	}
	if id, both := overlap(p.ISR, p.ELR); both {
		return violation(8, object.String(), "broker %d is in both ISR %v and ELR %v", id, p.ISR, p.ELR)
	}
	if len(p.LastKnownELR) > maxReplicas {
		return violation(8, object.String(), "last known ELR has %d brokers, at most %d", len(p.LastKnownELR), maxReplicas)
	}
	return nil
}

func (p *Partition) checkISR(object partitionName) *Violation {
	if p.Leader != NoLeader && !slices.Contains(p.ISR, p.Leader) {
		return violation(8, object.String(), "leader %d is not in ISR %v", p.Leader, p.ISR)
	}
	if p.AwaitingInventory && (p.Leader != NoLeader || len(p.ISR) != 0) {
		return violation(8, object.String(), "awaits inventory with leader %d and ISR %v", p.Leader, p.ISR)
	}
	if len(p.ISR) == 0 && !p.AwaitingInventory && len(p.ELR) == 0 && len(p.LastKnownELR) == 0 {
		return violation(8, object.String(), "ISR is empty without ELR and without awaiting inventory")
	}
	if p.Recovering && len(p.ISR) > 1 {
		return violation(8, object.String(), "recovering with ISR %v of more than one member", p.ISR)
	}
	return nil
}

// subset says what keeps list from being a duplicate-free subset of of, "" if nothing does.
func subset(list, of []int32) string {
	if len(list) > len(of) {
		return "more members than replicas"
	}
	for i, id := range list {
		if !slices.Contains(of, id) {
			return fmt.Sprintf("%d is no replica", id)
		}
		if slices.Contains(list[:i], id) {
			return fmt.Sprintf("%d is named twice", id)
		}
	}
	return ""
}

// overlap returns a member that both lists have.
func overlap(a, b []int32) (int32, bool) {
	for _, id := range a {
		if slices.Contains(b, id) {
			return id, true
		}
	}
	return 0, false
}
