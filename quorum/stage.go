package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skiffmq/skiff/fsm"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// stageStream is a call of StageSnapshot.
type stageStream = grpc.ClientStreamingServer[quorumv1.StageSnapshotRequest, quorumv1.StageSnapshotResponse]

// StageSnapshot brings a plan's snapshot to the node. The node is only held for the moment in which it takes over what
// was received; until then it may be stopped, or prepare another plan.
func (s *service) StageSnapshot(stream stageStream) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	id, err := fsm.UUIDFromBytes(first.GetPlanId())
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "plan id: %v", err)
	}
	want, err := planSnapshotFromProto(first.GetSnapshot())
	if err != nil || want == nil {
		return status.Errorf(codes.InvalidArgument, "snapshot of plan %s: %v", id, err)
	}
	refused, err := s.node.stage(stream, id.String(), *want)
	if err != nil {
		return err
	}
	s.node.logger.Info("asked to stage a snapshot", "plan", id.String(), "bytes", want.SizeBytes, "digest", want.Digest, "refusal", refused)
	return stream.SendAndClose(&quorumv1.StageSnapshotResponse{Status: s.node.statusProto(), Refusal: refused})
}

// stage receives the snapshot unless it is here already.
func (n *Node) stage(stream stageStream, planID string, want planSnapshot) (refusal string, err error) {
	select {
	case n.staging <- struct{}{}:
	default:
		return fmt.Sprintf("another snapshot is being brought to node %d; end that restore, or wait for it", n.cfg.NodeID), nil
	}
	defer func() { <-n.staging }()
	ctx := stream.Context()
	held := false
	if err := n.exclusively(ctx, func() error {
		if committed := n.identity.committed(); committed != nil {
			refusal = fmt.Sprintf("node %d is initialised by plan %s for cluster %s", n.cfg.NodeID, committed.ID, committed.ClusterID)
			return nil
		}
		held = n.identity.holdsSound(planID, want)
		return nil
	}); err != nil || held || refusal != "" {
		return refusal, err
	}
	if refusal, err = n.receiveSnapshot(stream, want.SizeBytes); err != nil || refusal != "" {
		return refusal, err
	}
	return refusal, n.takeOver(ctx, planID, want, &refusal)
}

// takeOver verifies what was received and puts it in its place.
func (n *Node) takeOver(ctx context.Context, planID string, want planSnapshot, refusal *string) error {
	err := n.exclusively(ctx, func() (err error) {
		*refusal, err = n.identity.accept(planID, want)
		return err
	})
	if err != nil {
		return status.Errorf(codes.Internal, "take over the snapshot: %v", err)
	}
	return nil
}

// receiveSnapshot writes the stream to disk and syncs it.
func (n *Node) receiveSnapshot(stream stageStream, size int64) (refusal string, err error) {
	path := filepath.Join(n.cfg.DataDir, stagingFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", status.Errorf(codes.Internal, "receive the snapshot: %v", err)
	}
	defer f.Close()
	var got int64
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		if got += int64(len(part.GetData())); got > size {
			return fmt.Sprintf("the snapshot has more than the %d bytes that the plan says", size), nil
		}
		if _, err := f.Write(part.GetData()); err != nil {
			return "", status.Errorf(codes.ResourceExhausted, "receive the snapshot: %v", err)
		}
	}
	if got != size {
		return fmt.Sprintf("the snapshot ended after %d of %d bytes", got, size), nil
	}
	if err := f.Sync(); err != nil {
		return "", status.Errorf(codes.Internal, "sync the snapshot: %v", err)
	}
	return "", nil
}
