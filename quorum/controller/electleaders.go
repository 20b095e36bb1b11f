package controller

import (
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// ElectLeaders elects leaders on request (Kafka's ElectLeaders): the preferred ones, or, whatever the topic's
// configuration says, unclean ones. With no partition named all are meant, and those where nothing had to be done are
// left out of the answer. Each partition is judged alone; the good ones take effect together.
func ElectLeaders(img *fsm.Image, env *Env, req *controllerv1.ElectLeadersRequest) Decision[*controllerv1.ElectLeadersResponse] {
	kind := electPreferred
	switch req.GetType() {
	case controllerv1.ElectionType_ELECTION_TYPE_PREFERRED:
	case controllerv1.ElectionType_ELECTION_TYPE_UNCLEAN:
		if refused := refuseUnconfirmed(img); refused != nil {
			return Decision[*controllerv1.ElectLeadersResponse]{Refused: refused}
		}
		kind = electUnclean
	case controllerv1.ElectionType_ELECTION_TYPE_UNSPECIFIED:
		fallthrough
	default:
		return refuse[*controllerv1.ElectLeadersResponse](controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "election type %d is unknown", req.GetType())
	}
	asked, all := req.GetPartitions(), len(req.GetPartitions()) == 0
	if all {
		asked = candidatesFor(img, kind)
	}
	v := newView(img)
	reply := &controllerv1.ElectLeadersResponse{}
	var records []*metadatav1.Record
	for _, tp := range asked {
		err, rec := env.electOne(v, kind, tp)
		if all && err.GetCode() == controllerv1.ErrorCode_ERROR_CODE_ELECTION_NOT_NEEDED {
			continue
		}
		reply.Partitions = append(reply.Partitions, &controllerv1.ElectLeaderResult{Topic: tp.GetTopic(), PartitionId: tp.GetPartitionId(), Error: err})
		if rec != nil {
			records = append(records, changeRecord(rec))
		}
	}
	batches, refused := env.oneBatch(img, electionReason(kind), records)
	if refused != nil {
		return Decision[*controllerv1.ElectLeadersResponse]{Refused: refused}
	}
	return Decision[*controllerv1.ElectLeadersResponse]{Batches: batches, Reply: reply}
}

func electionReason(kind election) *metadatav1.Reason {
	if kind == electUnclean {
		return reason("unclean_election_requested", "unclean elections were asked for")
	}
	return reason("preferred_election_requested", "preferred leaders were asked for")
}

// candidatesFor lists the partitions where such an election may have something to do.
func candidatesFor(img *fsm.Image, kind election) []*controllerv1.TopicPartition {
	ids := img.Imbalanced()
	if kind == electUnclean {
		ids = img.Leaderless()
	}
	var out []*controllerv1.TopicPartition
	for id := range ids {
		if t, ok := img.Topic(id.Topic); ok {
			out = append(out, &controllerv1.TopicPartition{Topic: t.Name(), PartitionId: id.Partition})
		}
	}
	return out
}

// electOne holds one election. The error is absent when a leader was elected.
func (e *Env) electOne(v *view, kind election, tp *controllerv1.TopicPartition) (*controllerv1.Error, *metadatav1.PartitionChange) {
	topic, ok := v.img.TopicByName(tp.GetTopic())
	if !ok {
		return itemError(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "there is no topic %.60q", tp.GetTopic()), nil
	}
	id := fsm.PartitionID{Topic: topic.ID(), Partition: tp.GetPartitionId()}
	was, ok := v.partition(id)
	if !ok {
		return itemError(controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "topic %s has no partition %d", topic.Name(), tp.GetPartitionId()), nil
	}
	switch {
	case kind == electPreferred && was.Leader == was.Replicas[0]:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_ELECTION_NOT_NEEDED, "broker %d leads already and is preferred", was.Leader), nil
	case kind == electUnclean && was.Leader != noLeader:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_ELECTION_NOT_NEEDED, "broker %d leads", was.Leader), nil
	}
	c := e.change(v.img, id, was, active(v.img))
	c.election = kind
	rec := c.record()
	switch {
	case rec == nil && kind == electPreferred:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_PREFERRED_LEADER_NOT_AVAILABLE,
			"the preferred leader %d is down or not in the ISR %v", was.Replicas[0], was.ISR), nil
	case rec == nil:
		return itemError(controllerv1.ErrorCode_ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE, "none of the replicas %v is up", was.Replicas), nil
	}
	v.changed[id] = after(was, rec)
	return nil, rec
}
