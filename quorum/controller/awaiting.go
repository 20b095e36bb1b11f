package controller

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// maxListed bounds the items of one kind in an answer (I20), so that it fits a message. The totals are told besides.
const maxListed = 10_000

// recoveryWaitLeft is how long the operator is asked to wait for brokers that have not reported.
func (e *Env) recoveryWaitLeft() time.Duration {
	if e.Inventories == nil {
		return e.Limits.RecoveryElectionWait
	}
	return max(0, e.Inventories.since.Add(e.Limits.RecoveryElectionWait).Sub(e.Now))
}

// ListAwaiting tells the operator which partitions have no leader for want of inventories, whom they wait for, and which
// elections were made without all of them, at what cost.
func ListAwaiting(img *fsm.Image, env *Env, _ *controllerv1.ListAwaitingRequest) Decision[*controllerv1.ListAwaitingResponse] {
	reply := &controllerv1.ListAwaitingResponse{
		Lineage:           img.Lineage().ID.Proto(),
		Confirmed:         img.Confirmed(),
		Awaiting:          int32(img.NumAwaiting()),          //nolint:gosec // no image has so many partitions
		RecoveryElections: int32(img.NumRecoveryElections()), //nolint:gosec // the same
	}
	missing := map[int32]int32{}
	for id := range img.Awaiting() {
		topic, _ := img.Topic(id.Topic)
		p, _ := topic.Partition(id.Partition)
		if len(reply.GetPartitions()) == maxListed {
			env.countUnreported(img, p.Replicas, missing) // there may be a million of them
			continue
		}
		b := env.newBallot(img, id, p)
		for _, broker := range b.missing {
			missing[broker]++
		}
		reply.Partitions = append(reply.Partitions, b.awaiting(topic))
	}
	if reply.GetAwaiting() > 0 {
		reply.WaitMs = env.recoveryWaitLeft().Milliseconds()
	}
	for _, broker := range slices.Sorted(maps.Keys(missing)) {
		b, known := img.Broker(broker)
		reply.MissingBrokers = append(reply.MissingBrokers, &controllerv1.MissingBroker{
			BrokerId: broker, Registered: known && b.Epoch != fsm.VoidEpoch, Partitions: missing[broker],
		})
	}
	for id, e := range img.RecoveryElections() {
		if topic, ok := img.Topic(id.Topic); ok && len(reply.GetElections()) < maxListed {
			reply.Elections = append(reply.Elections, electionTold(topic, id, e))
		}
	}
	slices.SortFunc(reply.Partitions, func(a, b *controllerv1.AwaitingPartition) int {
		return cmp.Or(strings.Compare(a.GetTopic(), b.GetTopic()), cmp.Compare(a.GetPartitionId(), b.GetPartitionId()))
	})
	slices.SortFunc(reply.Elections, func(a, b *controllerv1.RecoveryElection) int {
		return cmp.Or(strings.Compare(a.GetTopic(), b.GetTopic()), cmp.Compare(a.GetPartitionId(), b.GetPartitionId()))
	})
	return Decision[*controllerv1.ListAwaitingResponse]{Reply: reply}
}

// countUnreported counts the replicas whose brokers have not reported at all.
func (e *Env) countUnreported(img *fsm.Image, replicas []int32, missing map[int32]int32) {
	for _, broker := range replicas {
		if e.Inventories.of(img, broker) == nil {
			missing[broker]++
		}
	}
}

// awaiting is the partition as the operator sees it.
func (b *ballot) awaiting(topic *fsm.Topic) *controllerv1.AwaitingPartition {
	told := &controllerv1.AwaitingPartition{
		Topic: topic.Name(), TopicId: b.id.Topic.Bytes(), PartitionId: b.id.Partition,
		Replicas: b.p.Replicas, Missing: slices.Clone(b.missing), WouldElect: noLeader,
	}
	for _, r := range b.reports {
		told.Reports = append(told.Reports, r.held.told(r.broker, r.present))
	}
	if b.electable() {
		told.WouldElect = b.winner.broker
	}
	return told
}

func (h *heldReplica) told(broker int32, present bool) *controllerv1.ReplicaReport {
	return &controllerv1.ReplicaReport{
		BrokerId: broker, Present: present, LastLeaderEpoch: h.lastLeaderEpoch, LogStartOffset: h.start, LogEndOffset: h.end,
	}
}
