package quorum

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// Bounds of SaveSnapshot (I20). What a node holds for a receiver is one piece and the pointer to an image.
const (
	// savePieceBytes is the size of a piece.
	savePieceBytes = 256 << 10
	// savesMax is how many receivers are served at a time.
	savesMax = 4
	// saveStall is how long a receiver may take to make room for a piece.
	saveStall = 30 * time.Second
)

// SaveSnapshot sends the image that the node holds at this moment, or held at an earlier one: later entries do not touch
// it. A node that follows may be behind; the first part says at which metadata offset it is.
func (s *service) SaveSnapshot(req *quorumv1.SaveSnapshotRequest, stream grpc.ServerStreamingServer[quorumv1.SaveSnapshotResponse]) error {
	m := s.node.member.Load()
	if m == nil {
		return answerUnformatted(nil, nil)
	}
	if f := m.machine.fault.Load(); f != nil {
		return refusal(codes.FailedPrecondition, controllerv1.ErrorCode_ERROR_CODE_FROZEN,
			fmt.Sprintf("node %d saves no image that is not to be trusted: %v", m.self.NodeID, f), m.leaderAddress())
	}
	select {
	case s.node.saves <- struct{}{}:
		defer func() { <-s.node.saves }()
	default:
		return refusal(codes.ResourceExhausted, controllerv1.ErrorCode_ERROR_CODE_OVERLOADED,
			fmt.Sprintf("node %d sends %d snapshots already", m.self.NodeID, savesMax), "")
	}
	img, err := m.imageAsOf(stream.Context(), req.GetAsOf())
	if err != nil {
		return err
	}
	save := &snapshotSave{stream: stream, sent: make(chan error, 1)}
	go func() { save.sent <- save.send(m.self.NodeID, img) }()
	return save.await(stream.Context())
}

// snapshotSave sends one snapshot in a goroutine of its own, so that it can be given up: gRPC itself waits for a peer that
// does not read as long as the connection lives.
type snapshotSave struct {
	stream grpc.ServerStreamingServer[quorumv1.SaveSnapshotResponse]
	// sent receives the outcome. Invariant: capacity 1, so that the goroutine never waits to leave it.
	sent chan error
	// bytes that gRPC has taken.
	bytes atomic.Int64
}

// await waits until the snapshot is sent, or its receiver has made no room for too long.
func (s *snapshotSave) await(ctx context.Context) error {
	ticker := time.NewTicker(saveStall)
	defer ticker.Stop()
	for last := int64(-1); ; {
		select {
		case err := <-s.sent:
			return err
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-ticker.C:
			now := s.bytes.Load()
			if now == last {
				return status.Errorf(codes.ResourceExhausted, "the receiver did not read for %s", saveStall)
			}
			last = now
		}
	}
}

func (s *snapshotSave) send(node int32, img *fsm.Image) error {
	begin := &quorumv1.SaveSnapshotBegin{
		NodeId: node, ClusterId: img.ClusterID(), Lineage: img.Lineage().ID.Proto(),
		NextMetadataOffset: img.NextOffset(), Partitions: int64(img.NumPartitions()),
	}
	if err := s.stream.Send(&quorumv1.SaveSnapshotResponse{Kind: &quorumv1.SaveSnapshotResponse_Begin{Begin: begin}}); err != nil {
		return err
	}
	pieces := bufio.NewWriterSize(s, savePieceBytes)
	if err := errors.Join(fsm.WriteSnapshot(img, pieces), pieces.Flush()); err != nil {
		return status.Errorf(codes.Aborted, "%v", err)
	}
	end := &quorumv1.SaveSnapshotEnd{SizeBytes: s.bytes.Load()}
	return s.stream.Send(&quorumv1.SaveSnapshotResponse{Kind: &quorumv1.SaveSnapshotResponse_End{End: end}})
}

// Write sends what the writer has gathered, in pieces: it hands on a frame that is larger than its buffer as a whole.
func (s *snapshotSave) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := min(len(p), savePieceBytes)
		// The message is encoded before Send returns, so the buffer may be used again.
		if err := s.stream.Send(&quorumv1.SaveSnapshotResponse{Kind: &quorumv1.SaveSnapshotResponse_Data{Data: p[:n]}}); err != nil {
			return written, err
		}
		s.bytes.Add(int64(n))
		p, written = p[n:], written+n
	}
	return written, nil
}
