package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// IncrementalAlterConfigs, key 44, versions 0 and 1: sets and removes configs, appends to lists and subtracts from them
// (KIP-339). Forwarded to the active controller, which judges each resource alone.
var incrementalAlterConfigsAPI = api{
	key:        44,
	advertised: versions(0, 1),
	served:     versions(0, 1),
	handle:     handled((*Server).incrementalAlterConfigs),
}

// incrementalAlterConfigs has configs changed and waits until that is visible here.
func (s *Server) incrementalAlterConfigs(ctx context.Context, c *call, req *kmsg.IncrementalAlterConfigsRequest) (kmsg.Response, error) {
	ask := &controllerv1.AlterConfigsRequest{ValidateOnly: req.ValidateOnly}
	for _, r := range req.Resources {
		resource := &controllerv1.AlterConfigsResource{Type: int32(r.ResourceType), Name: r.ResourceName}
		for _, config := range r.Configs {
			resource.Changes = append(resource.Changes, &controllerv1.ConfigChange{
				Key: config.Name, Operation: controllerv1.ConfigOperation(config.Op) + 1, Value: config.Value,
			})
		}
		ask.Resources = append(ask.Resources, resource)
	}
	resp := answer[*kmsg.IncrementalAlterConfigsResponse](req)
	resp.Resources = []kmsg.IncrementalAlterConfigsResponseResource{}
	for _, r := range s.configsAltered(ctx, c, "IncrementalAlterConfigs", ask) {
		m := kmsg.NewIncrementalAlterConfigsResponseResource()
		m.ResourceType, m.ResourceName, m.ErrorCode, m.ErrorMessage = r.kind, r.name, r.code, messageOf(r.message)
		resp.Resources = append(resp.Resources, m)
	}
	return resp, nil
}
