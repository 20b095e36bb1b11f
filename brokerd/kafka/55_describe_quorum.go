package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/fsm"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// DescribeQuorum, key 55, versions 0 to 2: the quorum of the metadata, under the name that Kafka gives its log (KIP-595,
// KIP-836, KIP-853). Every registered quorum node is asked; the offsets are metadata offsets, the epoch is the controller
// epoch. Brokers, which follow the quorum over a stream, are not listed as observers.
var describeQuorumAPI = api{
	key:        55,
	advertised: versions(0, 2),
	served:     versions(0, 2),
	handle:     handled((*Server).describeQuorum),
}

// clusterMetadataTopic is the name of Kafka's metadata log.
const clusterMetadataTopic = "__cluster_metadata"

// quorumAskTimeout bounds the question to a node that does not answer.
const quorumAskTimeout = 2 * time.Second

// describeQuorum asks the quorum nodes that the image knows.
func (s *Server) describeQuorum(ctx context.Context, _ *call, req *kmsg.DescribeQuorumRequest) (kmsg.Response, error) {
	img, err := s.image()
	if err != nil {
		return nil, err
	}
	resp := answer[*kmsg.DescribeQuorumResponse](req)
	resp.ErrorMessage = kmsg.StringPtr("") // as Kafka's
	resp.Topics, resp.Nodes = []kmsg.DescribeQuorumResponseTopic{}, []kmsg.DescribeQuorumResponseNode{}
	if len(req.Topics) != 1 || req.Topics[0].Topic != clusterMetadataTopic || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Partitions[0].Partition != 0 {
		for _, t := range req.Topics {
			resp.Topics = append(resp.Topics, unknownQuorum(t))
		}
		return resp, nil
	}
	members := s.askQuorum(ctx, img)
	partition := describedQuorum(members, time.Now())
	topic := kmsg.NewDescribeQuorumResponseTopic()
	topic.Topic, topic.Partitions = clusterMetadataTopic, []kmsg.DescribeQuorumResponseTopicPartition{partition}
	resp.Topics = append(resp.Topics, topic)
	for _, m := range members {
		resp.Nodes = append(resp.Nodes, m.node())
	}
	return resp, nil
}

func unknownQuorum(t kmsg.DescribeQuorumRequestTopic) kmsg.DescribeQuorumResponseTopic {
	out := kmsg.NewDescribeQuorumResponseTopic()
	out.Topic = t.Topic
	for _, p := range t.Partitions {
		m := kmsg.NewDescribeQuorumResponseTopicPartition()
		m.Partition, m.ErrorCode = p.Partition, kerr.UnknownTopicOrPartition.Code
		m.ErrorMessage = kmsg.StringPtr("only partition 0 of " + clusterMetadataTopic + " is a quorum's")
		out.Partitions = append(out.Partitions, m)
	}
	return out
}

// quorumMember is a quorum node with its answer, nil if it gave none.
type quorumMember struct {
	*fsm.Controller
	status *quorumv1.StatusResponse
}

func (m quorumMember) node() kmsg.DescribeQuorumResponseNode {
	n := kmsg.NewDescribeQuorumResponseNode()
	n.NodeID = m.ID
	for _, l := range m.Listeners {
		listener := kmsg.NewDescribeQuorumResponseNodeListener()
		listener.Name, listener.Host, listener.Port = l.Name, l.Host, l.Port
		n.Listeners = append(n.Listeners, listener)
	}
	return n
}

// askQuorum asks all nodes side by side.
func (s *Server) askQuorum(ctx context.Context, img *fsm.Image) []quorumMember {
	ctx, cancel := context.WithTimeout(ctx, quorumAskTimeout)
	defer cancel()
	var members []quorumMember
	for c := range img.Controllers() {
		members = append(members, quorumMember{Controller: c})
	}
	var asking sync.WaitGroup
	for i := range members {
		m := &members[i]
		if len(m.Listeners) == 0 {
			continue
		}
		asking.Go(func() {
			if status, err := s.config.Controller.QuorumStatus(ctx, m.Listeners[0].Address()); err == nil {
				m.status = status
			}
		})
	}
	asking.Wait()
	return members
}

// describedQuorum puts the answers together. Without an active controller there is no leader to name.
func describedQuorum(members []quorumMember, now time.Time) kmsg.DescribeQuorumResponseTopicPartition {
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = -1, -1, -1
	p.CurrentVoters, p.Observers = []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{}, []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{}
	for _, m := range members {
		if m.status.GetActive() {
			p.LeaderID, p.HighWatermark = m.ID, m.status.GetNextMetadataOffset()
			p.LeaderEpoch = int32(min(m.status.GetControllerEpoch(), 1<<31-1)) //nolint:gosec // bounded here
		}
	}
	if p.LeaderID == -1 {
		p.ErrorCode = kerr.LeaderNotAvailable.Code
	}
	for _, m := range members {
		r := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		r.ReplicaID, r.ReplicaDirectoryID, r.LogEndOffset = m.ID, m.DirectoryID, -1
		r.LastFetchTimestamp, r.LastCaughtUpTimestamp = -1, -1
		if m.status != nil {
			r.LogEndOffset = m.status.GetNextMetadataOffset()
			if age := m.status.GetLeaderContactAgeMs(); age >= 0 {
				r.LastFetchTimestamp = now.UnixMilli() - age
			}
			if r.LogEndOffset >= p.HighWatermark {
				r.LastCaughtUpTimestamp = r.LastFetchTimestamp
			}
		}
		p.CurrentVoters = append(p.CurrentVoters, r)
	}
	return p
}
