package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/skiffmq/skiff/fsm"
)

// partitionByName finds a partition that a client named; otherwise code says what is wrong.
func partitionByName(img *fsm.Image, topic string, partition int32) (id fsm.PartitionID, code int16) {
	t, ok := img.TopicByName(topic)
	if !ok || partition < 0 || partition >= t.NumPartitions() {
		return fsm.PartitionID{}, kerr.UnknownTopicOrPartition.Code
	}
	return fsm.PartitionID{Topic: t.ID(), Partition: partition}, 0
}

// partitionByID finds a partition whose topic is named by its id; otherwise code says what is wrong.
func partitionByID(img *fsm.Image, topic fsm.UUID, partition int32) (id fsm.PartitionID, code int16) {
	t, ok := img.Topic(topic)
	if !ok {
		return fsm.PartitionID{}, kerr.UnknownTopicID.Code
	}
	if partition < 0 || partition >= t.NumPartitions() {
		return fsm.PartitionID{}, kerr.UnknownTopicOrPartition.Code
	}
	return fsm.PartitionID{Topic: topic, Partition: partition}, 0
}
