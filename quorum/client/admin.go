package client

import (
	"context"

	"google.golang.org/grpc"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// CreateTopics creates topics. See [identified].
func (c *Client) CreateTopics(ctx context.Context, req *controllerv1.CreateTopicsRequest) (*controllerv1.CreateTopicsResponse, error) {
	return ask(ctx, c, identified(req), func(conn *grpc.ClientConn) func(context.Context, *controllerv1.CreateTopicsRequest, ...grpc.CallOption) (*controllerv1.CreateTopicsResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).CreateTopics
	}, req)
}

// DeleteTopics deletes topics. See [identified].
func (c *Client) DeleteTopics(ctx context.Context, req *controllerv1.DeleteTopicsRequest) (*controllerv1.DeleteTopicsResponse, error) {
	return ask(ctx, c, identified(req), func(conn *grpc.ClientConn) func(context.Context, *controllerv1.DeleteTopicsRequest, ...grpc.CallOption) (*controllerv1.DeleteTopicsResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).DeleteTopics
	}, req)
}

// ElectLeaders elects leaders. See [identified].
func (c *Client) ElectLeaders(ctx context.Context, req *controllerv1.ElectLeadersRequest) (*controllerv1.ElectLeadersResponse, error) {
	return ask(ctx, c, identified(req), func(conn *grpc.ClientConn) func(context.Context, *controllerv1.ElectLeadersRequest, ...grpc.CallOption) (*controllerv1.ElectLeadersResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).ElectLeaders
	}, req)
}

// UnregisterBroker forgets a broker. See [identified].
func (c *Client) UnregisterBroker(ctx context.Context, req *controllerv1.UnregisterBrokerRequest) (*controllerv1.UnregisterBrokerResponse, error) {
	return ask(ctx, c, identified(req), func(conn *grpc.ClientConn) func(context.Context, *controllerv1.UnregisterBrokerRequest, ...grpc.CallOption) (*controllerv1.UnregisterBrokerResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).UnregisterBroker
	}, req)
}

// AlterConfigs changes configs. See [identified].
func (c *Client) AlterConfigs(ctx context.Context, req *controllerv1.AlterConfigsRequest) (*controllerv1.AlterConfigsResponse, error) {
	return ask(ctx, c, identified(req), func(conn *grpc.ClientConn) func(context.Context, *controllerv1.AlterConfigsRequest, ...grpc.CallOption) (*controllerv1.AlterConfigsResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).AlterConfigs
	}, req)
}

// CreatePartitions adds partitions to topics. See [identified].
func (c *Client) CreatePartitions(ctx context.Context, req *controllerv1.CreatePartitionsRequest) (*controllerv1.CreatePartitionsResponse, error) {
	return ask(ctx, c, identified(req), func(conn *grpc.ClientConn) func(context.Context, *controllerv1.CreatePartitionsRequest, ...grpc.CallOption) (*controllerv1.CreatePartitionsResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).CreatePartitions
	}, req)
}

// AlterReassignments starts and cancels moves of replicas. See [identified].
func (c *Client) AlterReassignments(ctx context.Context, req *controllerv1.AlterReassignmentsRequest) (*controllerv1.AlterReassignmentsResponse, error) {
	return ask(ctx, c, identified(req), func(conn *grpc.ClientConn) func(context.Context, *controllerv1.AlterReassignmentsRequest, ...grpc.CallOption) (*controllerv1.AlterReassignmentsResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).AlterReassignments
	}, req)
}

// AlterClientQuotas changes quotas. See [identified].
func (c *Client) AlterClientQuotas(ctx context.Context, req *controllerv1.AlterClientQuotasRequest) (*controllerv1.AlterClientQuotasResponse, error) {
	return ask(ctx, c, identified(req), func(conn *grpc.ClientConn) func(context.Context, *controllerv1.AlterClientQuotasRequest, ...grpc.CallOption) (*controllerv1.AlterClientQuotasResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).AlterClientQuotas
	}, req)
}

// UpdateFeatures changes feature levels. See [identified].
func (c *Client) UpdateFeatures(ctx context.Context, req *controllerv1.UpdateFeaturesRequest) (*controllerv1.UpdateFeaturesResponse, error) {
	return ask(ctx, c, identified(req), func(conn *grpc.ClientConn) func(context.Context, *controllerv1.UpdateFeaturesRequest, ...grpc.CallOption) (*controllerv1.UpdateFeaturesResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).UpdateFeatures
	}, req)
}

// identified tells whether a request may be repeated after an unknown outcome: if it has an id, whoever decides it again
// gives the first answer. Without one the caller must look before it repeats the request after OUTCOME_UNKNOWN.
func identified(req interface {
	GetContext() *controllerv1.RequestContext
}) bool {
	return len(req.GetContext().GetRequestId()) > 0
}
