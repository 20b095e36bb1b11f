package controller

import (
	"slices"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// AlterPartitions judges the ISR changes that a leader proposes (Kafka's AlterPartition). Each partition is judged
// alone. The answer is the state after the change.
func AlterPartitions(img *fsm.Image, env *Env, req *controllerv1.AlterPartitionsRequest) Decision[*controllerv1.AlterPartitionsResponse] {
	b, ok := holder(img, req.GetBrokerId(), req.GetBrokerEpoch())
	if !ok {
		stale := staleBroker(b, req.GetBrokerId(), req.GetBrokerEpoch())
		return refuse[*controllerv1.AlterPartitionsResponse](stale.GetCode(), "%s", stale.GetMessage())
	}
	v := newView(img)
	var records []*metadatav1.Record
	reply := &controllerv1.AlterPartitionsResponse{}
	for _, item := range req.GetPartitions() {
		result, rec := env.alterPartition(v, b.ID, item)
		reply.Partitions = append(reply.Partitions, result)
		if rec != nil {
			records = append(records, changeRecord(rec))
		}
	}
	// Partitions do not depend on each other, so that a request may span batches.
	return Decision[*controllerv1.AlterPartitionsResponse]{Batches: env.batches(img, alterReason(img, b.ID, records), records), Reply: reply}
}

func alterReason(img *fsm.Image, leader int32, records []*metadatav1.Record) *metadatav1.Reason {
	if len(records) != 1 {
		return reason("isr_altered", "broker %d proposed the ISRs of %d partitions", leader, len(records))
	}
	rec := records[0].GetPartitionChange()
	name := ""
	if id, err := fsm.UUIDFromBytes(rec.GetTopicId()); err == nil {
		if t, ok := img.Topic(id); ok {
			name = t.Name()
		}
	}
	if rec.Isr == nil {
		return reason("isr_altered", "broker %d has recovered %s-%d", leader, name, rec.GetPartitionId())
	}
	return reason("isr_altered", "broker %d proposed the ISR %v of %s-%d", leader, rec.GetIsr().GetIds(), name, rec.GetPartitionId())
}

// view is an image as it will be after the changes that the request has led to so far.
type view struct {
	img     *fsm.Image
	changed map[fsm.PartitionID]fsm.Partition
}

func newView(img *fsm.Image) *view {
	return &view{img: img, changed: map[fsm.PartitionID]fsm.Partition{}}
}

func (v *view) partition(id fsm.PartitionID) (fsm.Partition, bool) {
	if p, ok := v.changed[id]; ok {
		return p, true
	}
	return v.img.Partition(id)
}

// alterPartition judges one proposal. The record is nil when nothing changes.
func (e *Env) alterPartition(v *view, sender int32, item *controllerv1.AlterPartition) (*controllerv1.AlterPartitionResult, *metadatav1.PartitionChange) {
	result := &controllerv1.AlterPartitionResult{TopicId: item.GetTopicId(), PartitionId: item.GetPartitionId()}
	topic, err := fsm.UUIDFromBytes(item.GetTopicId())
	if _, ok := v.img.Topic(topic); err != nil || !ok {
		result.Error = itemError(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_ID, "no topic has id %s", topic)
		return result, nil
	}
	id := fsm.PartitionID{Topic: topic, Partition: item.GetPartitionId()}
	was, ok := v.partition(id)
	if !ok {
		result.Error = itemError(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION,
			"topic %s has no partition %d", topic, item.GetPartitionId())
		return result, nil
	}
	if result.Error = checkProposal(v.img, was, sender, item); result.Error != nil {
		return result, nil
	}
	c := e.change(v.img, id, was, active(v.img))
	c.isr = memberIDs(item.GetNewIsr())
	c.recovering = item.GetRecovering()
	c.election = e.automatic(v.img, topic)
	rec := c.record()
	now := after(was, rec)
	v.changed[id] = now
	if now.Leader != sender { // by a reassignment that this change completes
		result.Error = itemError(controllerv1.ErrorCode_ERROR_CODE_NEW_LEADER_ELECTED,
			"the change was made, and by it the leadership moved from broker %d to %d", sender, now.Leader)
		return result, rec
	}
	result.Leader, result.LeaderEpoch = now.Leader, now.LeaderEpoch
	result.Isr, result.PartitionEpoch, result.Recovering = slices.Clone(now.ISR), now.PartitionEpoch, now.Recovering
	return result, rec
}

func memberIDs(members []*controllerv1.ISRMember) []int32 {
	ids := make([]int32, len(members))
	for i, m := range members {
		ids[i] = m.GetBrokerId()
	}
	return ids
}

// checkProposal runs Kafka's checks in Kafka's order (ReplicationControlManager.validateAlterPartitionData).
func checkProposal(img *fsm.Image, was fsm.Partition, sender int32, item *controllerv1.AlterPartition) *controllerv1.Error {
	switch {
	case item.GetLeaderEpoch() > was.LeaderEpoch:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER,
			"leader epoch %d is newer than the controller's %d", item.GetLeaderEpoch(), was.LeaderEpoch)
	case item.GetPartitionEpoch() > was.PartitionEpoch:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER,
			"partition epoch %d is newer than the controller's %d", item.GetPartitionEpoch(), was.PartitionEpoch)
	case item.GetLeaderEpoch() < was.LeaderEpoch:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH,
			"leader epoch %d is over, it is now %d", item.GetLeaderEpoch(), was.LeaderEpoch)
	case sender != was.Leader:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
			"broker %d does not lead the partition, broker %d does", sender, was.Leader)
	case item.GetPartitionEpoch() < was.PartitionEpoch:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION,
			"partition epoch %d is over, it is now %d", item.GetPartitionEpoch(), was.PartitionEpoch)
	}
	isr := memberIDs(item.GetNewIsr())
	if err := checkISR(was, sender, isr); err != nil {
		return err
	}
	switch {
	case item.GetRecovering() && len(isr) > 1:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
			"the ISR %v has %d members, while the leader recovers it has one", isr, len(isr))
	case item.GetRecovering() && !was.Recovering:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "a recovered partition cannot be set to recovering")
	}
	return checkEligible(img, item.GetNewIsr())
}

func checkISR(was fsm.Partition, leader int32, isr []int32) *controllerv1.Error {
	for i, id := range isr {
		if id < 0 || !slices.Contains(was.Replicas, id) || slices.Contains(isr[:i], id) {
			return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
				"the ISR %v is not a set of the replicas %v", isr, was.Replicas)
		}
	}
	if !slices.Contains(isr, leader) {
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "the ISR %v is without the leader %d", isr, leader)
	}
	return nil
}

// checkEligible refuses members that the controller knows to be down or to be another incarnation than the one that
// the leader saw: such a member does not have what the leader believes it has.
func checkEligible(img *fsm.Image, members []*controllerv1.ISRMember) *controllerv1.Error {
	const ineligible = controllerv1.ErrorCode_ERROR_CODE_INELIGIBLE_REPLICA
	for _, m := range members {
		b, ok := img.Broker(m.GetBrokerId())
		switch {
		case !ok:
			return itemError(ineligible, "broker %d is not registered", m.GetBrokerId())
		case b.InControlledShutdown:
			return itemError(ineligible, "broker %d is shutting down", b.ID)
		case b.Fenced:
			return itemError(ineligible, "broker %d is fenced", b.ID)
		case m.GetBrokerEpoch() != -1 && m.GetBrokerEpoch() != b.Epoch:
			return itemError(ineligible, "broker %d is registered with broker epoch %d, the leader saw %d", b.ID, b.Epoch, m.GetBrokerEpoch())
		}
	}
	return nil
}
