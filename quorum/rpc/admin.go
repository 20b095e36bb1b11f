package rpc

import (
	"context"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// adminService is what operators and clients ask for. See AdminService in admin.proto.
type adminService struct {
	controllerv1.UnimplementedAdminServiceServer
	Deps
}

// withContext is a request that says on whose behalf it is made.
type withContext interface {
	GetContext() *controllerv1.RequestContext
}

func doAdmin[Req withContext, Resp any](ctx context.Context, d Deps, decide decision[Req, Resp], req Req, kind string) (Resp, error) {
	var none Resp
	if err := d.refuseScarce(kind); err != nil {
		return none, err
	}
	by, err := onBehalf(ctx, req.GetContext(), kind)
	if err != nil {
		return none, err
	}
	// A rehearsal that made the controller prove by an entry that it still leads would itself come between what it shows
	// and the request in earnest.
	by.prompt = controller.IsRehearsal(req)
	return do(ctx, d, controller.Answered(controller.Rehearsable(decide)), req, by)
}

// growing are the kinds of request that make the metadata larger, or move data for no other reason than a wish.
var growing = map[string]bool{
	"CreateTopics": true, "CreatePartitions": true, "UndeleteTopic": true, "AlterConfigs": true, "AlterReassignments": true,
	"AlterClientQuotas": true, "UpdateFeatures": true, "ElectLeaders": true,
}

// refuseScarce refuses what takes room when there is hardly any. Deletions and fencing go on, and so do brokers: what they
// ask for is little, and keeps records readable and writable.
func (d Deps) refuseScarce(kind string) error {
	if d.Scarcity == nil || !growing[kind] {
		return nil
	}
	why := d.Scarcity()
	if why == "" {
		return nil
	}
	return statusOf(&controllerv1.Error{Code: controllerv1.ErrorCode_ERROR_CODE_POLICY_VIOLATION, Message: why})
}

// CreateTopics has package controller decide it.
func (s *adminService) CreateTopics(ctx context.Context, req *controllerv1.CreateTopicsRequest) (*controllerv1.CreateTopicsResponse, error) {
	return doAdmin(ctx, s.Deps, controller.CreateTopics, req, "CreateTopics")
}

// DeleteTopics has package controller decide it.
func (s *adminService) DeleteTopics(ctx context.Context, req *controllerv1.DeleteTopicsRequest) (*controllerv1.DeleteTopicsResponse, error) {
	return doAdmin(ctx, s.Deps, controller.DeleteTopics, req, "DeleteTopics")
}

// ElectLeaders has package controller decide it.
func (s *adminService) ElectLeaders(ctx context.Context, req *controllerv1.ElectLeadersRequest) (*controllerv1.ElectLeadersResponse, error) {
	return doAdmin(ctx, s.Deps, controller.ElectLeaders, req, "ElectLeaders")
}

// UnregisterBroker has package controller decide it.
func (s *adminService) UnregisterBroker(ctx context.Context, req *controllerv1.UnregisterBrokerRequest) (*controllerv1.UnregisterBrokerResponse, error) {
	return doAdmin(ctx, s.Deps, controller.UnregisterBroker, req, "UnregisterBroker")
}

// AlterConfigs has package controller decide it.
func (s *adminService) AlterConfigs(ctx context.Context, req *controllerv1.AlterConfigsRequest) (*controllerv1.AlterConfigsResponse, error) {
	return doAdmin(ctx, s.Deps, controller.AlterConfigs, req, "AlterConfigs")
}

// CreatePartitions has package controller decide it.
func (s *adminService) CreatePartitions(ctx context.Context, req *controllerv1.CreatePartitionsRequest) (*controllerv1.CreatePartitionsResponse, error) {
	return doAdmin(ctx, s.Deps, controller.CreatePartitions, req, "CreatePartitions")
}

// AlterReassignments has package controller decide it.
func (s *adminService) AlterReassignments(ctx context.Context, req *controllerv1.AlterReassignmentsRequest) (*controllerv1.AlterReassignmentsResponse, error) {
	return doAdmin(ctx, s.Deps, controller.AlterReassignments, req, "AlterReassignments")
}

// AlterClientQuotas has package controller decide it.
func (s *adminService) AlterClientQuotas(ctx context.Context, req *controllerv1.AlterClientQuotasRequest) (*controllerv1.AlterClientQuotasResponse, error) {
	return doAdmin(ctx, s.Deps, controller.AlterClientQuotas, req, "AlterClientQuotas")
}

// UpdateFeatures has package controller decide it.
func (s *adminService) UpdateFeatures(ctx context.Context, req *controllerv1.UpdateFeaturesRequest) (*controllerv1.UpdateFeaturesResponse, error) {
	return doAdmin(ctx, s.Deps, controller.UpdateFeatures, req, "UpdateFeatures")
}
