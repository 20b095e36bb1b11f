package quorumtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/bootstrap"
	"github.com/skiffmq/skiff/quorum/controller"
)

const (
	// firstNodeID is the id of the first node; the others follow it.
	firstNodeID = 101
	// quorumPort is the port of every node, each on its own host.
	quorumPort = 9093
	// patience bounds every wait, in the clock of the test.
	patience = 60 * time.Second
)

// Cluster is a quorum of real nodes in this process.
type Cluster struct {
	// Net is the network between them.
	Net *Network
	// Nodes by their place: node 101 is Nodes[0].
	Nodes []*Node

	t      testing.TB
	change func(*quorum.Config)
}

// Node is one node, running or not.
type Node struct {
	// Quorum is the running node; nil while it is stopped.
	*quorum.Node
	// ID of the node.
	ID int32
	// Name of its host.
	Name string
	// Dir is its data directory.
	Dir string
	// Addr is host:port on the network.
	Addr string

	host   *Host
	cancel context.CancelFunc
	done   chan error
}

// New starts n empty nodes, initialises them, and waits for an open claim. change may alter each node's configuration;
// it may be nil. Everything ends with the test.
func New(t testing.TB, n int, change func(*quorum.Config)) *Cluster {
	t.Helper()
	c := Start(t, n, change)
	c.Init()
	c.Await("an open claim", func() bool { return c.Active() != nil })
	return c
}

// Start starts n empty nodes.
func Start(t testing.TB, n int, change func(*quorum.Config)) *Cluster {
	t.Helper()
	c := &Cluster{Net: NewNetwork(), t: t, change: change}
	for i := range n {
		id := int32(firstNodeID + i)
		name := fmt.Sprintf("c%d", i+1)
		c.Nodes = append(c.Nodes, &Node{
			ID: id, Name: name, Dir: filepath.Join(t.TempDir(), name),
			Addr: net.JoinHostPort(name, fmt.Sprint(quorumPort)), host: c.Net.Host(name),
		})
	}
	for _, node := range c.Nodes {
		c.Start(node)
	}
	t.Cleanup(c.Stop)
	return c
}

// Init initialises the nodes as one quorum.
func (c *Cluster) Init() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := bootstrap.Init(ctx, c.Voters(), c.BootstrapOptions()); err != nil {
		c.t.Fatalf("init: %v", err)
	}
}

// Voters are the nodes as init is told of them.
func (c *Cluster) Voters() []bootstrap.Voter {
	var out []bootstrap.Voter
	for _, n := range c.Nodes {
		out = append(out, bootstrap.Voter{NodeID: n.ID, Address: n.Addr})
	}
	return out
}

// BootstrapOptions reach the nodes from the host "tool".
func (c *Cluster) BootstrapOptions() bootstrap.Options {
	return bootstrap.Options{Dial: c.Net.Host("tool").Dial}
}

// Start starts a node that is stopped.
func (c *Cluster) Start(n *Node) {
	c.t.Helper()
	if err := c.TryStart(n); err != nil {
		c.t.Fatalf("start %s: %v", n.Name, err)
	}
}

// TryStart starts a node that is stopped, or gives the reason why it does not start.
func (c *Cluster) TryStart(n *Node) error {
	l, err := n.host.Listen(quorumPort)
	if err != nil {
		return err
	}
	cfg := quorum.Config{
		NodeID: n.ID, DataDir: n.Dir,
		Advertised: quorum.Endpoint{Host: n.Name},
		Defaults:   controller.KafkaDefaults(),
		Dial:       n.host.Dial,
		Logger:     Logger(c.t, n.Name),
	}
	if c.change != nil {
		c.change(&cfg)
	}
	node, err := quorum.Open(cfg, l)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.Node, n.cancel, n.done = node, cancel, make(chan error, 1)
	go func() { n.done <- node.Run(ctx) }()
	return nil
}

// Terminate stops a node as SIGTERM does: it hands over leadership first.
func (c *Cluster) Terminate(n *Node) error {
	if n.Node == nil {
		return nil
	}
	n.cancel()
	err := <-n.done
	n.Node = nil
	return err
}

