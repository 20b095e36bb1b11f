package quorum_test

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/bootstrap"
	"github.com/skiffmq/skiff/quorum/controller"
)

// testNode is a node on a real socket and a real directory.
type testNode struct {
	id     int32
	dir    string
	addr   string
	node   *quorum.Node
	cancel context.CancelFunc
	done   chan error
}

func startNode(t *testing.T, id int32, dir, addr string) *testNode {
	t.Helper()
	tn, err := tryStartNode(t, id, dir, addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tn
}

func tryStartNode(t *testing.T, id int32, dir, addr string, change func(*quorum.Config)) (*testNode, error) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	cfg := quorum.Config{
		NodeID: id, DataDir: dir, Advertised: quorum.Endpoint{Host: "127.0.0.1"},
		Defaults: controller.KafkaDefaults(),
		Logger:   testLogger(),
	}
	if change != nil {
		change(&cfg)
	}
	node, err := quorum.Open(cfg, l)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	tn := &testNode{id: id, dir: dir, addr: node.Addr().String(), node: node, cancel: cancel, done: make(chan error, 1)}
	go func() { tn.done <- node.Run(ctx) }()
	t.Cleanup(func() { tn.stop(t) })
	return tn, nil
}

func (n *testNode) stop(t *testing.T) {
	t.Helper()
	n.cancel()
	select {
	case err := <-n.done:
		n.done <- err
	case <-time.After(20 * time.Second):
		t.Errorf("node %d did not stop", n.id)
	}
}

func testLogger() hclog.Logger {
	if os.Getenv("SKIFF_TEST_LOG") == "" {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: os.Stderr})
}

// eventually waits for a condition with a deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func votersOf(nodes []*testNode) []bootstrap.Voter {
	var out []bootstrap.Voter
	for _, n := range nodes {
		out = append(out, bootstrap.Voter{NodeID: n.id, Address: n.addr})
	}
	return out
}

func activeOf(nodes []*testNode) *testNode {
	for _, n := range nodes {
		if n.node.Status().Active {
			return n
		}
	}
	return nil
}

func createTopic(t *testing.T, addr, name string) error {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = controllerv1.NewAdminServiceClient(conn).CreateTopics(ctx, &controllerv1.CreateTopicsRequest{
		Topics: []*controllerv1.CreatableTopic{{Name: name, NumPartitions: 1, ReplicationFactor: 1}},
	})
	return err
}

func testInit(t *testing.T, n int) {
	var nodes []*testNode
	for i := range n {
		nodes = append(nodes, startNode(t, int32(101+i), t.TempDir(), "127.0.0.1:0"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	result, err := bootstrap.Init(ctx, votersOf(nodes), bootstrap.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if result.AlreadyInitialised || result.Resumed {
		t.Fatalf("first init: %+v", result)
	}
	eventually(t, "a claim", func() bool { return activeOf(nodes) != nil })
	again, err := bootstrap.Init(ctx, votersOf(nodes), bootstrap.Options{})
	if err != nil || !again.AlreadyInitialised || again.ClusterID != result.ClusterID {
		t.Fatalf("second init: %+v, %v", again, err)
	}
	eventually(t, "all registered and ready", func() bool {
		for _, node := range nodes {
			s := node.node.Status()
			if !s.Ready {
				return false
			}
			for _, v := range nodes {
				if _, ok := s.Image.Controller(v.id); !ok {
					return false
				}
			}
		}
		return true
	})
	if err := createTopic(t, activeOf(nodes).addr, "foo"); err != nil {
		t.Fatal(err)
	}
}

func TestInitOfOneVoter(t *testing.T)    { testInit(t, 1) }
func TestInitOfThreeVoters(t *testing.T) { testInit(t, 3) }
