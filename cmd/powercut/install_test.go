package powercut_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/powercut"
	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/bootstrap"
	"github.com/skiffmq/skiff/quorum/controller"
)

func init() { work["follower"] = follow }

// Of the follower whose disk is cut.
const (
	followerID = 103
	// patience bounds every wait.
	patience = 60 * time.Second
)

// openNode opens a node that compacts its log as far as it can.
func openNode(id int32, dir string, listener net.Listener) (*quorum.Node, error) {
	return quorum.Open(quorum.Config{
		NodeID: id, DataDir: dir, Advertised: quorum.Endpoint{Host: "127.0.0.1"}, Defaults: controller.KafkaDefaults(),
		SnapshotBytes: 200_000, TrailingBytes: 1,
	}, listener)
}

// follow is the process that is killed: a node that ends when its image has a metadata offset.
func follow(args []string) error {
	offset, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", args[1])
	if err != nil {
		return err
	}
	node, err := openNode(followerID, args[0], listener)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	for node.Image().AppliedOffset() < offset {
		select {
		case err := <-ended:
			return fmt.Errorf("the node ended: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	return <-ended
}

// lagging is a quorum of three whose third node was stopped and has missed more than the others' logs still hold.
type lagging struct {
	t       testing.TB
	nodes   []*quorum.Node
	address string // of the third
	offset  int64  // that it must come to
}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// start opens a node in this process, which runs until the test ends or the function that is returned is called.
func start(t testing.TB, id int32, dir string, l net.Listener) (*quorum.Node, func()) {
	t.Helper()
	node, err := openNode(id, dir, l)
	if err != nil {
		t.Fatalf("open node %d: %v", id, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := node.Run(ctx); err != nil {
			t.Errorf("node %d: %v", id, err)
		}
	}()
	stop := func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return node, stop
}

// newLagging makes the quorum; dir is the third node's.
func newLagging(t testing.TB, dir string) *lagging {
	t.Helper()
	q := &lagging{t: t}
	var voters []bootstrap.Voter
	var stopThird func()
	for id := int32(101); id <= followerID; id++ {
		at := dir
		if id != followerID {
			at = filepath.Join(t.TempDir(), fmt.Sprint(id))
		}
		l := listen(t, "127.0.0.1:0")
		node, stop := start(t, id, at, l)
		q.nodes, stopThird, q.address = append(q.nodes, node), stop, l.Addr().String()
		voters = append(voters, bootstrap.Voter{NodeID: id, Address: q.address})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := bootstrap.Init(ctx, voters, bootstrap.Options{}); err != nil {
		t.Fatal(err)
	}
	q.await("every node registered", func() bool {
		img := q.nodes[2].Image()
		_, ok := lookup(img, followerID)
		return ok && q.leader() != nil
	})
	stopThird()
	q.nodes = q.nodes[:2]
	q.await("a leader of two", func() bool { return q.leader() != nil })
	missed := q.leader().Status().LastIndex
	q.change()
	q.await("the log behind a snapshot", func() bool { l := q.leader(); return l != nil && l.Status().SnapshotIndex > missed })
	return q
}

func lookup(img *fsm.Image, id int32) (*fsm.Controller, bool) {
	if img == nil {
		return nil, false
	}
	return img.Controller(id)
}

func (q *lagging) await(what string, ok func() bool) {
	q.t.Helper()
	proctest.Eventually(q.t, patience, what, func() error {
		if !ok() {
			return errors.New("not yet")
		}
		return nil
	})
}

func (q *lagging) leader() *quorum.Node {
	for _, n := range q.nodes {
		if n.Status().Active {
			return n
		}
	}
	return nil
}

// change registers brokers with much to say.
func (q *lagging) change() {
	q.t.Helper()
	rack := strings.Repeat("r", 20_000)
	for id := int32(1); id <= 30; id++ {
		uuid := fsm.UUID{1, byte(id)}
		req := &controllerv1.RegisterRequest{
			BrokerId: id, IncarnationId: uuid.Bytes(), PreviousBrokerEpoch: -1, Directories: [][]byte{uuid.Bytes()}, Rack: &rack,
			Listeners: []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "b", Port: 9092}},
		}
		ctx, cancel := context.WithTimeout(q.t.Context(), patience)
		_, offset, err := active.Do(ctx, q.leader().Loop(), controller.RegisterBroker, req, &metadatav1.Cause{Principal: "test"}, uuid)
		cancel()
		if err != nil {
			q.t.Fatal(err)
		}
		q.offset = offset
	}
}

// TestFollowerIsWholeWhereverItIsKilledInASnapshot: it is given the leader's snapshot instead of a log, and killed at every call
// of that. Its next start comes to the same image as the leader's.
func TestFollowerIsWholeWhereverItIsKilledInASnapshot(t *testing.T) {
	var q *lagging
	powercut.Scenario{
		Prepare: func(t testing.TB, dir string) { q = newLagging(t, dir) },
		Command: func(dir string) *exec.Cmd {
			return process("follower", dir, q.address, strconv.FormatInt(q.offset, 10))
		},
		Check: func(t testing.TB, dir string, at powercut.Cut) {
			node, _ := start(t, followerID, dir, listen(t, q.address))
			q.t = t
			q.await("the follower has the leader's image", func() bool {
				leader := q.leader()
				return leader != nil && node.Status().Ready && node.Image().Digest() == leader.Image().Digest()
			})
			if at == (powercut.Cut{}) && node.Status().SnapshotIndex <= 1 {
				t.Error("the follower was given no snapshot: the scenario shows nothing")
			}
		},
		Sample: []int{1}, Most: 60, Patience: patience,
	}.Run(t)
}
