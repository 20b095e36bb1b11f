package quorum

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
	"github.com/skiffmq/skiff/quorum/rpc"
)

// serveUnformatted serves the one service of a node that waits for init; every other call is answered UNFORMATTED.
func (n *Node) serveUnformatted() *grpc.Server {
	server := grpc.NewServer(append(rpc.ServerOptions(n.Image), grpc.UnknownServiceHandler(answerUnformatted))...)
	quorumv1.RegisterQuorumServiceServer(server, &service{node: n})
	listener := n.mux.GRPC()
	n.wg.Go(func() {
		if err := server.Serve(listener); err != nil {
			n.logger.Error("the gRPC server that waits for init failed", "error", err)
		}
	})
	return server
}

func answerUnformatted(any, grpc.ServerStream) error {
	return refusal(codes.FailedPrecondition, controllerv1.ErrorCode_ERROR_CODE_UNFORMATTED, "this quorum node is not initialised", "")
}

// refusal is a gRPC status with the controller's error as its detail.
func refusal(code codes.Code, reason controllerv1.ErrorCode, message, activeController string) error {
	s := status.New(code, message)
	detailed, err := s.WithDetails(&controllerv1.Error{Code: reason, Message: message, ActiveController: activeController})
	if err != nil {
		return s.Err()
	}
	return detailed.Err()
}

// newServer serves a member: the quorum's own service and those of the active controller and the feed.
func (m *member) newServer() *grpc.Server {
	server := grpc.NewServer(rpc.ServerOptions(m.node.Image)...)
	quorumv1.RegisterQuorumServiceServer(server, &service{node: m.node})
	quorumv1.RegisterHistoryServiceServer(server, &historyService{m: m, readers: make(chan struct{}, historyReadersMax)})
	rpc.RegisterServices(server, rpc.Deps{
		Loop: m.loop, Feed: m.feed, Image: m.machine.image.Load, Node: edgeView{m}, Scarcity: m.scarcity, Logger: m.logger.Named("rpc"),
	})
	return server
}

// edgeView is what the gRPC edge sees of the member.
type edgeView struct{ m *member }

var _ rpc.NodeView = edgeView{}

// LeaderContactAge since the leader was heard.
func (v edgeView) LeaderContactAge() time.Duration { return v.m.leaderContactAge() }

// ActiveController is where the leader is reached.
func (v edgeView) ActiveController() string { return v.m.leaderAddress() }

// Fault tells why the image is not to be trusted.
func (v edgeView) Fault() string {
	if f := v.m.machine.fault.Load(); f != nil {
		return f.Error()
	}
	return ""
}
