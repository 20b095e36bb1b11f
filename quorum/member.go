package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"google.golang.org/grpc"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/archive"
	"github.com/skiffmq/skiff/quorum/controller"
	"github.com/skiffmq/skiff/quorum/feed"
	"github.com/skiffmq/skiff/quorum/history"
	"github.com/skiffmq/skiff/quorum/transport"
)

// entriesInFlight is how many entries the active controller has in the log and not yet applied. ReadDisk tells by it what is
// certainly committed; a log that was written with more must not be read with less.
const entriesInFlight = 1

// member is an initialised node: Raft, the fold, the active controller and who serves them.
type member struct {
	node   *Node
	cfg    Config
	logger hclog.Logger
	self   transport.PeerID
	plan   *plan

	store    *guard
	size     *logSize
	machine  *machine
	acked    *transport.Acknowledged
	layer    *transport.Layer
	network  *transport.Network
	raft     *raft.Raft
	ending   raft.Future // set by disconnect
	feed     *feed.Feed
	loop     *active.Loop
	proposer *proposer
	snaps    *snapshotter
	archive  *archive.Archive  // nil if none is kept
	history  *history.Recorder // nil if none is kept
	server   *grpc.Server
	metrics  *metrics
	// frozen wakes followLeadership when the image freezes.
	frozen signal
	// leaderLost wakes watchLeader when the leader has ended a connection.
	leaderLost signal
	// ended is set when the node has met the lineage that took the place of its own.
	ended atomic.Bool
	// stall is the operation of the store that takes too long; nil while the disk answers.
	stall atomic.Pointer[operation]
	// room on the disk.
	room room

	// serving is set while Raft messages can be taken; lastIndex stands for Raft's before it runs.
	serving   atomic.Bool
	lastIndex uint64

	ctx    context.Context //nolint:containedctx // ends with the member; its goroutines share it
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// openMember opens the node's store and starts Raft on it. When it fails everything it opened is closed.
func openMember(n *Node) (*member, error) {
	id := n.identity
	m := &member{
		node: n, cfg: n.cfg, logger: n.logger, self: id.meta.self(), plan: id.meta.Plan,
		size: &logSize{}, metrics: n.metrics, acked: transport.NewAcknowledged(),
		feed: feed.New(feed.Options{}), proposer: newProposer(), frozen: make(signal, 1), leaderLost: make(signal, 1),
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.machine = m.newMachine()
	m.loop = active.New(m.loopConfig())
	m.archive = m.newArchive()
	m.history = m.newHistory()
	if err := m.openStore(id); err != nil {
		m.cancel()
		return nil, err
	}
	if err := m.openRaft(id.raftDir()); err != nil {
		m.cancel()
		if m.network != nil {
			m.network.Close()
		}
		m.store.Close()
		return nil, err
	}
	return m, nil
}

func (m *member) newMachine() *machine {
	return &machine{
		logger:    m.logger,
		clusterID: m.plan.ClusterID,
		lineage:   m.plan.lineage(),
		published: m.feed.Publish,
		observed:  func(r fsm.Result, e *metadatav1.Envelope) { m.loop.Observe(r, e) },
		restored: func(img *fsm.Image) {
			m.feed.Reset(img)
			m.loop.Restored()
		},
		froze: m.frozen.set,
	}
}

func (m *member) loopConfig() active.Config {
	return active.Config{
		NodeID: m.self.NodeID, DirectoryID: m.self.Directory, IncarnationID: m.node.incarnation,
		Log: m.log(), Depth: max(m.cfg.depth, entriesInFlight), Image: m.machine.image.Load, Env: m.env,
		Registration:   m.registration(),
		SessionTimeout: m.cfg.SessionTimeout,
		Dial:           m.dialBroker,
		Logger:         m.logger.Named("active"),
	}
}

// log is the loop's way into Raft.
func (m *member) log() active.Log {
	if m.cfg.log != nil {
		return m.cfg.log(m.proposer)
	}
	return m.proposer
}

// env is what a decision may know besides image and request.
func (m *member) env() *controller.Env {
	limits := controller.DefaultLimits()
	limits.RecoveryElectionWait = m.cfg.RecoveryWait
	return &controller.Env{
		Now:      time.Now(),
		Rand:     rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		Limits:   limits,
		Defaults: m.cfg.Defaults,
	}
}

func (m *member) openStore(id *identity) error {
	inner, err := openEngine(id.meta.Store.Kind, id.raftDir(), false, quietly(m.logger.Named("store")))
	if err != nil {
		return err
	}
	if err := id.meta.Store.check(inner, enginePath(id.meta.Store.Kind, id.raftDir())); err != nil {
		return errors.Join(err, inner.Close())
	}
	if m.cfg.disk != nil {
		inner = m.cfg.disk(inner)
	}
	m.store = newGuard(inner, m.size, func(err error) {
		m.node.fail(broken("look at the disk; the node may be started again once it can be written", "%w", err))
	})
	return nil
}

func (m *member) openRaft(dir string) error {
	snapshots, err := newSnapshotStore(dir, quietly(m.logger.Named("snapshot")))
	if err != nil {
		return err
	}
	ground, err := preflight(m.store, snapshots, m.size, m.self, m.logger)
	if err != nil {
		return err
	}
	m.lastIndex = ground.lastIndex
	m.snaps = newSnapshotter(m, ground.snapshot)
	snapshots.completed = m.snapshotCompleted
	m.store.observe, m.store.appended = m.metrics.appended, m.snaps.wake
	cache, err := raft.NewLogCache(logCacheEntries, m.store)
	if err != nil {
		return fmt.Errorf("make the log cache: %w", err)
	}
	gate := &transport.Gate{Self: m.self, Standing: m.standing, Acked: m.acked}
	m.layer = transport.NewLayer(gate, m.node.book, m.cfg.Dial)
	m.layer.OnRefused(m.judgeRefusals)
	m.layer.OnSuperseded(m.supersede)
	m.layer.OnLost(m.connectionLost)
	m.network = transport.NewNetwork(m.layer, quietly(m.logger.Named("raft")))
	m.raft, err = raft.NewRaft(m.cfg.raftConfig(m.self, quietly(m.logger.Named("raft"))), m.machine, cache, m.store, snapshots, m.network)
	if err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	m.network.WhenHeldUp(m.heldUp)
	return nil
}

// run starts everything above Raft, opens the port to peers, and returns.
func (m *member) run() {
	m.proposer.start(m.raft)
	m.snaps.offset = m.machine.image.Load().NextOffset()
	m.server = m.newServer()
	listener := m.node.mux.GRPC()
	m.wg.Go(func() { m.serve(listener) })
	m.wg.Go(m.decide)
	m.wg.Go(m.followLeadership)
	m.wg.Go(m.watchLeader)
	m.wg.Go(m.watchStore)
	m.wg.Go(m.watchRoom)
	m.wg.Go(m.register)
	m.wg.Go(m.snaps.run)
	if m.archive != nil {
		m.wg.Go(func() { m.archive.Run(m.ctx) })
	}
	if m.history != nil {
		m.wg.Go(m.recordHistory)
	}
	m.serving.Store(true)
	m.node.mux.HandleRaft(m.layer.Admit)
	m.logger.Info("this node is a member of the quorum", "raft-id", m.self.String(), "cluster-id", m.plan.ClusterID,
		"lineage", m.plan.lineage().String(), "address", m.node.mux.Addr().String(), "metadata-offset", m.machine.image.Load().AppliedOffset())
}

func (m *member) serve(listener net.Listener) {
	if err := m.server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		m.node.fail(broken("", "the gRPC server failed: %w", err))
	}
}

// decide runs the active controller's loop. It ends early only when a committed entry does not fold here (I3).
func (m *member) decide() {
	if err := m.loop.Run(m.ctx); err != nil {
		m.node.fail(broken("the image is kept as it is; see skiff doctor", "this node cannot lead: %w", err))
	}
}

// judgeRefusals ends the node when so many voters belong to one other cluster that no quorum of this one can ever be:
// this node was given their addresses, or the volume of another cluster. As long as a quorum is possible the strangers
// may be the ones in the wrong place, and the node goes on.
func (m *member) judgeRefusals(problems map[transport.PeerID]transport.Problem) {
	strangers := map[string]int{}
	voters := 0
	for _, s := range m.servers() {
		voters++
		peer, err := transport.ParsePeerID(string(s.ID))
		if err != nil {
			continue
		}
		var refused *transport.RefusedError
		if errors.As(problems[peer].Err, &refused) && refused.Verdict == transport.WrongCluster {
			strangers[refused.Theirs.ClusterID]++
		}
	}
	for other, n := range strangers {
		if voters-n < voters/2+1 {
			m.node.fail(refuse("correct the addresses of the other voters (--peer), or mount the volume that belongs to their cluster",
				"%s says that this node belongs to cluster %s, but %d of its %d voters are reached at nodes of cluster %s",
				filepath.Join(m.cfg.DataDir, metaFile), m.plan.ClusterID, n, voters, other))
		}
	}
}

// standing is what this node says of itself in a handshake.
func (m *member) standing() (transport.Standing, bool) {
	s := transport.Standing{ClusterID: m.plan.ClusterID, Lineage: m.plan.lineage(), LastIndex: m.lastIndex}
	if img := m.machine.image.Load(); img != nil {
		lineage := img.Lineage()
		s.Lineage, s.Ancestors, s.Claimed = lineage.ID, lineage.Ancestors, img.ClaimOffset() >= 0
	}
	if !m.serving.Load() {
		return s, false
	}
	s.LastIndex = m.raft.LastIndex()
	return s, true
}

// failFrozen ends a leader whose image is frozen; a follower stays up for doctor.
func (m *member) failFrozen(err error) {
	m.node.fail(broken("another node leads now; see skiff doctor on this one", "this node leads and its image is frozen: %w", err))
}

// Bounds of stopping: what does not end by then is left behind.
const (
	stopTimeout = 10 * time.Second
	// stalledStopTimeout is that of a node whose store does not answer: there is nothing to wait for.
	stalledStopTimeout = time.Second
)

// disconnect ends the member for everybody outside: the controller, Raft and its connections.
func (m *member) disconnect() {
	m.serving.Store(false)
	m.cancel()
	if m.server != nil {
		m.server.Stop()
	}
	m.layer.Close()
	m.ending = m.raft.Shutdown()
	m.network.Close()
	m.network.CloseStreams()
}

// stop answers everybody inside who still waits and closes the store, after disconnect. What hangs in the store is
// left behind, with the store open: another process must not use it before the last write of this one has ended.
func (m *member) stop() error {
	timeout := stopTimeout
	if m.stall.Load() != nil {
		timeout = stalledStopTimeout
	}
	done := make(chan error, 1)
	go func() {
		m.wg.Wait()
		m.proposer.close()
		m.ending.Error() //nolint:errcheck // it is always nil
		done <- m.store.Close()
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(timeout):
		return fmt.Errorf("raft did not stop within %s; its store is still open", timeout)
	}
}
