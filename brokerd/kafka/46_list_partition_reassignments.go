package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/fsm"
)

// ListPartitionReassignments, key 46, version 0 to 0: the moves that are running, from this broker's image. Null for the
// topics means all of them. What is not moving is left out, and so is what does not exist.
var listReassignmentsAPI = api{
	key:        46,
	advertised: versions(0, 0),
	served:     versions(0, 0),
	handle:     handled((*Server).listReassignments),
}

// listReassignments answers from the image.
func (s *Server) listReassignments(_ context.Context, _ *call, req *kmsg.ListPartitionReassignmentsRequest) (kmsg.Response, error) {
	img, err := s.image()
	if err != nil {
		return nil, err
	}
	resp := answer[*kmsg.ListPartitionReassignmentsResponse](req)
	resp.Topics = []kmsg.ListPartitionReassignmentsResponseTopic{}
	if req.Topics == nil {
		for t := range img.Topics() {
			addMoving(resp, t, func(yield func(int32)) {
				for i := range t.NumPartitions() {
					yield(i)
				}
			})
		}
		return resp, nil
	}
	for _, asked := range req.Topics {
		t, ok := img.TopicByName(asked.Topic)
		if !ok {
			continue
		}
		addMoving(resp, t, func(yield func(int32)) {
			for _, i := range asked.Partitions {
				yield(i)
			}
		})
	}
	return resp, nil
}

// addMoving adds the partitions of a topic that are moving.
func addMoving(resp *kmsg.ListPartitionReassignmentsResponse, t *fsm.Topic, partitions func(func(int32))) {
	out := kmsg.NewListPartitionReassignmentsResponseTopic()
	out.Topic = t.Name()
	partitions(func(i int32) {
		p, ok := t.Partition(i)
		if !ok || !reassigning(p) {
			return
		}
		m := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
		m.Partition, m.Replicas, m.AddingReplicas, m.RemovingReplicas = i, notNil(p.Replicas), notNil(p.Adding), notNil(p.Removing)
		out.Partitions = append(out.Partitions, m)
	})
	if len(out.Partitions) > 0 {
		resp.Topics = append(resp.Topics, out)
	}
}
