package rpc

import (
	"context"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// ConfirmLineage has package controller decide it.
func (s *adminService) ConfirmLineage(ctx context.Context, req *controllerv1.ConfirmLineageRequest) (*controllerv1.ConfirmLineageResponse, error) {
	return doAdmin(ctx, s.Deps, controller.ConfirmLineage, req, "ConfirmLineage")
}

// ListAwaiting has package controller answer it.
func (s *adminService) ListAwaiting(ctx context.Context, req *controllerv1.ListAwaitingRequest) (*controllerv1.ListAwaitingResponse, error) {
	return doAdmin(ctx, s.Deps, controller.ListAwaiting, req, "ListAwaiting")
}

// ElectAwaiting has package controller decide it.
func (s *adminService) ElectAwaiting(ctx context.Context, req *controllerv1.ElectAwaitingRequest) (*controllerv1.ElectAwaitingResponse, error) {
	return doAdmin(ctx, s.Deps, controller.ElectAwaiting, req, "ElectAwaiting")
}

// ListStrays has package controller answer it.
func (s *adminService) ListStrays(ctx context.Context, req *controllerv1.ListStraysRequest) (*controllerv1.ListStraysResponse, error) {
	return doAdmin(ctx, s.Deps, controller.ListStrays, req, "ListStrays")
}

// UndeleteTopic has package controller decide it.
func (s *adminService) UndeleteTopic(ctx context.Context, req *controllerv1.UndeleteTopicRequest) (*controllerv1.UndeleteTopicResponse, error) {
	return doAdmin(ctx, s.Deps, controller.UndeleteTopic, req, "UndeleteTopic")
}
