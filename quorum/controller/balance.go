package controller

import (
	"iter"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// BalanceLeaders gives partitions back to their preferred leaders (Kafka's electPreferred task), no more of them in one
// run than the limits allow. The reply tells whether another run has more to do. Nothing moves when the controller's
// auto.leader.rebalance.enable is off.
func BalanceLeaders(img *fsm.Image, env *Env) Decision[bool] {
	if !env.Defaults.AutoLeaderRebalance {
		return Decision[bool]{}
	}
	prefer := func(fsm.PartitionID) election { return electPreferred }
	why := reason("leaders_balanced", "partitions went back to their preferred leaders")
	return env.electSome(img, img.Imbalanced(), why, prefer)
}

// ElectLeaderless finds leaders for partitions that have none: clean ones, and unclean ones where the topic allows them
// (Kafka's electUnclean task). The events that take leaders away elect at once. This one is for topics whose
// configuration has changed since, and for a fencing of which a controller before this one committed only the first
// batches. The reply tells whether another run has more to do.
func ElectLeaderless(img *fsm.Image, env *Env) Decision[bool] {
	automatic := func(id fsm.PartitionID) election { return env.automatic(img, id.Topic) }
	why := reason("leaderless_elected", "partitions without a leader may have one")
	return env.electSome(img, img.Leaderless(), why, automatic)
}

// electSome holds elections until the run's limit is reached.
func (e *Env) electSome(img *fsm.Image, ids iter.Seq[fsm.PartitionID], why *metadatav1.Reason, kind func(fsm.PartitionID) election) Decision[bool] {
	mayLead := active(img)
	var records []*metadatav1.Record
	more := false
	for id := range ids {
		p, ok := img.Partition(id)
		if !ok {
			continue
		}
		c := e.change(img, id, p, mayLead)
		c.election = kind(id)
		rec := c.record()
		if rec == nil {
			continue
		}
		if more = len(records) == e.Limits.MaxElectionsPerRun; more {
			break
		}
		records = append(records, changeRecord(rec))
	}
	return Decision[bool]{Batches: e.batches(img, why, records), Reply: more}
}
