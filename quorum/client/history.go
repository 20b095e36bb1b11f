package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/skiffmq/skiff/fsm"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// History asks the quorum node at addr for events of its history, oldest first; each is told of events and of the gaps
// between them. An error says that the answer is not whole. A refusal is an *Error.
func (c *Client) History(ctx context.Context, addr string, req *quorumv1.HistoryRequest, each func(*quorumv1.HistoryResponse) error) (*quorumv1.HistoryEnd, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	conn, err := c.pool.get(addr)
	if err != nil {
		return nil, err
	}
	stream, err := quorumv1.NewHistoryServiceClient(conn).History(ctx, req)
	if err != nil {
		return nil, historyFailed(addr, err)
	}
	for {
		part, err := stream.Recv()
		if err != nil {
			return nil, historyFailed(addr, err)
		}
		if end := part.GetEnd(); end != nil {
			return end, nil
		}
		if err := each(part); err != nil {
			return nil, err
		}
	}
}

// historyFailed words the end of an answer that was not whole.
func historyFailed(addr string, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if e := refusalOf(err); e != nil {
		return e
	}
	return fmt.Errorf("history from %s: %w", addr, err)
}

// ImageAsOf asks the quorum node at addr for the metadata of an earlier moment. It is verified.
func (c *Client) ImageAsOf(ctx context.Context, addr string, at *quorumv1.AsOf) (*fsm.Image, error) {
	r, w := io.Pipe()
	received := make(chan error, 1)
	go func() {
		_, err := c.saveSnapshot(ctx, addr, &quorumv1.SaveSnapshotRequest{AsOf: at}, w, nil)
		w.CloseWithError(err) // nil is the end of the stream
		received <- err
	}()
	img, err := fsm.ReadSnapshot(r)
	r.CloseWithError(err)
	if failed := <-received; failed != nil {
		return nil, failed
	}
	return img, err
}
