package client

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// RegisterController records where a quorum node is reached. It is repeated even when its outcome is unknown.
func (c *Client) RegisterController(ctx context.Context, req *quorumv1.RegisterControllerRequest) (*quorumv1.RegisterControllerResponse, error) {
	return ask(ctx, c, true, func(conn *grpc.ClientConn) func(context.Context, *quorumv1.RegisterControllerRequest, ...grpc.CallOption) (*quorumv1.RegisterControllerResponse, error) {
		return quorumv1.NewQuorumServiceClient(conn).RegisterController
	}, req)
}

// QuorumStatus asks the node at addr for its status.
func (c *Client) QuorumStatus(ctx context.Context, addr string) (*quorumv1.StatusResponse, error) {
	return askNode(ctx, c, addr, &quorumv1.StatusRequest{}, quorumv1.QuorumServiceClient.Status)
}

// Prepare has the node at addr write a plan of init.
func (c *Client) Prepare(ctx context.Context, addr string, plan *quorumv1.Plan) (*quorumv1.PrepareResponse, error) {
	return askNode(ctx, c, addr, &quorumv1.PrepareRequest{Plan: plan}, quorumv1.QuorumServiceClient.Prepare)
}

// Commit has the node at addr take on the plan that it prepared.
func (c *Client) Commit(ctx context.Context, addr string, planID []byte) (*quorumv1.CommitResponse, error) {
	return askNode(ctx, c, addr, &quorumv1.CommitRequest{PlanId: planID}, quorumv1.QuorumServiceClient.Commit)
}

// TransferLeadership asks the node at addr, which must lead, to hand over to another; -1 lets it choose.
func (c *Client) TransferLeadership(ctx context.Context, addr string, nodeID int32) (*quorumv1.TransferLeadershipResponse, error) {
	return askNode(ctx, c, addr, &quorumv1.TransferLeadershipRequest{NodeId: nodeID}, quorumv1.QuorumServiceClient.TransferLeadership)
}

// askNode asks one node, once. A refusal is an *Error; another error says that the node was not reached, or not in time.
func askNode[Req, Resp any](ctx context.Context, c *Client, addr string, req Req, method func(quorumv1.QuorumServiceClient, context.Context, Req, ...grpc.CallOption) (Resp, error)) (Resp, error) {
	var none Resp
	ctx, cancel := c.bound(ctx)
	defer cancel()
	conn, err := c.pool.get(addr)
	if err != nil {
		return none, err
	}
	resp, err := method(quorumv1.NewQuorumServiceClient(conn), ctx, req)
	if err == nil {
		return resp, nil
	}
	if e := refusalOf(err); e != nil {
		return none, e
	}
	return none, fmt.Errorf("ask %s: %w", addr, err)
}
