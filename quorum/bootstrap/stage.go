package bootstrap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/skiffmq/skiff/fsm"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

const (
	// stagePartBytes is how much of a snapshot goes in one message.
	stagePartBytes = 256 << 10
	// stageStall is how long a node may take to make room for a part, or to verify what it has received.
	stageStall = 2 * time.Minute
	// progressEvery is how often a long transfer says how far it is.
	progressEvery = time.Second
)

// measured learns size and checksum of a stream.
type measured struct {
	hash hash.Hash
	size int64
}

// Write takes note of p.
func (m *measured) Write(p []byte) (int, error) {
	m.size += int64(len(p))
	return m.hash.Write(p)
}

// stageAll brings the plan's snapshot to every voter that has not carried out the plan, to all at once.
func (f *flow) stageAll(ctx context.Context) error {
	if f.restore == nil {
		return nil
	}
	errs := make([]error, len(f.voters))
	var all sync.WaitGroup
	for i, v := range f.voters {
		if !f.formatted(v) {
			all.Go(func() { errs[i] = f.stage(ctx, v) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// stage brings the snapshot to one voter.
func (f *flow) stage(ctx context.Context, v Voter) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := time.AfterFunc(stageStall, cancel)
	defer watch.Stop()
	refusal, err := f.send(ctx, v, watch)
	if err != nil {
		return fmt.Errorf("bring the snapshot to node %d at %s: %w; repeat the command to go on", v.NodeID, v.Address, err)
	}
	if refusal != "" {
		return refuse("look at the node with skiff quorum status", "node %d at %s refuses the snapshot: %s", v.NodeID, v.Address, refusal)
	}
	return nil
}

// send streams the image. The node may answer before the end: it holds the snapshot already, or refuses it.
func (f *flow) send(ctx context.Context, v Voter, watch *time.Timer) (refusal string, err error) {
	client, err := f.nodes.client(v.Address)
	if err != nil {
		return "", err
	}
	stream, err := client.StageSnapshot(ctx)
	if err != nil {
		return "", err
	}
	parts := &stageWriter{stream: stream, watch: watch, total: f.restore.snapshot.GetSizeBytes(), told: time.Now(), tell: func(percent int64) {
		f.opts.Progress(fmt.Sprintf("bringing the snapshot to node %d at %s: %d%% of %d bytes", v.NodeID, v.Address, percent, f.restore.snapshot.GetSizeBytes()))
	}}
	first := &quorumv1.StageSnapshotRequest{PlanId: f.plan.GetPlanId(), Snapshot: f.plan.GetSnapshot()}
	err = stream.Send(first)
	if err == nil {
		out := bufio.NewWriterSize(parts, stagePartBytes)
		err = errors.Join(fsm.WriteSnapshot(f.restore.image, out), out.Flush())
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	watch.Reset(stageStall)
	resp, err := stream.CloseAndRecv()
	return resp.GetRefusal(), err
}

// stageWriter sends what is written to it in parts.
type stageWriter struct {
	stream interface {
		Send(*quorumv1.StageSnapshotRequest) error
	}
	watch       *time.Timer
	sent, total int64
	told        time.Time
	tell        func(percent int64)
}

// Write sends p as parts of at most stagePartBytes.
func (w *stageWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), stagePartBytes)]
		if err := w.stream.Send(&quorumv1.StageSnapshotRequest{Data: part}); err != nil {
			return n, err
		}
		w.watch.Reset(stageStall)
		n, p, w.sent = n+len(part), p[len(part):], w.sent+int64(len(part))
		if time.Since(w.told) >= progressEvery {
			w.told = time.Now()
			w.tell(w.sent * 100 / w.total)
		}
	}
	return n, nil
}
