package quorum_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/client"
	"github.com/skiffmq/skiff/quorum/controller"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

// toolOf is a client on a host of its own.
func toolOf(t *testing.T, c *quorumtest.Cluster) *client.Client {
	t.Helper()
	tool, err := client.New(client.Config{Controllers: []string{c.Nodes[0].Addr}, Dial: c.Net.Host("tool").Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tool.Close() })
	return tool
}

// fill makes the image some megabytes large.
func fill(t *testing.T, c *quorumtest.Cluster) {
	t.Helper()
	rack := strings.Repeat("r", 30_000)
	for id := int32(1); id <= 60; id++ {
		req := &controllerv1.RegisterRequest{
			BrokerId: id, IncarnationId: idOf(1, id).Bytes(), PreviousBrokerEpoch: -1, Directories: [][]byte{idOf(2, id).Bytes()}, Rack: &rack,
			Listeners: []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "b", Port: 9092}},
		}
		if _, _, err := active.Do(t.Context(), c.Active().Loop(), controller.RegisterBroker, req, &metadatav1.Cause{Principal: "test"}, idOf(3, id)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryNodeSavesTheSameSnapshot, also a follower, and what is saved is the image of the moment that was announced.
func TestEveryNodeSavesTheSameSnapshot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		fill(t, c)
		c.AwaitSame()
		tool := toolOf(t, c)
		var first []byte
		for _, n := range c.Nodes {
			want := n.Image()
			var stream bytes.Buffer
			begin, err := tool.SaveSnapshot(t.Context(), n.Addr, &stream, func(b *client.SavedSnapshot) {
				if b.GetNodeId() != n.ID || b.GetNextMetadataOffset() != want.NextOffset() {
					t.Errorf("%s announced node %d at %d", n.Name, b.GetNodeId(), b.GetNextMetadataOffset())
				}
				mustRegister(t, c, 100+n.ID) // while the stream is under way
			})
			if err != nil {
				t.Fatalf("%s: %v", n.Name, err)
			}
			img, err := fsm.ReadSnapshot(bytes.NewReader(stream.Bytes()))
			if err != nil || img.Digest() != want.Digest() || img.ClusterID() != begin.GetClusterId() {
				t.Errorf("%s: %v", n.Name, err)
			}
			if first == nil {
				first = stream.Bytes()
			}
			c.AwaitSame()
		}
		if len(first) < 1<<20 {
			t.Errorf("a snapshot of %d bytes shows little", len(first))
		}
	})
}

// stalledWriter takes the first bytes and then none until it is released.
type stalledWriter struct {
	begun   chan struct{}
	release chan struct{}
	bytes   int
}

func (w *stalledWriter) Write(p []byte) (int, error) {
	if w.bytes == 0 {
		close(w.begun)
	}
	w.bytes += len(p)
	<-w.release
	return len(p), nil
}

// TestReceiversThatDoNotReadAreFewAndCutOff: they hold a slot each, one too many is refused, and in a minute all are gone.
func TestReceiversThatDoNotReadAreFewAndCutOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 1, nil)
		fill(t, c)
		const most = 4
		ended := make(chan error, most)
		release := make(chan struct{})
		for range most {
			w := &stalledWriter{begun: make(chan struct{}), release: release}
			tool := toolOf(t, c)
			go func() {
				_, err := tool.SaveSnapshot(t.Context(), c.Nodes[0].Addr, w, nil)
				ended <- err
			}()
			<-w.begun
		}
		tool := toolOf(t, c)
		_, err := tool.SaveSnapshot(t.Context(), c.Nodes[0].Addr, io.Discard, nil)
		if client.CodeOf(err) != controllerv1.ErrorCode_ERROR_CODE_OVERLOADED {
			t.Errorf("one too many: %v", err)
		}
		time.Sleep(61 * time.Second)
		if _, err := tool.SaveSnapshot(t.Context(), c.Nodes[0].Addr, io.Discard, nil); err != nil {
			t.Errorf("after a minute: %v", err)
		}
		close(release)
		for range most {
			if err := <-ended; err == nil {
				t.Error("a receiver that did not read got a whole snapshot")
			}
		}
	})
}

// TestSaveIsCutByTheNetworkOrTheCaller: the error says so, wherever it is cut.
func TestSaveIsCutByTheNetworkOrTheCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 1, nil)
		fill(t, c)
		n := c.Nodes[0]
		for _, after := range []int{1, 100_000, 1_000_000} {
			for what, cut := range map[string]func(context.CancelFunc){
				"network": func(context.CancelFunc) { c.Net.Reset(n.Name) },
				"caller":  func(cancel context.CancelFunc) { cancel() },
			} {
				ctx, cancel := context.WithCancel(t.Context())
				w := &cuttingWriter{after: after, cut: func() { cut(cancel) }}
				if _, err := toolOf(t, c).SaveSnapshot(ctx, n.Addr, w, nil); err == nil || w.cut != nil {
					t.Errorf("cut by the %s after %d bytes: %v", what, after, err)
				}
				cancel()
			}
		}
	})
}

// cuttingWriter calls cut once, after some bytes.
type cuttingWriter struct {
	after int
	cut   func()
}

func (w *cuttingWriter) Write(p []byte) (int, error) {
	if w.after -= len(p); w.after <= 0 && w.cut != nil {
		w.cut()
		w.cut = nil
	}
	return len(p), nil
}

func TestAnEmptyNodeSavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.Start(t, 1, nil)
		_, err := toolOf(t, c).SaveSnapshot(t.Context(), c.Nodes[0].Addr, io.Discard, nil)
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Code != controllerv1.ErrorCode_ERROR_CODE_UNFORMATTED {
			t.Errorf("%v", err)
		}
	})
}

// frozenNodesSaveNothing: those that are frozen refuse, or have ended.
func frozenNodesSaveNothing(t *testing.T, c *quorumtest.Cluster, nodes []*quorumtest.Node) {
	t.Helper()
	for _, n := range nodes {
		frozen := n.Status().Frozen != ""
		if _, err := toolOf(t, c).SaveSnapshot(t.Context(), n.Addr, io.Discard, nil); frozen && err == nil {
			t.Errorf("%s is frozen and was saved from", n.Name)
		}
	}
}

// diskIsReadUpTo an image: what follows it does not fold.
func diskIsReadUpTo(t *testing.T, dir string, img *fsm.Image) {
	t.Helper()
	d, err := quorum.ReadDisk(dir)
	if err != nil || d.Trouble == nil || !strings.Contains(d.Trouble.Error(), "does not fold") || d.Image.Digest() != img.Digest() {
		t.Errorf("the disk: %+v, %v", d, err)
	}
}
