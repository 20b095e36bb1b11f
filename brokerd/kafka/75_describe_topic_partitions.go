package kafka

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/fsm"
)

// DescribeTopicPartitions, key 75, version 0 to 0: topics by name, page by page, with the lists of eligible leaders
// (KIP-966). No topic named means all of them. A page has at most as many partitions as the request allows, and 2,000;
// the cursor says where the next one begins.
var describeTopicPartitionsAPI = api{
	key:        75,
	advertised: versions(0, 0),
	served:     versions(0, 0),
	handle:     handled((*Server).describeTopicPartitions),
}

// describedPartitionsMax is Kafka's max.request.partition.size.limit.
const describedPartitionsMax = 2_000

// errBadCursor ends the connection of a client that makes its cursors up, as Kafka's answer has no room for an error.
var errBadCursor = errors.New("cursor with a negative partition")

// describeTopicPartitions answers from the image.
func (s *Server) describeTopicPartitions(_ context.Context, c *call, req *kmsg.DescribeTopicPartitionsRequest) (kmsg.Response, error) {
	img, err := s.image()
	if err != nil {
		return nil, err
	}
	if req.Cursor != nil && req.Cursor.Partition < 0 {
		return nil, errBadCursor
	}
	resp := answer[*kmsg.DescribeTopicPartitionsResponse](req)
	resp.Topics = []kmsg.DescribeTopicPartitionsResponseTopic{}
	d := &topicDescriber{img: img, listener: c.listener, version: metadataVersionWithoutGaps, operations: true}
	room := describedPartitionsMax
	if limit := int(req.ResponsePartitionLimit); limit > 0 && limit < room {
		room = limit
	}
	for _, name := range pageOf(img, req) {
		first := int32(0)
		if req.Cursor != nil && req.Cursor.Topic == name {
			first = req.Cursor.Partition
		}
		if room == 0 {
			resp.NextCursor = cursorAt(name, first)
			break
		}
		topic, next := d.page(name, first, room)
		room -= len(topic.Partitions)
		resp.Topics = append(resp.Topics, topic)
		if next >= 0 {
			resp.NextCursor = cursorAt(name, next)
			break
		}
	}
	return resp, nil
}

// metadataVersionWithoutGaps makes topics be described as the newest version of Metadata describes them.
const metadataVersionWithoutGaps = 12

func cursorAt(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	cursor := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	cursor.Topic, cursor.Partition = topic, partition
	return &cursor
}

// pageOf lists the names that may be on the page, in order: those from the cursor on.
func pageOf(img *fsm.Image, req *kmsg.DescribeTopicPartitionsRequest) []string {
	var names []string
	for _, t := range req.Topics {
		names = append(names, t.Topic)
	}
	if len(req.Topics) == 0 {
		for t := range img.Topics() {
			names = append(names, t.Name())
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if req.Cursor == nil {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.Compare(name, req.Cursor.Topic) < 0 })
}

// page describes a topic from a partition on, at most room partitions. next is where it goes on, -1 if it is complete.
func (d *topicDescriber) page(name string, first int32, room int) (topic kmsg.DescribeTopicPartitionsResponseTopic, next int32) {
	m := kmsg.NewDescribeTopicPartitionsResponseTopic()
	m.Topic, m.IsInternal, m.AuthorizedOperations = kmsg.StringPtr(name), isInternalTopic(name), topicOperations
	m.Partitions = []kmsg.DescribeTopicPartitionsResponseTopicPartition{}
	t, ok := d.img.TopicByName(name)
	if !ok {
		described, _ := d.byName(name)
		m.ErrorCode = described.ErrorCode
		return m, -1
	}
	m.TopicID = t.ID()
	for i := first; i < t.NumPartitions(); i++ {
		if len(m.Partitions) == room {
			return m, i
		}
		p, _ := t.Partition(i)
		m.Partitions = append(m.Partitions, d.partitionWithELR(i, p))
	}
	return m, -1
}

// partitionWithELR describes one partition.
func (d *topicDescriber) partitionWithELR(id int32, p fsm.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	described := d.partition(id, p)
	m := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	m.ErrorCode, m.Partition, m.LeaderID, m.LeaderEpoch = described.ErrorCode, id, described.Leader, p.LeaderEpoch
	if m.ErrorCode != 0 && p.Leader == fsm.NoLeader {
		m.ErrorCode = kerr.LeaderNotAvailable.Code
	}
	m.Replicas, m.ISR, m.OfflineReplicas = described.Replicas, described.ISR, described.OfflineReplicas
	m.EligibleLeaderReplicas, m.LastKnownELR = notNil(p.ELR), notNil(p.LastKnownELR)
	return m
}
