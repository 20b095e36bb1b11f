package fsm

import (
	"fmt"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// snapshotObject is what one record of a snapshot states. Exactly one of its kinds is set.
type snapshotObject struct {
	// sum of the object as the image hashes it; zero for producer ids, which are part of the guard's state.
	sum            sum
	controller     *Controller
	broker         *Broker
	topic          string
	id             PartitionID // of topic, partition and recovery
	partition      *Partition
	resource       ConfigResource
	entry          *ConfigEntry
	recovery       *RecoveryElection
	feature        string
	level          int32 // of feature
	quota          *Quota
	answer         *Answer
	nextProducerID int64
}

// objectFromRecord reads a record of a snapshot. Every kind that an image consists of has its home here; the kinds
// that only change or remove have none.
func objectFromRecord(r *metadatav1.Record) (o snapshotObject, err error) {
	switch k := r.GetKind().(type) {
	case *metadatav1.Record_ControllerRegistered:
		if o.controller, err = controllerFromRecord(k.ControllerRegistered); err == nil {
			o.sum = o.controller.sum()
		}
	case *metadatav1.Record_RegisterBroker:
		if o.broker, err = brokerFromRecord(k.RegisterBroker); err == nil {
			o.sum = o.broker.sum()
		}
	case *metadatav1.Record_Topic:
		return topicObjectFrom(k.Topic)
	case *metadatav1.Record_Partition:
		return partitionObjectFrom(k.Partition)
	case *metadatav1.Record_Config:
		return configObjectFrom(k.Config)
	case *metadatav1.Record_RecoveryElected:
		return recoveryObjectFrom(k.RecoveryElected)
	case *metadatav1.Record_FeatureLevel:
		return featureObjectFrom(k.FeatureLevel)
	case *metadatav1.Record_ClientQuota:
		return quotaObjectFrom(k.ClientQuota)
	case *metadatav1.Record_RequestAnswered:
		if o.answer, err = answerFromRecord(k.RequestAnswered, k.RequestAnswered.GetMetadataOffset()); err == nil {
			o.sum = o.answer.sum()
		}
	case *metadatav1.Record_ProducerIds:
		if o.nextProducerID = k.ProducerIds.GetNextProducerId(); o.nextProducerID <= 0 {
			err = fmt.Errorf("next producer id %d is not above 0", o.nextProducerID)
		}
	default:
		err = fmt.Errorf("a record of kind %d has no place in a snapshot", recordKind(r))
	}
	return o, err
}

func topicObjectFrom(r *metadatav1.Topic) (o snapshotObject, err error) {
	if o.id.Topic, err = requireUUID("topic id", r.GetTopicId()); err != nil {
		return o, err
	}
	o.topic = r.GetName()
	o.sum = topicSum(o.id.Topic, o.topic)
	return o, CheckTopicName(o.topic)
}

func partitionObjectFrom(r *metadatav1.Partition) (o snapshotObject, err error) {
	if o.id.Topic, err = requireUUID("topic id", r.GetTopicId()); err != nil {
		return o, err
	}
	o.id.Partition = r.GetPartitionId()
	p, err := partitionFromRecord(r)
	o.partition = &p
	o.sum = p.sum(o.id)
	return o, err
}

func recoveryObjectFrom(r *metadatav1.RecoveryElected) (o snapshotObject, err error) {
	if o.id.Topic, err = requireUUID("topic id", r.GetTopicId()); err != nil {
		return o, err
	}
	o.id.Partition = r.GetPartitionId()
	if o.recovery, err = recoveryFromRecord(r); err != nil {
		return o, fmt.Errorf("recovery election: %w", err)
	}
	o.sum = o.recovery.sum(o.id)
	return o, nil
}

func featureObjectFrom(r *metadatav1.FeatureLevel) (o snapshotObject, err error) {
	o.feature, o.level = r.GetName(), r.GetLevel()
	o.sum = featureSum(o.feature, o.level)
	if o.level == 0 {
		return o, fmt.Errorf("feature %q without a level", o.feature)
	}
	return o, checkFeatureLevel(o.feature, o.level)
}

func quotaObjectFrom(r *metadatav1.ClientQuota) (o snapshotObject, err error) {
	q, set, err := quotaFromRecord(r)
	if err == nil && !set {
		err = fmt.Errorf("quota %s without a value", q.Key)
	}
	o.quota, o.sum = &q, q.sum()
	return o, err
}

func configObjectFrom(r *metadatav1.Config) (o snapshotObject, err error) {
	o.resource = ConfigResource{Type: r.GetResourceType(), Name: r.GetResourceName()}
	o.entry = &ConfigEntry{Key: r.GetKey(), Value: r.GetValue()}
	o.sum = configSum(o.resource, *o.entry)
	if r.Value == nil || r.GetKey() == "" {
		return o, fmt.Errorf("config of %s without key or value", o.resource)
	}
	return o, nil
}
