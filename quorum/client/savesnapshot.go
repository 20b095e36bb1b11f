package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// SavedSnapshot is what the node said of a snapshot that it sends.
type SavedSnapshot = quorumv1.SaveSnapshotBegin

// SaveSnapshot has the node at addr, any quorum node, send a snapshot of its metadata and writes the stream to w. begun is
// called once, before the first byte; it may be nil. The stream is as the node made it and not verified here; an error
// says that it is not whole. A refusal is an *Error.
func (c *Client) SaveSnapshot(ctx context.Context, addr string, w io.Writer, begun func(*SavedSnapshot)) (*SavedSnapshot, error) {
	return c.saveSnapshot(ctx, addr, &quorumv1.SaveSnapshotRequest{}, w, begun)
}

func (c *Client) saveSnapshot(ctx context.Context, addr string, req *quorumv1.SaveSnapshotRequest, w io.Writer, begun func(*SavedSnapshot)) (*SavedSnapshot, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	conn, err := c.pool.get(addr)
	if err != nil {
		return nil, err
	}
	stream, err := quorumv1.NewQuorumServiceClient(conn).SaveSnapshot(ctx, req)
	if err != nil {
		return nil, saveFailed(addr, err)
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, saveFailed(addr, err)
	}
	begin := first.GetBegin()
	if begin == nil {
		return nil, fmt.Errorf("%s: the stream does not say first what it sends", addr)
	}
	if begun != nil {
		begun(begin)
	}
	return begin, receivePieces(addr, stream.Recv, w)
}

// receivePieces writes the pieces until the stream says that it is whole.
func receivePieces(addr string, next func() (*quorumv1.SaveSnapshotResponse, error), w io.Writer) error {
	var arrived int64
	for {
		part, err := next()
		if err != nil {
			return saveFailed(addr, err)
		}
		if end := part.GetEnd(); end != nil {
			if end.GetSizeBytes() != arrived {
				return fmt.Errorf("%s: the snapshot has %d bytes, %d arrived", addr, end.GetSizeBytes(), arrived)
			}
			return nil
		}
		data := part.GetData()
		if len(data) == 0 {
			return fmt.Errorf("%s: a part of the snapshot is neither data nor its end", addr)
		}
		if arrived += int64(len(data)); arrived > maxSnapshotBytes {
			return fmt.Errorf("%s: the snapshot has more than %d bytes", addr, int64(maxSnapshotBytes))
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
}

// saveFailed words the end of a stream that was not whole.
func saveFailed(addr string, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // the node ended it without its last part
	}
	if e := refusalOf(err); e != nil {
		return e
	}
	return fmt.Errorf("snapshot from %s: %w", addr, err)
}
