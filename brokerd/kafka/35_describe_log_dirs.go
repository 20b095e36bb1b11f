package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/replica"
)

// DescribeLogDirs, key 35, versions 1 to 4: the replicas of this broker with their sizes, and the space of their file
// system. Null for the topics means all of them. There is one directory, and no replica is on its way to another.
var describeLogDirsAPI = api{
	key:        35,
	advertised: versions(1, 4),
	served:     versions(1, 4),
	handle:     handled((*Server).describeLogDirs),
}

// describeLogDirs answers from the replicas.
func (s *Server) describeLogDirs(_ context.Context, _ *call, req *kmsg.DescribeLogDirsRequest) (kmsg.Response, error) {
	resp := answer[*kmsg.DescribeLogDirsResponse](req)
	dir, err := s.config.Replicas.LogDir()
	out := kmsg.NewDescribeLogDirsResponseDir()
	out.Dir, out.TotalBytes, out.UsableBytes = dir.Path, dir.TotalBytes, dir.UsableBytes
	out.Topics = []kmsg.DescribeLogDirsResponseDirTopic{}
	out.ErrorCode = s.code(err)
	for _, r := range dir.Replicas { // by topic
		if !wanted(req, r) {
			continue
		}
		n := len(out.Topics)
		if n == 0 || out.Topics[n-1].Topic != r.Topic {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic = r.Topic
			out.Topics, n = append(out.Topics, t), n+1
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size, p.OffsetLag = r.ID.Partition, r.SizeBytes, r.Lag
		out.Topics[n-1].Partitions = append(out.Topics[n-1].Partitions, p)
	}
	resp.Dirs = []kmsg.DescribeLogDirsResponseDir{out}
	return resp, nil
}

// wanted tells whether a replica was asked for.
func wanted(req *kmsg.DescribeLogDirsRequest, r replica.Held) bool {
	if req.Topics == nil {
		return true
	}
	return slices.ContainsFunc(req.Topics, func(t kmsg.DescribeLogDirsRequestTopic) bool {
		return t.Topic == r.Topic && slices.Contains(t.Partitions, r.ID.Partition)
	})
}
