package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

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

// staging lets one call at a time bring a snapshot. The newest counts: an older one may be that of a tool that is gone.
type staging struct {
	slot chan struct{} // held by the call that brings a snapshot
	mu   sync.Mutex
	last chan struct{} // closed when a newer call has come; guarded by mu
}

func newStaging() staging { return staging{slot: make(chan struct{}, 1)} }

// enter ends the call before and waits for its place. The channel that it returns is closed when a newer call has come.
func (s *staging) enter(ctx context.Context) (older <-chan struct{}, err error) {
	mine := make(chan struct{})
	s.mu.Lock()
	if s.last != nil {
		close(s.last)
	}
	s.last = mine
	s.mu.Unlock()
	select {
	case s.slot <- struct{}{}:
		return mine, nil
	case <-mine:
		return nil, errNewerRestore
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *staging) leave() { <-s.slot }

// errNewerRestore is the answer to a call that gave way.
var errNewerRestore = status.Error(codes.Aborted, "another restore brings a snapshot to this node now")

// stage receives the snapshot unless it is here already.
func (n *Node) stage(stream stageStream, planID string, want planSnapshot) (refusal string, err error) {
	ctx := stream.Context()
	older, err := n.staging.enter(ctx)
	if err != nil {
		return "", err
	}
	defer n.staging.leave()
	held := false
	if err := n.exclusively(ctx, func() error {
		if n.identity.committed() != nil {
			held, refusal = true, n.identity.begunWith(planID, want)
			return nil
		}
		held = n.identity.holdsSound(planID, want)
		return nil
	}); err != nil || held || refusal != "" {
		return refusal, err
	}
	if refusal, err = n.receiveSnapshot(stream, older, want.SizeBytes); err != nil || refusal != "" {
		return refusal, err
	}
	if err = n.exclusively(ctx, func() (err error) {
		refusal, err = n.identity.accept(planID, want)
		return err
	}); err != nil {
		return "", status.Errorf(codes.Internal, "take over the snapshot: %v", err)
	}
	return refusal, nil
}

// receiveSnapshot writes the stream to disk and syncs it.
func (n *Node) receiveSnapshot(stream stageStream, older <-chan struct{}, size int64) (refusal string, err error) {
	path := filepath.Join(n.cfg.DataDir, stagingFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", status.Errorf(codes.Internal, "receive the snapshot: %v", err)
	}
	defer f.Close()
	var got int64
	parts := receiveParts(stream)
	for {
		var part stagePart
		select {
		case part = <-parts:
		case <-older:
			return "", errNewerRestore
		case <-stream.Context().Done():
			return "", stream.Context().Err()
		}
		if errors.Is(part.err, io.EOF) {
			break
		}
		if part.err != nil {
			return "", part.err
		}
		if got += int64(len(part.data)); got > size {
			return fmt.Sprintf("the snapshot has more than the %d bytes that the plan says", size), nil
		}
		if _, err := f.Write(part.data); err != nil {
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

// stagePart is a part of the stream, or its end.
type stagePart struct {
	data []byte
	err  error
}

// receiveParts reads the stream in a goroutine, because gRPC's Recv waits for nothing else. It ends with the call.
func receiveParts(stream stageStream) <-chan stagePart {
	parts := make(chan stagePart)
	go func() {
		for {
			req, err := stream.Recv()
			select {
			case parts <- stagePart{data: req.GetData(), err: err}:
			case <-stream.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return parts
}
