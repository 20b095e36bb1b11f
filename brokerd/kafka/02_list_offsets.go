package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
)

// ListOffsets, key 2, versions 1 to 7: the offset of the first record at or after a time.
//
// -1 is the latest offset (the high watermark; with read_committed the last stable offset), -2 the earliest, -3, from version 7
// on, the record with the greatest timestamp. Other negative times belong to tiered storage and are UNSUPPORTED_VERSION. No
// such record is offset -1 without an error. A partition that occurs twice is INVALID_REQUEST.
//
// A new leader that does not know the high watermark yet answers OFFSET_NOT_AVAILABLE, below version 5 LEADER_NOT_AVAILABLE.
var listOffsetsAPI = api{
	key:        2,
	advertised: versions(1, 7),
	served:     versions(1, 7),
	handle:     handled((*Server).listOffsets),
}

const (
	// maxTimestampVersion is the first version that knows the timestamp -3 (KIP-734).
	maxTimestampVersion = 7
	// offsetNotAvailableVersion is the first version that knows OFFSET_NOT_AVAILABLE.
	offsetNotAvailableVersion = 5
)

// topicPartition names a partition as clients do.
type topicPartition struct {
	topic     string
	partition int32
}

// listOffsets looks up one offset for each partition.
func (s *Server) listOffsets(_ context.Context, _ *call, req *kmsg.ListOffsetsRequest) (kmsg.Response, error) {
	img, err := s.image()
	if err != nil {
		return nil, err
	}
	resp := answer[*kmsg.ListOffsetsResponse](req)
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, 0, len(req.Topics))
	twice := repeatedPartitions(req)
	for _, t := range req.Topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, 0, len(t.Partitions))
		for _, p := range t.Partitions {
			answered := kmsg.NewListOffsetsResponseTopicPartition()
			answered.Partition, answered.Offset, answered.Timestamp = p.Partition, -1, -1
			if twice[topicPartition{t.Topic, p.Partition}] {
				answered.ErrorCode = kerr.InvalidRequest.Code
			} else {
				s.listOffset(img, req, t.Topic, p, &answered)
			}
			out.Partitions = append(out.Partitions, answered)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// listOffset looks up one offset.
func (s *Server) listOffset(img *fsm.Image, req *kmsg.ListOffsetsRequest, topic string, p kmsg.ListOffsetsRequestTopicPartition, out *kmsg.ListOffsetsResponseTopicPartition) {
	id, code := partitionByName(img, topic, p.Partition)
	if code != 0 {
		out.ErrorCode = code
		return
	}
	if !knowsTimestamp(p.Timestamp, req.Version) {
		out.ErrorCode = kerr.UnsupportedVersion.Code
		return
	}
	found, err := s.config.Replicas.ListOffset(id, replica.ListOffsetQuery{
		CurrentLeaderEpoch: p.CurrentLeaderEpoch,
		Timestamp:          p.Timestamp,
		ReadCommitted:      req.IsolationLevel == 1,
	})
	if err != nil {
		out.ErrorCode = s.code(err)
		if errors.Is(err, replica.ErrOffsetNotAvailable) && req.Version < offsetNotAvailableVersion {
			out.ErrorCode = kerr.LeaderNotAvailable.Code
		}
		return
	}
	out.Offset, out.Timestamp, out.LeaderEpoch = found.Offset, found.Timestamp, found.LeaderEpoch
}

// knowsTimestamp tells whether a timestamp has a meaning in a version of the request.
func knowsTimestamp(timestamp int64, version int16) bool {
	return timestamp >= replica.TimestampEarliest || timestamp == replica.TimestampMax && version >= maxTimestampVersion
}

// repeatedPartitions returns the partitions that occur more than once.
func repeatedPartitions(req *kmsg.ListOffsetsRequest) map[topicPartition]bool {
	seen, twice := map[topicPartition]bool{}, map[topicPartition]bool{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			tp := topicPartition{t.Topic, p.Partition}
			if seen[tp] {
				twice[tp] = true
			}
			seen[tp] = true
		}
	}
	return twice
}
