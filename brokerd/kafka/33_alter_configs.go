package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// AlterConfigs, key 33, versions 0 to 2: replaces all configs of each resource (the old form of IncrementalAlterConfigs).
// Forwarded to the active controller, which judges each resource alone.
var alterConfigsAPI = api{
	key:        33,
	advertised: versions(0, 2),
	served:     versions(0, 2),
	handle:     handled((*Server).alterConfigs),
}

// alterConfigs has configs replaced and waits until that is visible here.
func (s *Server) alterConfigs(ctx context.Context, c *call, req *kmsg.AlterConfigsRequest) (kmsg.Response, error) {
	ask := &controllerv1.AlterConfigsRequest{ValidateOnly: req.ValidateOnly}
	for _, r := range req.Resources {
		resource := &controllerv1.AlterConfigsResource{Type: int32(r.ResourceType), Name: r.ResourceName, Replace: true}
		for _, config := range r.Configs {
			resource.Changes = append(resource.Changes, &controllerv1.ConfigChange{
				Key: config.Name, Operation: controllerv1.ConfigOperation_CONFIG_OPERATION_SET, Value: config.Value,
			})
		}
		ask.Resources = append(ask.Resources, resource)
	}
	resp := answer[*kmsg.AlterConfigsResponse](req)
	resp.Resources = []kmsg.AlterConfigsResponseResource{}
	for _, r := range s.configsAltered(ctx, c, "AlterConfigs", ask) {
		m := kmsg.NewAlterConfigsResponseResource()
		m.ResourceType, m.ResourceName, m.ErrorCode, m.ErrorMessage = r.kind, r.name, r.code, messageOf(r.message)
		resp.Resources = append(resp.Resources, m)
	}
	return resp, nil
}

// alteredResource is the outcome for one resource, whichever API asked.
type alteredResource struct {
	kind    kmsg.ConfigResourceType
	name    string
	code    int16
	message string
}

// configsAltered asks the controller. If it cannot be asked every resource has the same error.
func (s *Server) configsAltered(ctx context.Context, c *call, kind string, ask *controllerv1.AlterConfigsRequest) []alteredResource {
	if len(ask.GetResources()) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeoutDefault)
	defer cancel()
	ask.Context = c.requestContext(kind, adminTimeoutDefault)
	altered, err := s.config.Controller.AlterConfigs(ctx, ask)
	if err != nil {
		code := s.code(err)
		list := make([]alteredResource, 0, len(ask.GetResources()))
		for _, r := range ask.GetResources() {
			list = append(list, alteredResource{resourceType(r.GetType()), r.GetName(), code, err.Error()})
		}
		return list
	}
	if !ask.GetValidateOnly() {
		s.awaitMetadata(ctx, altered.GetMetadataOffset())
	}
	list := make([]alteredResource, 0, len(altered.GetResources()))
	for _, r := range altered.GetResources() {
		code, message := itemCode(r.GetError())
		list = append(list, alteredResource{resourceType(r.GetType()), r.GetName(), code, message})
	}
	return list
}

// resourceType is a type as the client sent it.
func resourceType(t int32) kmsg.ConfigResourceType {
	return kmsg.ConfigResourceType(t) //nolint:gosec // it came in as one
}

// itemCode translates what the controller says of one item.
func itemCode(e *controllerv1.Error) (code int16, message string) {
	if e == nil {
		return 0, ""
	}
	return controllerCode(e.GetCode()), e.GetMessage()
}
