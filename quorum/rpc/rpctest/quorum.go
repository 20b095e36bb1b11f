package rpctest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
	"github.com/skiffmq/skiff/quorum/feed"
	"github.com/skiffmq/skiff/quorum/rpc"
)

// Options of a Quorum; what is zero takes its default.
type Options struct {
	// Nodes is the number of nodes, 3 by default.
	Nodes int
	// Depth is the number of entries in flight.
	Depth int
	// SessionTimeout of brokers, 9 s by default.
	SessionTimeout time.Duration
	// Feed bounds the feed of every node.
	Feed feed.Options
	// Defaults of the controller; Kafka's own by default.
	Defaults *controller.Defaults
	// Image that every node begins from; that of a new cluster by default.
	Image *fsm.Image
	// Probe connects to brokers; nil probes nobody.
	Probe func(ctx context.Context, address string) (net.Conn, error)
	// LogDelay is how long an entry waits before it is appended.
	LogDelay time.Duration
	// Logger of everything; nothing by default.
	Logger hclog.Logger
}

// Quorum is some nodes and the log that they share.
type Quorum struct {
	tb     testing.TB
	opts   Options
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu guards the following. Nothing that waits is called under it.
	mu     sync.Mutex
	nodes  []*Node
	leader int // index of the node that leads, -1 for none
	term   uint64
	log    []entry
}

// entry of the shared log.
type entry struct {
	term uint64
	data []byte
}

// New starts a quorum in which nobody leads. It is closed when the test ends; in a bubble Close must be called before.
func New(tb testing.TB, opts Options) *Quorum {
	tb.Helper()
	if opts.Nodes == 0 {
		opts.Nodes = 3
	}
	if opts.Logger == nil {
		opts.Logger = hclog.NewNullLogger()
	}
	if opts.Defaults == nil {
		d := controller.KafkaDefaults()
		opts.Defaults = &d
	}
	if opts.Image == nil {
		opts.Image = newCluster(tb)
	}
	ctx, cancel := context.WithCancel(context.Background())
	q := &Quorum{tb: tb, opts: opts, cancel: cancel, leader: -1}
	for i := range opts.Nodes {
		q.nodes = append(q.nodes, q.newNode(ctx, i, opts.Image))
	}
	tb.Cleanup(q.Close)
	return q
}

func newCluster(tb testing.TB) *fsm.Image {
	tb.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId:          fsm.UUID{0xc1}.String(),
		Lineage:            fsm.LineageID{Number: 1, UUID: fsm.UUID{0x11}}.Proto(),
		NextMetadataOffset: 1,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return img
}

// Close stops everything. It may be called twice.
func (q *Quorum) Close() {
	q.cancel()
	for _, n := range q.nodes {
		n.stop()
	}
	q.wg.Wait()
}

// Addresses of the nodes.
func (q *Quorum) Addresses() []string {
	addrs := make([]string, len(q.nodes))
	for i, n := range q.nodes {
		addrs[i] = n.Addr
	}
	return addrs
}

// Node returns the i-th node.
func (q *Quorum) Node(i int) *Node { return q.nodes[i] }

// Dial connects to a node by its address.
func (q *Quorum) Dial(ctx context.Context, addr string) (net.Conn, error) {
	for _, n := range q.nodes {
		if n.Addr == addr {
			return n.currentListener().dial(ctx)
		}
	}
	return nil, &net.OpError{Op: "dial", Net: "mem", Addr: memAddr(addr), Err: syscall.ECONNREFUSED}
}

// Lead makes the i-th node lead in a new term; -1 leaves the quorum without a leader. The node catches up first.
func (q *Quorum) Lead(i int) {
	q.mu.Lock()
	q.term++
	old := q.leader
	q.leader = i
	term := q.term
	if i >= 0 {
		q.nodes[i].held = false
		q.catchUp(q.nodes[i])
	}
	q.mu.Unlock()
	if old >= 0 && old != i {
		q.nodes[old].Loop.Leadership(false, term)
	}
	if i >= 0 {
		q.nodes[i].Loop.Leadership(true, term)
	}
}

// Leader returns the node that leads, nil if there is none.
func (q *Quorum) Leader() *Node {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.leader < 0 {
		return nil
	}
	return q.nodes[q.leader]
}

// propose appends an entry and applies it everywhere, if the node leads.
func (q *Quorum) propose(n *Node, data []byte) active.Answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.leader < 0 || q.nodes[q.leader] != n {
		return active.Answer{Err: active.ErrNotAppended}
	}
	q.log = append(q.log, entry{term: q.term, data: data})
	var answer active.Answer
	for _, each := range q.nodes {
		if res, ok := q.catchUp(each); ok && each == n {
			answer.Result = res
		}
	}
	return answer
}

// catchUp applies what a node has not applied yet, and returns the last result.
func (q *Quorum) catchUp(n *Node) (fsm.Result, bool) {
	var last fsm.Result
	applied := false
	for !n.held && n.applied < len(q.log) {
		last = n.apply(q.log[n.applied])
		n.applied++
		applied = true
	}
	return last, applied
}

// Node is one quorum node.
type Node struct {
	ID   int32
	Addr string
	Loop *active.Loop
	Feed *feed.Feed

	q          *Quorum
	image      atomic.Pointer[fsm.Image]
	contactAge atomic.Int64
	fault      atomic.Pointer[string]
	// applied and held are guarded by Quorum.mu.
	applied int
	held    bool

	// mu guards the following.
	mu       sync.Mutex
	listener *listener
	server   *grpc.Server
}

