package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// UpdateFeatures, key 57, versions 0 to 2: feature levels, all or none (KIP-584). Forwarded to the active controller. Up
// to version 1 each feature has its own outcome in the answer, from version 2 on the whole request has one.
var updateFeaturesAPI = api{
	key:        57,
	advertised: versions(0, 2),
	served:     versions(0, 2),
	handle:     handled((*Server).updateFeatures),
}

// updateFeatures has levels changed and waits until they are visible here.
func (s *Server) updateFeatures(ctx context.Context, c *call, req *kmsg.UpdateFeaturesRequest) (kmsg.Response, error) {
	resp := answer[*kmsg.UpdateFeaturesResponse](req)
	resp.Results = []kmsg.UpdateFeaturesResponseResult{}
	if len(req.FeatureUpdates) == 0 {
		resp.ErrorCode, resp.ErrorMessage = kerr.InvalidRequest.Code, kmsg.StringPtr("the request updates no feature")
		return resp, nil
	}
	timeout := adminTimeout(req.TimeoutMillis)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ask := &controllerv1.UpdateFeaturesRequest{Context: c.requestContext("UpdateFeatures", timeout), ValidateOnly: req.ValidateOnly && req.Version >= 1}
	for _, u := range req.FeatureUpdates {
		ask.Updates = append(ask.Updates, &controllerv1.FeatureUpdate{Name: u.Feature, Level: int32(u.MaxVersionLevel), Type: updateType(req.Version, u)})
	}
	updated, err := s.config.Controller.UpdateFeatures(ctx, ask)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = s.code(err), messageOf(err.Error())
		return resp, nil
	}
	if !ask.GetValidateOnly() {
		s.awaitMetadata(ctx, updated.GetMetadataOffset())
	}
	for _, f := range updated.GetFeatures() {
		code, message := itemCode(f.GetError())
		if req.Version >= 2 && code != 0 && resp.ErrorCode == 0 {
			resp.ErrorCode, resp.ErrorMessage = code, messageOf(message)
		}
		m := kmsg.NewUpdateFeaturesResponseResult()
		m.Feature, m.ErrorCode, m.ErrorMessage = f.GetName(), code, messageOf(message)
		resp.Results = append(resp.Results, m)
	}
	return resp, nil
}

// updateType translates how a lower level is meant; version 0 had one word for it.
func updateType(version int16, u kmsg.UpdateFeaturesRequestFeatureUpdate) controllerv1.FeatureUpdateType {
	switch {
	case version == 0 && u.AllowDowngrade:
		return controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_SAFE_DOWNGRADE
	case version == 0:
		return controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_UPGRADE
	}
	return controllerv1.FeatureUpdateType(u.UpgradeType)
}
