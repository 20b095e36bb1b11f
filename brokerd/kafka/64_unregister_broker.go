package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// UnregisterBroker, key 64, version 0 to 0: forgets a broker. Forwarded to the active controller.
var unregisterBrokerAPI = api{
	key:        64,
	advertised: versions(0, 0),
	served:     versions(0, 0),
	handle:     handled((*Server).unregisterBroker),
}

// unregisterBroker has a broker forgotten and waits until that is visible here.
func (s *Server) unregisterBroker(ctx context.Context, c *call, req *kmsg.UnregisterBrokerRequest) (kmsg.Response, error) {
	resp := answer[*kmsg.UnregisterBrokerResponse](req)
	ctx, cancel := context.WithTimeout(ctx, adminTimeoutDefault)
	defer cancel()
	forgotten, err := s.config.Controller.UnregisterBroker(ctx, &controllerv1.UnregisterBrokerRequest{
		Context: c.requestContext("UnregisterBroker", adminTimeoutDefault), BrokerId: req.BrokerID,
	})
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = s.code(err), messageOf(err.Error())
		return resp, nil
	}
	s.awaitMetadata(ctx, forgotten.GetMetadataOffset())
	return resp, nil
}
