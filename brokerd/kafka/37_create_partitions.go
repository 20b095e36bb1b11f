package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// CreatePartitions, key 37, versions 0 to 3: forwarded to the active controller, which judges each topic alone. The
// answer waits as that of CreateTopics does.
var createPartitionsAPI = api{
	key:        37,
	advertised: versions(0, 3),
	served:     versions(0, 3),
	handle:     handled((*Server).createPartitions),
}

// createPartitions has partitions added and waits until they are visible here.
func (s *Server) createPartitions(ctx context.Context, c *call, req *kmsg.CreatePartitionsRequest) (kmsg.Response, error) {
	resp := answer[*kmsg.CreatePartitionsResponse](req)
	resp.Topics = []kmsg.CreatePartitionsResponseTopic{}
	add := func(name string, code int16, message string) {
		m := kmsg.NewCreatePartitionsResponseTopic()
		m.Topic, m.ErrorCode, m.ErrorMessage = name, code, messageOf(message)
		resp.Topics = append(resp.Topics, m)
	}
	if len(req.Topics) == 0 {
		return resp, nil
	}
	timeout := adminTimeout(req.TimeoutMillis)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ask := &controllerv1.CreatePartitionsRequest{Context: c.requestContext("CreatePartitions", timeout), ValidateOnly: req.ValidateOnly}
	for _, t := range req.Topics {
		ask.Topics = append(ask.Topics, growing(t))
	}
	created, err := s.config.Controller.CreatePartitions(ctx, ask)
	if err != nil {
		code := s.code(err)
		for _, t := range req.Topics {
			add(t.Topic, code, err.Error())
		}
		return resp, nil
	}
	if !req.ValidateOnly {
		s.awaitMetadata(ctx, created.GetMetadataOffset())
	}
	for _, t := range created.GetTopics() {
		code, message := itemCode(t.GetError())
		add(t.GetName(), code, message)
	}
	return resp, nil
}

// growing translates one topic of the request.
func growing(t kmsg.CreatePartitionsRequestTopic) *controllerv1.GrowingTopic {
	g := &controllerv1.GrowingTopic{Name: t.Topic, Count: t.Count, Assigned: t.Assignment != nil}
	for _, a := range t.Assignment {
		g.Assignments = append(g.Assignments, &metadatav1.BrokerIDs{Ids: a.Replicas})
	}
	return g
}
