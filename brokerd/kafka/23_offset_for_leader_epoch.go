package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/wire"
	"github.com/skiffmq/skiff/fsm"
)

// OffsetForLeaderEpoch, key 23, versions 2 to 4: where the records of a leader epoch end in this leader's log.
//
// Clients use it to find out that the log they read from was truncated, followers where theirs parts from the leader's. The
// answer names the greatest leader epoch that is not above the one asked for, and -1 with -1 if there is none.
var offsetForLeaderEpochAPI = api{
	key:        23,
	advertised: versions(2, wire.ReplicaEpochVersion),
	served:     versions(2, wire.ReplicaEpochVersion),
	handle:     handled((*Server).offsetForLeaderEpoch),
}

// offsetForLeaderEpoch looks up one leader epoch for each partition.
func (s *Server) offsetForLeaderEpoch(_ context.Context, _ *call, req *kmsg.OffsetForLeaderEpochRequest) (kmsg.Response, error) {
	img, err := s.image()
	if err != nil {
		return nil, err
	}
	resp := answer[*kmsg.OffsetForLeaderEpochResponse](req)
	resp.Topics = make([]kmsg.OffsetForLeaderEpochResponseTopic, 0, len(req.Topics))
	for _, t := range req.Topics {
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, 0, len(t.Partitions))
		for _, p := range t.Partitions {
			out.Partitions = append(out.Partitions, s.epochEnd(img, t.Topic, p))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// epochEnd looks up one leader epoch.
func (s *Server) epochEnd(img *fsm.Image, topic string, p kmsg.OffsetForLeaderEpochRequestTopicPartition) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	out := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
	out.Partition, out.LeaderEpoch, out.EndOffset = p.Partition, -1, -1
	id, code := partitionByName(img, topic, p.Partition)
	if code != 0 {
		out.ErrorCode = code
		return out
	}
	end, err := s.config.Replicas.EpochEnd(id, p.CurrentLeaderEpoch, p.LeaderEpoch)
	if err != nil {
		out.ErrorCode = s.code(err)
		return out
	}
	out.LeaderEpoch, out.EndOffset = end.Epoch, end.EndOffset
	return out
}
