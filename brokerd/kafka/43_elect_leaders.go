package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// ElectLeaders, key 43, versions 0 to 2: preferred elections, and from version 1 on unclean ones (KIP-460). Forwarded to
// the active controller, which judges each partition alone. Null for the topics means all of them; those where nothing
// had to be done are then left out of the answer.
var electLeadersAPI = api{
	key:        43,
	advertised: versions(0, 2),
	served:     versions(0, 2),
	handle:     handled((*Server).electLeaders),
}

// Election types on the wire.
const (
	electionPreferred int8 = 0
	electionUnclean   int8 = 1
)

// electLeaders has elections held and waits until the leaders are visible here.
func (s *Server) electLeaders(ctx context.Context, c *call, req *kmsg.ElectLeadersRequest) (kmsg.Response, error) {
	resp := answer[*kmsg.ElectLeadersResponse](req)
	resp.Topics = []kmsg.ElectLeadersResponseTopic{}
	kinds := map[int8]controllerv1.ElectionType{
		electionPreferred: controllerv1.ElectionType_ELECTION_TYPE_PREFERRED,
		electionUnclean:   controllerv1.ElectionType_ELECTION_TYPE_UNCLEAN,
	}
	kind, known := kinds[req.ElectionType]
	asked := electable(req)
	switch {
	case !known:
		resp.ErrorCode = kerr.InvalidRequest.Code
		addElections(resp, asked, kerr.InvalidRequest.Code, "the election type is unknown")
		return resp, nil
	case req.Topics != nil && len(asked) == 0:
		return resp, nil
	}
	timeout := adminTimeout(req.TimeoutMillis)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	elected, err := s.config.Controller.ElectLeaders(ctx, &controllerv1.ElectLeadersRequest{
		Context: c.requestContext("ElectLeaders", timeout), Type: kind, Partitions: asked,
	})
	if err != nil {
		resp.ErrorCode = s.code(err)
		addElections(resp, asked, resp.ErrorCode, err.Error())
		return resp, nil
	}
	s.awaitMetadata(ctx, elected.GetMetadataOffset())
	for _, p := range elected.GetPartitions() {
		code, message := itemCode(p.GetError())
		addElection(resp, p.GetTopic(), p.GetPartitionId(), code, message)
	}
	return resp, nil
}

// electable lists the partitions of the request.
func electable(req *kmsg.ElectLeadersRequest) []*controllerv1.TopicPartition {
	var list []*controllerv1.TopicPartition
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			list = append(list, &controllerv1.TopicPartition{Topic: t.Topic, PartitionId: p})
		}
	}
	return list
}

func addElections(resp *kmsg.ElectLeadersResponse, asked []*controllerv1.TopicPartition, code int16, message string) {
	for _, p := range asked {
		addElection(resp, p.GetTopic(), p.GetPartitionId(), code, message)
	}
}

// addElection adds one partition, below its topic if that is the last one.
func addElection(resp *kmsg.ElectLeadersResponse, topic string, partition int32, code int16, message string) {
	n := len(resp.Topics)
	if n == 0 || resp.Topics[n-1].Topic != topic {
		t := kmsg.NewElectLeadersResponseTopic()
		t.Topic = topic
		resp.Topics, n = append(resp.Topics, t), n+1
	}
	p := kmsg.NewElectLeadersResponseTopicPartition()
	p.Partition, p.ErrorCode, p.ErrorMessage = partition, code, messageOf(message)
	resp.Topics[n-1].Partitions = append(resp.Topics[n-1].Partitions, p)
}

// reassigning tells whether a move of the partition is running.
func reassigning(p fsm.Partition) bool { return len(p.Adding)+len(p.Removing) > 0 }
