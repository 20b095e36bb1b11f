package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
	"github.com/skiffmq/skiff/quorum/transport"
)

// service is the QuorumService, of an empty node and of a member alike.
type service struct {
	quorumv1.UnimplementedQuorumServiceServer
	node *Node
}

// Status tells what the node is and what it sees.
func (s *service) Status(context.Context, *quorumv1.StatusRequest) (*quorumv1.StatusResponse, error) {
	return s.node.statusProto(), nil
}

// Prepare writes a plan of init.
func (s *service) Prepare(ctx context.Context, req *quorumv1.PrepareRequest) (*quorumv1.PrepareResponse, error) {
	p, err := planFromProto(req.GetPlan())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "plan: %v", err)
	}
	var refused string
	err = s.node.exclusively(ctx, func() (err error) {
		refused, err = s.node.identity.prepare(p)
		return err
	})
	if err != nil {
		return nil, status.Errorf(codes.Internal, "write the plan: %v", err)
	}
	s.node.logger.Info("asked to prepare an init", "plan", p.ID, "cluster-id", p.ClusterID, "refusal", refused)
	return &quorumv1.PrepareResponse{Status: s.node.statusProto(), Refusal: refused}, nil
}

// Commit makes the prepared plan the node's identity and starts it in the same process.
func (s *service) Commit(ctx context.Context, req *quorumv1.CommitRequest) (*quorumv1.CommitResponse, error) {
	id, err := fsm.UUIDFromBytes(req.GetPlanId())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "plan id: %v", err)
	}
	var refused string
	err = s.node.exclusively(ctx, func() (err error) {
		refused, err = s.node.commit(id.String())
		return err
	})
	if err != nil {
		return nil, status.Errorf(codes.Internal, "commit the plan: %v", err)
	}
	return &quorumv1.CommitResponse{Status: s.node.statusProto(), Refusal: refused}, nil
}

// commit carries out the prepared plan and starts the member. change is held. What fails after the first write of
// the commit ends the process: its next start completes the commit.
func (n *Node) commit(planID string) (refusal string, err error) {
	refusal, err = n.identity.commit(planID)
	if err == nil && refusal == "" && n.member.Load() == nil {
		if err = n.startMember(); err == nil {
			n.drain(n.waits.Swap(nil))
			return "", nil
		}
	}
	if err != nil {
		stop := broken("", "init was not completed and goes on at the next start: %w", err)
		var refused *StopError
		if errors.As(err, &refused) {
			stop = refused
		}
		n.fail(stop)
	}
	return refusal, err
}

// TransferLeadership hands the active controller's role to another voter.
func (s *service) TransferLeadership(ctx context.Context, req *quorumv1.TransferLeadershipRequest) (*quorumv1.TransferLeadershipResponse, error) {
	m, err := s.leading()
	if err != nil {
		return nil, err
	}
	target, err := m.transferTarget(req.GetNodeId())
	if err != nil {
		return nil, err
	}
	if err := m.transfer(target); err != nil {
		return nil, status.Errorf(codes.Unavailable, "leadership was not transferred: %v", err)
	}
	return &quorumv1.TransferLeadershipResponse{LeaderId: m.awaitLeader(ctx)}, nil
}

// awaitLeader waits a little until another node is known to lead: the answer names it. -1 if none is by then.
func (m *member) awaitLeader(ctx context.Context) int32 {
	const step, patience = 10 * time.Millisecond, 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if leader, ok := m.leader(); ok && leader != m.self {
			return leader.NodeID
		}
		select {
		case <-time.After(step):
		case <-ctx.Done():
			return m.statusLeader()
		}
	}
}

// leading gives the member if it leads.
func (s *service) leading() (*member, error) {
	m := s.node.member.Load()
	if m == nil {
		return nil, answerUnformatted(nil, nil)
	}
	if leader, ok := m.leader(); !ok || leader != m.self {
		return nil, refusal(codes.FailedPrecondition, controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER,
			fmt.Sprintf("node %d does not lead", m.self.NodeID), m.leaderAddress())
	}
	return m, nil
}

// transferTarget finds the voter; nil stands for the most caught up one.
func (m *member) transferTarget(nodeID int32) (*transport.PeerID, error) {
	if nodeID < 0 {
		return nil, nil
	}
	for _, server := range m.servers() {
		if p, err := transport.ParsePeerID(string(server.ID)); err == nil && p.NodeID == nodeID {
			return &p, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "node %d is no voter of this quorum", nodeID)
}

// RegisterController records where a quorum node is reached.
func (s *service) RegisterController(ctx context.Context, req *quorumv1.RegisterControllerRequest) (*quorumv1.RegisterControllerResponse, error) {
	m, err := s.leading()
	if err != nil {
		return nil, err
	}
	registration := req.GetRegistration()
	if err := m.checkVoter(registration); err != nil {
		return nil, err
	}
	cause := &metadatav1.Cause{Principal: "controller", RequestKind: "RegisterController", ClientAddress: callerOf(ctx)}
	_, offset, err := active.Do(ctx, m.loop, controller.RegisterController, registration, cause, newUUID())
	if err != nil {
		return nil, m.refusalOf(err)
	}
	return &quorumv1.RegisterControllerResponse{MetadataOffset: offset}, nil
}

// checkVoter refuses a node that Raft's configuration does not know: a wiped disk, or a stranger.
func (m *member) checkVoter(r *metadatav1.ControllerRegistered) error {
	directory, err := fsm.UUIDFromBytes(r.GetDirectoryId())
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "directory id: %v", err)
	}
	who := transport.PeerID{NodeID: r.GetNodeId(), Directory: directory}
	for _, server := range m.servers() {
		if server.ID == who.ServerID() {
			return nil
		}
	}
	return refusal(codes.PermissionDenied, controllerv1.ErrorCode_ERROR_CODE_INVALID_REGISTRATION,
		fmt.Sprintf("%s is no member of this quorum", who), "")
}

func (m *member) refusalOf(err error) error {
	var refused *controller.Refusal
	if errors.As(err, &refused) {
		return refusal(codes.Unavailable, refused.Code, refused.Message, m.leaderAddress())
	}
	return status.FromContextError(err).Err()
}

func callerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}
