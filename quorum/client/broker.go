package client

import (
	"context"

	"google.golang.org/grpc"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// Register makes the caller the holder of its broker id. It is repeated even when its outcome is unknown: the same
// incarnation gets the same answer.
func (c *Client) Register(ctx context.Context, req *controllerv1.RegisterRequest) (*controllerv1.RegisterResponse, error) {
	return ask(ctx, c, true, func(conn *grpc.ClientConn) func(context.Context, *controllerv1.RegisterRequest, ...grpc.CallOption) (*controllerv1.RegisterResponse, error) {
		return controllerv1.NewBrokerServiceClient(conn).Register
	}, req)
}

// AlterPartitions proposes ISR changes. It is repeated even when its outcome is unknown: each change names the partition
// epoch that it is based on, so it cannot be made twice.
func (c *Client) AlterPartitions(ctx context.Context, req *controllerv1.AlterPartitionsRequest) (*controllerv1.AlterPartitionsResponse, error) {
	return ask(ctx, c, true, func(conn *grpc.ClientConn) func(context.Context, *controllerv1.AlterPartitionsRequest, ...grpc.CallOption) (*controllerv1.AlterPartitionsResponse, error) {
		return controllerv1.NewBrokerServiceClient(conn).AlterPartitions
	}, req)
}

// ReserveProducerIDs reserves a block of producer ids. It is repeated even when its outcome is unknown: a block that
// nobody uses costs nothing.
func (c *Client) ReserveProducerIDs(ctx context.Context, req *controllerv1.ReserveProducerIDsRequest) (*controllerv1.ReserveProducerIDsResponse, error) {
	return ask(ctx, c, true, func(conn *grpc.ClientConn) func(context.Context, *controllerv1.ReserveProducerIDsRequest, ...grpc.CallOption) (*controllerv1.ReserveProducerIDsResponse, error) {
		return controllerv1.NewBrokerServiceClient(conn).ReserveProducerIDs
	}, req)
}
