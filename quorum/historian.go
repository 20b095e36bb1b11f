package quorum

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
	"github.com/skiffmq/skiff/quorum/history"
)

const (
	// historyDir is the directory of the history in the node's.
	historyDir = "history"
	// historySyncTimeout is how long a snapshot, or a reader, waits for the history to be written.
	historySyncTimeout = 10 * time.Second
)

// HistoryConfig bounds the history that a node keeps.
type HistoryConfig struct {
	// MaxBytes of it; 0 for the default, negative for none.
	MaxBytes int64
	// MaxAge of it; 0 for the default.
	MaxAge time.Duration
}

// newHistory opens the history. A node works without one, and says why it has none.
func (m *member) newHistory() *history.Recorder {
	if m.cfg.History.MaxBytes < 0 {
		return nil
	}
	logger := m.logger.Named("history")
	l, err := history.Open(history.Options{
		Dir: filepath.Join(m.cfg.DataDir, historyDir), MaxBytes: m.cfg.History.MaxBytes, MaxAge: m.cfg.History.MaxAge, Logger: logger,
	})
	if err != nil {
		logger.Error("this node keeps no history of the metadata", "error", err)
		return nil
	}
	return history.NewRecorder(l, m.feed, logger)
}

func (m *member) recordHistory() {
	if err := m.history.Run(m.ctx); err != nil {
		m.logger.Error("the end of the history could not be written", "error", err)
	}
}

// syncHistory waits until what the node has applied is in its history on disk, so that a log that is cut leaves no gap.
func (m *member) syncHistory() {
	if m.history == nil {
		return
	}
	ctx, cancel := context.WithTimeout(m.ctx, historySyncTimeout)
	defer cancel()
	if err := m.history.Sync(ctx); err != nil && m.ctx.Err() == nil {
		m.logger.Warn("a snapshot is taken before the history is on disk", "error", err)
	}
}

// readHistory returns the history with all that is applied in it.
func (m *member) readHistory(ctx context.Context) (*history.Log, error) {
	if m.history == nil {
		return nil, refusal(codes.FailedPrecondition, controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
			fmt.Sprintf("node %d keeps no history: set metadata.history.retention.bytes", m.self.NodeID), "")
	}
	ctx, cancel := context.WithTimeout(ctx, historySyncTimeout)
	defer cancel()
	if err := m.history.Sync(ctx); err != nil {
		return nil, refusal(codes.Unavailable, controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_SERVER_ERROR,
			fmt.Sprintf("the history of node %d is not written: %v", m.self.NodeID, err), "")
	}
	return m.history.Log(), nil
}

// imageAsOf returns the image at a moment; the present one without a moment.
func (m *member) imageAsOf(ctx context.Context, at *quorumv1.AsOf) (*fsm.Image, error) {
	if at == nil {
		return m.machine.image.Load(), nil
	}
	l, err := m.readHistory(ctx)
	if err != nil {
		return nil, err
	}
	next, err := nextOffset(ctx, l, at)
	if err != nil {
		return nil, m.historyRefusal(err)
	}
	img, err := l.At(ctx, next)
	if err != nil {
		return nil, m.historyRefusal(err)
	}
	return img, nil
}

// nextOffset is the metadata offset behind a moment.
func nextOffset(ctx context.Context, l *history.Log, at *quorumv1.AsOf) (int64, error) {
	if t, ok := at.GetMoment().(*quorumv1.AsOf_TimeMs); ok {
		return l.OffsetAt(ctx, t.TimeMs)
	}
	return at.GetMetadataOffset() + 1, nil
}

// historyRefusal words why a moment cannot be told.
func (m *member) historyRefusal(err error) error {
	if errors.Is(err, history.ErrNotKept) {
		return refusal(codes.OutOfRange, controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
			fmt.Sprintf("node %d: %v; ask another node, or raise metadata.history.retention.bytes", m.self.NodeID, err), "")
	}
	return refusal(codes.Internal, controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_SERVER_ERROR,
		fmt.Sprintf("the history of node %d cannot be read: %v", m.self.NodeID, err), "")
}
