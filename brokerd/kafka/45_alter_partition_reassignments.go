package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// AlterPartitionReassignments, key 45, versions 0 and 1: starts moves of replicas and cancels them (KIP-455), from version
// 1 on with the wish to keep the replication factor (KIP-860). Forwarded to the active controller, which judges each
// partition alone. The answer waits until this broker knows of the moves, not until they are complete.
var alterReassignmentsAPI = api{
	key:        45,
	advertised: versions(0, 1),
	served:     versions(0, 1),
	handle:     handled((*Server).alterReassignments),
}

// alterReassignments has replicas moved.
func (s *Server) alterReassignments(ctx context.Context, c *call, req *kmsg.AlterPartitionAssignmentsRequest) (kmsg.Response, error) {
	resp := answer[*kmsg.AlterPartitionAssignmentsResponse](req)
	resp.Topics = []kmsg.AlterPartitionAssignmentsResponseTopic{}
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	ask := &controllerv1.AlterReassignmentsRequest{KeepReplicationFactor: req.Version >= 1 && !req.AllowReplicationFactorChange}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			item := &controllerv1.Reassignment{Topic: t.Topic, PartitionId: p.Partition}
			if p.Replicas != nil {
				item.Replicas = &metadatav1.BrokerIDs{Ids: p.Replicas}
			}
			ask.Partitions = append(ask.Partitions, item)
		}
	}
	if len(ask.GetPartitions()) == 0 {
		return resp, nil
	}
	timeout := adminTimeout(req.TimeoutMillis)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ask.Context = c.requestContext("AlterPartitionReassignments", timeout)
	altered, err := s.config.Controller.AlterReassignments(ctx, ask)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = s.code(err), messageOf(err.Error())
		return resp, nil
	}
	s.awaitMetadata(ctx, altered.GetMetadataOffset())
	for _, r := range altered.GetPartitions() {
		addReassigned(resp, r)
	}
	return resp, nil
}

// addReassigned adds one partition, below its topic if that is the last one.
func addReassigned(resp *kmsg.AlterPartitionAssignmentsResponse, r *controllerv1.ReassignmentResult) {
	n := len(resp.Topics)
	if n == 0 || resp.Topics[n-1].Topic != r.GetTopic() {
		t := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		t.Topic = r.GetTopic()
		resp.Topics, n = append(resp.Topics, t), n+1
	}
	p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
	code, message := itemCode(r.GetError())
	p.Partition, p.ErrorCode, p.ErrorMessage = r.GetPartitionId(), code, messageOf(message)
	resp.Topics[n-1].Partitions = append(resp.Topics[n-1].Partitions, p)
}
