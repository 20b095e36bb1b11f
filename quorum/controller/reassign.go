package controller

import (
	"slices"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// AlterReassignments starts and cancels moves of replicas (Kafka's AlterPartitionReassignments). Each partition is
// judged alone; the good ones take effect together. A partition that the request has twice is judged on what the first
// item leads to.
//
// A move makes the target and whoever leaves replicas together; the leader goes on. It is complete as soon as the ISR
// allows it (see [change.complete]), which for a new order alone is at once. There is no time limit to it.
func AlterReassignments(img *fsm.Image, env *Env, req *controllerv1.AlterReassignmentsRequest) Decision[*controllerv1.AlterReassignmentsResponse] {
	if refused := refuseUnconfirmed(img); refused != nil {
		return Decision[*controllerv1.AlterReassignmentsResponse]{Refused: refused}
	}
	m := &moving{view: newView(img), env: env, keepFactor: req.GetKeepReplicationFactor()}
	reply := &controllerv1.AlterReassignmentsResponse{}
	var records []*metadatav1.Record
	for _, item := range req.GetPartitions() {
		rec, err := m.move(item)
		reply.Partitions = append(reply.Partitions, &controllerv1.ReassignmentResult{
			Topic: item.GetTopic(), PartitionId: item.GetPartitionId(), Error: err,
		})
		if rec != nil {
			records = append(records, changeRecord(rec))
		}
	}
	batches, refused := env.oneBatch(img, m.reason(), records)
	if refused != nil {
		return Decision[*controllerv1.AlterReassignmentsResponse]{Refused: refused}
	}
	return Decision[*controllerv1.AlterReassignmentsResponse]{Batches: batches, Reply: reply}
}

// moving is one AlterReassignments request on its way to a decision.
type moving struct {
	*view
	env        *Env
	keepFactor bool
	// started and cancelled count for the reason.
	started, cancelled int
}

func (m *moving) reason() *metadatav1.Reason {
	switch {
	case m.cancelled == 0:
		return reason("reassignment_started", "moves of %d partitions were asked for", m.started)
	case m.started == 0:
		return reason("reassignment_cancelled", "moves of %d partitions were cancelled", m.cancelled)
	}
	return reason("reassignment_started", "moves of %d partitions were asked for, of %d cancelled", m.started, m.cancelled)
}

// move judges one partition. The record is nil when nothing changes.
func (m *moving) move(item *controllerv1.Reassignment) (*metadatav1.PartitionChange, *controllerv1.Error) {
	topic, ok := m.img.TopicByName(item.GetTopic())
	if !ok {
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "there is no topic %.60q", item.GetTopic())
	}
	id := fsm.PartitionID{Topic: topic.ID(), Partition: item.GetPartitionId()}
	was, ok := m.partition(id)
	if !ok {
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION,
			"topic %s has no partition %d", topic.Name(), item.GetPartitionId())
	}
	c := m.env.change(m.img, id, was, active(m.img))
	var err *controllerv1.Error
	if item.Replicas == nil {
		err = m.cancel(c)
	} else {
		err = m.start(c, item.GetReplicas().GetIds())
	}
	if err != nil {
		return nil, err
	}
	rec := c.record()
	m.changed[id] = after(was, rec)
	return rec, nil
}

// start makes the target replicas, beside those that leave.
func (m *moving) start(c *change, target []int32) *controllerv1.Error {
	if err := m.checkTarget(c.was, target); err != nil {
		return err
	}
	// Who still arrives by a move that this one replaces has to be waited for as well.
	adding := without(target, without(c.was.Replicas, c.was.Adding...)...)
	c.removing = without(c.was.Replicas, target...)
	slices.Sort(adding)
	slices.Sort(c.removing)
	c.adding = adding
	c.replicas = append(slices.Clone(target), c.removing...)
	m.started++
	return nil
}

func (m *moving) checkTarget(was fsm.Partition, target []int32) *controllerv1.Error {
	if len(target) == 0 {
		return badAssignment("the partition is assigned to no broker")
	}
	for i, id := range target {
		if slices.Contains(target[:i], id) {
			return badAssignment("the partition is assigned to broker %d twice", id)
		}
		if _, ok := m.img.Broker(id); !ok {
			return badAssignment("the partition is assigned to broker %d, which is not registered", id)
		}
	}
	if have := len(was.Replicas) - len(was.Removing); m.keepFactor && len(target) != have {
		return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR,
			"the replication factor is %d, the target has %d replicas, and the request does not allow to change it", have, len(target))
	}
	return nil
}

// cancel goes back to the replicas before the move (PartitionReassignmentRevert). If none of them is in the ISR, the
// first of them begins anew with whatever it has, which only a topic with unclean elections allows.
func (m *moving) cancel(c *change) *controllerv1.Error {
	if len(c.was.Adding) == 0 && len(c.was.Removing) == 0 {
		return itemError(controllerv1.ErrorCode_ERROR_CODE_NO_REASSIGNMENT_IN_PROGRESS, "no move of the partition is running")
	}
	c.election = m.env.automatic(m.img, c.id.Topic)
	c.isr, c.replicas = without(c.was.ISR, c.was.Adding...), without(c.was.Replicas, c.was.Adding...)
	c.adding, c.removing = nil, nil
	if len(c.replicas) == 0 {
		return badAssignment("the move cannot be cancelled: every replica arrives by it")
	}
	if len(c.isr) == 0 && len(c.was.ISR) > 0 {
		if c.election != electUnclean {
			return badAssignment("the move cannot be cancelled: none of the replicas %v before it is in the ISR %v, and unclean elections are off",
				c.replicas, c.was.ISR)
		}
		c.isr, c.recovering = c.replicas[:1], true
	}
	m.cancelled++
	return nil
}
