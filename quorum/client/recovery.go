package client

import (
	"context"

	"google.golang.org/grpc"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

const (
	// maxInventoryPart is the number of replicas in one part of a report, so that a part fits a message.
	maxInventoryPart = 10_000
	// maxQuickInventory is the number of replicas that a report must get across within the time of one attempt.
	maxQuickInventory = 20_000
)

// ReportInventory tells the active controller which logs a broker holds, all of them: the report replaces the broker's
// earlier one. brokerEpoch is the one that the broker is registered with, and metadataOffset is next after what it had
// applied before it looked, which must be behind its registration: what it looked at before that it may still have
// written to. Replicas of which the metadata says nothing carry what is known of their topic as a stray.
//
// The report is soft state of the controller that took it, so a broker reports again when it sees a new claim. STALE_BROKER_EPOCH says that the broker must register again,
// INVALID_REQUEST that it looked too early or that the report is malformed.
func (c *Client) ReportInventory(ctx context.Context, brokerID int32, brokerEpoch, metadataOffset int64, replicas []*controllerv1.ReplicaInventory) error {
	// A large report may take longer than a repeatable attempt is given; the caller repeats it then.
	return c.call(ctx, len(replicas) <= maxQuickInventory, func(ctx context.Context, conn *grpc.ClientConn) error {
		stream, err := controllerv1.NewBrokerServiceClient(conn).ReportInventory(ctx)
		if err != nil {
			return err
		}
		rest := replicas
		for first := true; first || len(rest) > 0; first = false {
			n := min(len(rest), maxInventoryPart)
			part := &controllerv1.ReportInventoryRequest{
				BrokerId: brokerID, BrokerEpoch: brokerEpoch, MetadataOffset: metadataOffset, Replicas: rest[:n],
			}
			if stream.Send(part) != nil {
				break // CloseAndRecv has the server's reason
			}
			rest = rest[n:]
		}
		_, err = stream.CloseAndRecv()
		return err
	})
}

// ConfirmLineage ends the time in which a restored or recovered cluster refuses its users' changes. It is repeated even
// when its outcome is unknown: it can be confirmed only once.
func (c *Client) ConfirmLineage(ctx context.Context, req *controllerv1.ConfirmLineageRequest) (*controllerv1.ConfirmLineageResponse, error) {
	return ask(ctx, c, true, func(conn *grpc.ClientConn) func(context.Context, *controllerv1.ConfirmLineageRequest, ...grpc.CallOption) (*controllerv1.ConfirmLineageResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).ConfirmLineage
	}, req)
}

// ListAwaiting lists the partitions whose leader waits for inventories, and the elections that were made without all of
// them.
func (c *Client) ListAwaiting(ctx context.Context, req *controllerv1.ListAwaitingRequest) (*controllerv1.ListAwaitingResponse, error) {
	return ask(ctx, c, true, func(conn *grpc.ClientConn) func(context.Context, *controllerv1.ListAwaitingRequest, ...grpc.CallOption) (*controllerv1.ListAwaitingResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).ListAwaiting
	}, req)
}

// ElectAwaiting elects leaders without waiting for the inventories that are still missing. After OUTCOME_UNKNOWN the
// caller must look before it repeats the request.
func (c *Client) ElectAwaiting(ctx context.Context, req *controllerv1.ElectAwaitingRequest) (*controllerv1.ElectAwaitingResponse, error) {
	return ask(ctx, c, false, func(conn *grpc.ClientConn) func(context.Context, *controllerv1.ElectAwaitingRequest, ...grpc.CallOption) (*controllerv1.ElectAwaitingResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).ElectAwaiting
	}, req)
}

// ListStrays lists the topics of which brokers hold replicas that the metadata does not know.
func (c *Client) ListStrays(ctx context.Context, req *controllerv1.ListStraysRequest) (*controllerv1.ListStraysResponse, error) {
	return ask(ctx, c, true, func(conn *grpc.ClientConn) func(context.Context, *controllerv1.ListStraysRequest, ...grpc.CallOption) (*controllerv1.ListStraysResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).ListStrays
	}, req)
}

// UndeleteTopic brings a topic back from the strays of the brokers. After OUTCOME_UNKNOWN the caller must look before it
// repeats the request.
func (c *Client) UndeleteTopic(ctx context.Context, req *controllerv1.UndeleteTopicRequest) (*controllerv1.UndeleteTopicResponse, error) {
	return ask(ctx, c, false, func(conn *grpc.ClientConn) func(context.Context, *controllerv1.UndeleteTopicRequest, ...grpc.CallOption) (*controllerv1.UndeleteTopicResponse, error) {
		return controllerv1.NewAdminServiceClient(conn).UndeleteTopic
	}, req)
}