func (q *Quorum) newNode(ctx context.Context, i int, img *fsm.Image) *Node {
	n := &Node{ID: int32(101 + i), Addr: fmt.Sprintf("c%d:9093", i+1), q: q, Feed: feed.New(q.opts.Feed)}
	n.image.Store(img)
	n.Feed.Reset(img)
	rnd := rand.New(rand.NewPCG(uint64(i), 7))
	n.Loop = active.New(active.Config{
		NodeID: n.ID, DirectoryID: fsm.UUID{byte(i), 1}, IncarnationID: fsm.UUID{byte(i), 2},
		Depth: q.opts.Depth, Dial: q.opts.Probe, Log: nodeLog{n}, Image: n.Image, SessionTimeout: q.opts.SessionTimeout, Logger: q.opts.Logger.Named(n.Addr),
		Env: func() *controller.Env {
			return &controller.Env{Now: time.Now(), Rand: rnd, Limits: controller.DefaultLimits(), Defaults: *q.opts.Defaults}
		},
	})
	n.Start()
	q.wg.Go(func() {
		if err := n.Loop.Run(ctx); err != nil {
			q.tb.Errorf("%s: %v", n.Addr, err)
		}
	})
	return n
}

// Start serves the node's address, again after Kill.
func (n *Node) Start() {
	server := grpc.NewServer(rpc.ServerOptions(n.Image)...)
	rpc.RegisterServices(server, rpc.Deps{Loop: n.Loop, Feed: n.Feed, Image: n.Image, Node: view{n}, Logger: n.q.opts.Logger.Named(n.Addr)})
	quorumv1.RegisterQuorumServiceServer(server, statusService{n: n})
	l := newListener(n.Addr)
	n.mu.Lock()
	n.listener, n.server = l, server
	n.mu.Unlock()
	n.q.wg.Go(func() { _ = server.Serve(l) }) // its end is the listener's
}

// Kill closes the node's connections and refuses new ones, as the end of a process does. It goes on applying.
func (n *Node) Kill() { n.stop() }

func (n *Node) stop() {
	n.mu.Lock()
	server, l := n.server, n.listener
	n.mu.Unlock()
	_ = l.Close() // never fails
	server.Stop()
}

func (n *Node) currentListener() *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listener
}

// Blackhole swallows what is sent to and by the node, or ends that.
func (n *Node) Blackhole(on bool) { n.currentListener().blackhole.Store(on) }

// Hold keeps the node from applying entries, or lets it catch up.
func (n *Node) Hold(on bool) {
	n.q.mu.Lock()
	defer n.q.mu.Unlock()
	n.held = on
	n.q.catchUp(n)
}

// SetContactAge sets how long ago the node claims to have heard the leader.
func (n *Node) SetContactAge(d time.Duration) { n.contactAge.Store(int64(d)) }

// SetFault freezes what the node serves; "" ends that.
func (n *Node) SetFault(fault string) { n.fault.Store(&fault) }

// Image is the one that the node has applied.
func (n *Node) Image() *fsm.Image { return n.image.Load() }

// apply folds one entry as a quorum node does.
func (n *Node) apply(e entry) fsm.Result {
	env, err := fsm.DecodeEnvelope(e.data)
	if err != nil {
		n.q.tb.Errorf("%s: %v", n.Addr, err)
		return fsm.Result{Outcome: fsm.Broken, Err: err}
	}
	img := n.Image()
	res := fsm.Apply(img, fsm.Entry{Envelope: env, ControllerEpoch: img.EpochBase() + int64(e.term)})
	if res.Outcome == fsm.Broken || res.Alarm != nil {
		n.q.tb.Errorf("%s: entry does not fold: %v, %v", n.Addr, res.Err, res.Alarm)
	}
	if res.Outcome == fsm.Applied {
		n.image.Store(res.Image)
		n.Feed.Publish(&controllerv1.EntryApplied{
			FirstMetadataOffset: res.FirstOffset, ControllerEpoch: res.ControllerEpoch, Envelope: e.data,
		}, res.Image)
	}
	n.Loop.Observe(res, env)
	return res
}

// nodeLog is the log as a node's loop sees it.
type nodeLog struct{ n *Node }

// Propose commits at once or after LogDelay, or not at all.
func (l nodeLog) Propose(data []byte, _ time.Duration) <-chan active.Answer {
	answer := make(chan active.Answer, 1)
	propose := func() { answer <- l.n.q.propose(l.n, data) }
	if delay := l.n.q.opts.LogDelay; delay > 0 {
		time.AfterFunc(delay, propose)
	} else {
		propose()
	}
	return answer
}

// view is the node as its edge sees it.
type view struct{ n *Node }

// LeaderContactAge is 0 on the leader, and otherwise what the test has set.
func (v view) LeaderContactAge() time.Duration {
	if v.n.q.Leader() == v.n {
		return 0
	}
	return time.Duration(v.n.contactAge.Load())
}

// ActiveController is the leader's address.
func (v view) ActiveController() string {
	if leader := v.n.q.Leader(); leader != nil {
		return leader.Addr
	}
	return ""
}

// Fault is what the test has set.
func (v view) Fault() string {
	if f := v.n.fault.Load(); f != nil {
		return *f
	}
	return ""
}

// statusService answers what the client's search asks.
type statusService struct {
	quorumv1.UnimplementedQuorumServiceServer
	n *Node
}

// Status tells whether the node is active, and who is.
func (s statusService) Status(context.Context, *quorumv1.StatusRequest) (*quorumv1.StatusResponse, error) {
	v, img := view{s.n}, s.n.Image()
	return &quorumv1.StatusResponse{
		NodeId: s.n.ID, Active: s.n.Loop.Active(), ActiveController: v.ActiveController(), Frozen: v.Fault(),
		NextMetadataOffset: img.NextOffset(), ControllerEpoch: img.ControllerEpoch(), LeaderContactAgeMs: v.LeaderContactAge().Milliseconds(),
	}, nil
}