// Crash stops a node without a word to anybody: nothing is handed over, its port refuses and its connections are reset.
func (c *Cluster) Crash(n *Node) {
	if n.Node == nil {
		return
	}
	c.Net.Kill(n.Name)
	if err := n.Node.Close(); err != nil {
		c.t.Errorf("close %s: %v", n.Name, err)
	}
	n.cancel()
	select {
	case <-n.done:
	case <-time.After(patience): // a test that took its end
	}
	n.Node = nil
}

// Done delivers the error with which the node's Run ends, once.
func (n *Node) Done() <-chan error { return n.done }

// Ended gives the error with which a node's Run ended by itself, and marks it stopped.
func (c *Cluster) Ended(n *Node) error {
	c.t.Helper()
	select {
	case err := <-n.done:
		n.Node = nil
		return err
	case <-time.After(patience):
		c.t.Fatalf("%s does not end", n.Name)
		return nil
	}
}

// Stop stops every node.
func (c *Cluster) Stop() {
	for _, n := range c.Nodes {
		c.Crash(n)
	}
}

// Running are the nodes that run.
func (c *Cluster) Running() []*Node {
	var out []*Node
	for _, n := range c.Nodes {
		if n.Node != nil {
			out = append(out, n)
		}
	}
	return out
}

// Active is the node that holds an open claim and the highest controller epoch of those who do; nil if nobody does.
func (c *Cluster) Active() *Node {
	var best *Node
	for _, n := range c.Running() {
		if s := n.Status(); s.Active && (best == nil || s.Term > best.Status().Term) {
			best = n
		}
	}
	return best
}

// Others are the running nodes but this one.
func (c *Cluster) Others(n *Node) []*Node {
	var out []*Node
	for _, o := range c.Running() {
		if o != n {
			out = append(out, o)
		}
	}
	return out
}

// Isolate cuts a node from every other one, both ways.
func (c *Cluster) Isolate(n *Node) {
	for _, o := range c.Nodes {
		if o != n {
			c.Net.Partition(n.Name, o.Name)
		}
	}
}

// Heal ends Isolate.
func (c *Cluster) Heal(n *Node) {
	for _, o := range c.Nodes {
		if o != n {
			c.Net.Rejoin(n.Name, o.Name)
		}
	}
}

// Await waits until the condition holds.
func (c *Cluster) Await(what string, ok func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			c.t.Fatalf("waited in vain for %s\n%s", what, c.Describe())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// AwaitSame waits until every running node has one (lineage, metadata offset, digest) and none of them is frozen (I1).
func (c *Cluster) AwaitSame() {
	c.t.Helper()
	c.Await("equal images", func() bool {
		positions := map[string]bool{}
		for _, n := range c.Running() {
			s := n.Status()
			if s.Frozen != "" {
				c.t.Fatalf("%s: %s", n.Name, s.Frozen)
			}
			positions[position(s)] = true
		}
		return len(positions) == 1 && c.Active() != nil
	})
}

func position(s quorum.Status) string {
	if s.Image == nil {
		return "none"
	}
	return fmt.Sprintf("%s %d %s", s.Image.Lineage().ID, s.Image.NextOffset(), s.Image.Digest())
}

// Describe says where every node stands.
func (c *Cluster) Describe() string {
	var b strings.Builder
	for _, n := range c.Nodes {
		if n.Node == nil {
			fmt.Fprintf(&b, "%s: stopped\n", n.Name)
			continue
		}
		s := n.Status()
		fmt.Fprintf(&b, "%s: %s term %d, active %t, log %d, committed %d, snapshot %d, image %s, not ready %q\n",
			n.Name, s.RaftState, s.Term, s.Active, s.LastIndex, s.CommitIndex, s.SnapshotIndex, position(s), s.NotReady)
	}
	return b.String()
}

// Conn is a gRPC connection from a host to an address.
func (c *Cluster) Conn(from, addr string) *grpc.ClientConn {
	c.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(c.Net.Host(from).Dial))
	if err != nil {
		c.t.Fatal(err)
	}
	return conn
}

// Logger writes to stderr if SKIFF_TEST_LOG is set to a level, else nowhere.
func Logger(t testing.TB, name string) hclog.Logger {
	level := os.Getenv("SKIFF_TEST_LOG")
	if level == "" {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Name: t.Name() + "/" + name, Level: hclog.LevelFromString(level), Output: os.Stderr})
}
