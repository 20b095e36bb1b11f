package powercut_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/powercut"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/bootstrap"
	"github.com/skiffmq/skiff/quorum/controller"
)

func init() {
	work["node"] = func(args []string) error { return runNode(context.Background(), args[0], args[1], nil) }
}

// addressFile says where a node listens: its port changes from one process to the next, its name in the plan does not.
const addressFile = "address"

// dialNodes connects to NAME:9093 by the file of the node of that name in dir.
func dialNodes(dir string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		name, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		at, err := os.ReadFile(filepath.Join(dir, name+"."+addressFile))
		if err != nil {
			return nil, err
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", string(at))
	}
}

// runNode runs the quorum node of a name with its directory in dir until ctx ends. opened, if it is not nil, is closed when
// the node has come up.
func runNode(ctx context.Context, dir, name string, opened chan<- *quorum.Node) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	at := filepath.Join(dir, name+"."+addressFile)
	if err := os.WriteFile(at+".tmp", []byte(listener.Addr().String()), 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := os.Rename(at+".tmp", at); err != nil {
		return errors.Join(err, listener.Close())
	}
	node, err := quorum.Open(quorum.Config{
		NodeID: 100 + int32(name[1]-'0'), DataDir: filepath.Join(dir, name), Advertised: quorum.Endpoint{Host: name, Port: 9093},
		Defaults: controller.KafkaDefaults(), Dial: dialNodes(dir),
	}, listener)
	if err != nil {
		return err
	}
	if opened != nil {
		opened <- node
	}
	return node.Run(ctx)
}

// startNode runs a node in this process until the test ends.
func startNode(t testing.TB, dir, name string) *quorum.Node {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	opened, ended := make(chan *quorum.Node, 1), make(chan error, 1)
	go func() { ended <- runNode(ctx, dir, name, opened) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("node %s: %v", name, err)
		}
	})
	select {
	case node := <-opened:
		return node
	case err := <-ended:
		ended <- nil
		var refused *quorum.StopError
		errors.As(err, &refused)
		t.Fatalf("node %s does not start after the kill: %v (%+v)", name, err, refused)
		return nil
	}
}

// birth is what is killed: an init, or a restore, of nodes of which n1 is killed.
type birth struct {
	nodes   int
	restore bool
}

func (b birth) voters() (list []bootstrap.Voter) {
	for i := range b.nodes {
		list = append(list, bootstrap.Voter{NodeID: int32(101 + i), Address: fmt.Sprintf("n%d:9093", i+1)})
	}
	return list
}

// make runs init or restore.
func (b birth) make(ctx context.Context, dir string) (bootstrap.Result, error) {
	opts := bootstrap.Options{Dial: dialNodes(dir)}
	if !b.restore {
		return bootstrap.Init(ctx, b.voters(), opts)
	}
	img, err := archiveImage(100)
	if err != nil {
		return bootstrap.Result{}, err
	}
	done, err := bootstrap.Restore(ctx, b.voters(), bootstrap.Restoration{Image: img, Replace: true}, opts)
	return done.Result, err
}

// birthPatience bounds a birth on a machine that has other things to do.
const birthPatience = 60 * time.Second

func (b birth) scenario() powercut.Scenario {
	return powercut.Scenario{
		Prepare: func(t testing.TB, dir string) {
			for i := 1; i < b.nodes; i++ {
				startNode(t, dir, fmt.Sprintf("n%d", i+1))
			}
		},
		Command:  func(dir string) *exec.Cmd { return process("node", dir, "n1") },
		Patience: birthPatience,
		Drive: func(ctx context.Context, t testing.TB, dir string) {
			if _, err := b.make(ctx, dir); err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), "repeat the command") {
				t.Errorf("the first attempt: %v", err)
			}
		},
		Check: b.check,
		// In the middle of the commit, and for each call once: a run takes seconds.
		Sample: []int{5},
	}
}

// check repeats the command, which must end with a quorum that leads and is of one plan.
func (b birth) check(t testing.TB, dir string, _ powercut.Cut) {
	node := startNode(t, dir, "n1")
	ctx, cancel := context.WithTimeout(context.Background(), birthPatience)
	defer cancel()
	done, err := b.make(ctx, dir)
	if err != nil {
		t.Errorf("the command repeated: %v", err)
		return
	}
	again, err := b.make(ctx, dir)
	if err != nil || !again.AlreadyInitialised || again.Lineage != done.Lineage {
		t.Errorf("once more: %+v, %v", again, err)
	}
	awaitClaim(ctx, t, node, done)
	if left, err := filepath.Glob(filepath.Join(dir, "n*", "sta*")); err != nil || len(left) > 0 {
		t.Errorf("staged snapshots are left: %q, %v", left, err)
	}
}

// awaitClaim waits until the node knows of a committed claim in the new lineage.
func awaitClaim(ctx context.Context, t testing.TB, node *quorum.Node, done bootstrap.Result) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if img := node.Image(); img != nil && img.ClaimOffset() >= 0 {
			if img.Lineage().ID != done.Lineage || img.ClusterID() != done.ClusterID {
				t.Errorf("cluster %s, lineage %s; the command said %s, %s", img.ClusterID(), img.Lineage().ID, done.ClusterID, done.Lineage)
			}
			if err := fsm.Check(img); err != nil {
				t.Error(err)
			}
			return
		}
		select {
		case <-ctx.Done():
			t.Error("nobody leads")
			return
		case <-tick.C:
		}
	}
}

// TestRestoreEndsWhereverItsNodeIsKilled, as the only voter.
func TestRestoreEndsWhereverItsNodeIsKilled(t *testing.T) {
	birth{nodes: 1, restore: true}.scenario().Run(t)
}

// TestInitEndsWhereverItsNodeIsKilled, as the only voter.
func TestInitEndsWhereverItsNodeIsKilled(t *testing.T) {
	onlyWhenAll(t)
	birth{nodes: 1}.scenario().Run(t)
}

// TestRestoreEndsWhereverOneOfThreeIsKilled: the other two may have committed by then, or not.
func TestRestoreEndsWhereverOneOfThreeIsKilled(t *testing.T) {
	onlyWhenAll(t)
	birth{nodes: 3, restore: true}.scenario().Run(t)
}

// onlyWhenAll leaves a long matrix out of the usual run.
func onlyWhenAll(t *testing.T) {
	t.Helper()
	if os.Getenv(powercut.Everything) != "all" {
		t.Skip("takes minutes: " + powercut.Everything + "=all")
	}
}
