package quorumtest

import (
	"bytes"
	"context"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// watchPause lies between two attempts to follow a node that does not serve.
const watchPause = 20 * time.Millisecond

// Watch follows every node by itself from now on, as a client would that knows only this node, and gives the history of
// what it is told. It ends with the test.
func (c *Cluster) Watch() *History {
	h := NewHistory()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, len(c.Nodes))
	for _, n := range c.Nodes {
		w := &watcher{cluster: c, addr: n.Addr, stream: h.Stream(n.Name)}
		go func() {
			defer func() { ended <- struct{}{} }()
			w.run(ctx)
		}()
	}
	c.t.Cleanup(func() {
		cancel()
		for range c.Nodes {
			<-ended
		}
	})
	c.Await("a first snapshot on every stream", func() bool { return h.began() == len(c.Nodes) })
	return h
}

// Settle waits until all nodes agree and every stream has told it, and reports what is wrong with the history.
func (c *Cluster) Settle(h *History) {
	c.t.Helper()
	c.AwaitSame()
	c.Await("every stream to tell what the nodes agree on", func() bool {
		active := c.Active()
		return active != nil && h.arrived(active.Image().NextOffset())
	})
	if err := h.Check(c.Active().Image()); err != nil {
		c.t.Errorf("what followers and callers were told is not one history:\n%v\n%s", err, c.Describe())
	}
}

// began counts the streams that have an image.
func (h *History) began() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, s := range h.streams {
		if s.image != nil {
			n++
		}
	}
	return n
}

// arrived tells whether every stream is at the offset.
func (h *History) arrived(next int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.streams {
		if s.image == nil || s.image.NextOffset() != next {
			return false
		}
	}
	return true
}

// watcher follows one node.
type watcher struct {
	cluster *Cluster
	addr    string
	stream  *Stream
}

// run connects again and again: the node may be stopped, frozen, or have ended the stream.
func (w *watcher) run(ctx context.Context) {
	conn := w.cluster.Conn("watcher", w.addr)
	defer conn.Close()
	for ctx.Err() == nil {
		w.follow(ctx, controllerv1.NewMetadataServiceClient(conn))
		conn.ResetConnectBackoff()
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
		}
	}
}

// follow takes what one stream tells until it ends.
func (w *watcher) follow(ctx context.Context, service controllerv1.MetadataServiceClient) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lineage, next := w.stream.Position()
	request := &controllerv1.FollowRequest{Follower: "watcher", NextMetadataOffset: next}
	if !lineage.IsZero() {
		request.Lineage = lineage.Proto()
	}
	stream, err := service.Follow(ctx, request)
	if err != nil {
		return
	}
	var snapshot bytes.Buffer
	for {
		told, err := stream.Recv()
		if err != nil {
			return
		}
		switch k := told.GetKind().(type) {
		case *controllerv1.FollowResponse_SnapshotBegin:
			snapshot.Reset()
		case *controllerv1.FollowResponse_SnapshotBytes:
			snapshot.Write(k.SnapshotBytes.GetData())
		case *controllerv1.FollowResponse_SnapshotEnd:
			w.restore(&snapshot)
		case *controllerv1.FollowResponse_Entry:
			w.stream.Entry(k.Entry)
		case *controllerv1.FollowResponse_Beat:
			w.stream.Beat(k.Beat)
		}
	}
}

func (w *watcher) restore(snapshot *bytes.Buffer) {
	img, err := fsm.ReadSnapshot(snapshot)
	if err != nil {
		w.cluster.t.Errorf("%s sent a snapshot that cannot be read: %v", w.stream.name, err)
		return
	}
	w.stream.Snapshot(img)
}
