package quorum

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/transport"
)

// Node is one quorum node: from an empty directory that waits for its init to a voter that leads.
type Node struct {
	cfg         Config
	logger      hclog.Logger
	incarnation fsm.UUID
	metrics     *metrics
	mux         *transport.Mux
	book        *transport.AddressBook

	// change is held by who changes the identity or starts the member: a slot, not a mutex, because its holder writes
	// to disk.
	change   chan struct{}
	identity *identity // guarded by change
	// staging is the one call that may bring a snapshot.
	staging staging

	view   atomic.Pointer[view]
	member atomic.Pointer[member] // nil before init
	waits  atomic.Pointer[grpc.Server]
	saves  chan struct{} // a slot for each snapshot that is being sent

	fatal chan *StopError        // capacity 1: the first is the one that counts
	wiped atomic.Pointer[string] // the directory that this one has replaced; set once

	wg      sync.WaitGroup
	closing sync.Once
}

// view is what the node shows of its identity. It is immutable.
type view struct {
	self      transport.PeerID
	plan      *plan
	formatted bool
}

// Open makes a node of a data directory and of a bound listener, which it owns from then on. A node whose directory
// is initialised has started Raft when Open returns; an empty one waits for init. The error is a *StopError when the
// directory is not this node's, or cannot be used without losing data.
func Open(cfg Config, listener net.Listener) (*Node, error) {
	cfg = cfg.withDefaults()
	id, err := openIdentity(cfg)
	if err != nil {
		listener.Close()
		return nil, err
	}
	n := &Node{
		cfg: cfg, logger: cfg.Logger, identity: id,
		incarnation: newUUID(),
		mux:         transport.NewMux(listener, cfg.Logger.Named("mux")),
		book:        &transport.AddressBook{Overrides: cfg.Peers, Bootstrap: cfg.Bootstrap},
		change:      make(chan struct{}, 1),
		staging:     newStaging(),
		saves:       make(chan struct{}, savesMax),
		fatal:       make(chan *StopError, 1),
	}
	n.book.Registered = n.registeredAddress
	n.publish()
	if err := n.begin(); err != nil {
		n.Close()
		return nil, err
	}
	n.wg.Go(func() {
		if err := n.mux.Serve(); err != nil {
			n.fail(broken("", "the quorum's listener failed: %w", err))
		}
	})
	return n, nil
}

// begin starts the member, or waits for init.
func (n *Node) begin() (err error) {
	if n.metrics, err = newMetrics(n); err != nil {
		return fmt.Errorf("register the node's metrics: %w", err)
	}
	if n.identity.meta.formatted() {
		return n.startMember()
	}
	n.logger.Info("this node is not initialised; it waits for skiff quorum init",
		"directory-id", n.identity.meta.Directory.String(), "address", n.mux.Addr().String())
	n.mux.HandleRaft(n.refuseRaft)
	n.waits.Store(n.serveUnformatted())
	return nil
}

// startMember starts Raft and everything above it. change is held, or nobody else knows the node yet.
func (n *Node) startMember() error {
	m, err := openMember(n)
	if err != nil {
		return err
	}
	n.member.Store(m)
	m.run()
	return nil
}

// Run waits until ctx ends, then hands over leadership, stops, and returns nil. If the node cannot go on it stops
// earlier and returns a *StopError.
func (n *Node) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return n.stop(true)
	case stop := <-n.fatal:
		n.logger.Error(stop.Cause, "fix", stop.Fix, "exit-code", stop.Code)
		if err := n.stop(false); err != nil {
			n.logger.Error("the node did not stop cleanly", "error", err)
		}
		return stop
	}
}

// Close stops the node without handing over leadership.
func (n *Node) Close() error { return n.stop(false) }

// stop runs once; later calls do nothing.
func (n *Node) stop(handOver bool) (err error) {
	n.closing.Do(func() { err = n.shutdown(handOver) })
	return err
}

// shutdown keeps an order: leadership goes first, then the controller, then Raft and its connections, then the port, so
// that the others see at once that this node is gone, and the store last.
func (n *Node) shutdown(handOver bool) error {
	n.change <- struct{}{} // an init that is being committed ends first; none begins any more
	var errs []error
	if m := n.member.Load(); m != nil {
		if handOver {
			m.handOver()
		}
		m.disconnect()
	}
	if server := n.waits.Load(); server != nil {
		server.Stop()
	}
	errs = append(errs, ignoreClosed(n.mux.Close()))
	n.wg.Wait()
	if m := n.member.Load(); m != nil {
		errs = append(errs, m.stop())
	}
	errs = append(errs, n.identity.close())
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// fail asks Run to stop the node. Only the first cause counts.
func (n *Node) fail(stop *StopError) {
	select {
	case n.fatal <- stop:
	default:
	}
}

// exclusively runs do while nobody else changes the identity.
func (n *Node) exclusively(ctx context.Context, do func() error) error {
	select {
	case n.change <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-n.change }()
	err := do()
	n.publish()
	return err
}

// publish shows the identity as it is now.
func (n *Node) publish() {
	id := n.identity
	n.view.Store(&view{self: id.meta.self(), plan: id.held(), formatted: id.meta.formatted()})
	if id.meta.formatted() {
		n.book.SetInitial(id.meta.Plan.addresses())
	}
}

// refuseRaft answers Raft connections while the node is not initialised: an empty Raft node would grant any vote. A
// peer that means this node's id with another directory knows the disk that was here before.
func (n *Node) refuseRaft(conn net.Conn) error {
	defer conn.Close()
	err := transport.Welcome(conn, func(p transport.Preamble) transport.Answer {
		self := n.view.Load().self
		if p.To.NodeID == self.NodeID && p.To.Directory != self.Directory {
			n.reportWiped(p, self)
		}
		return transport.Answer{
			Verdict: transport.Unformatted, Self: self,
			Refusal: fmt.Sprintf("this node (%s) is not initialised", self),
		}
	})
	if transport.IsRefused(err, transport.Unformatted) {
		return nil // the node has said that it waits, and the one thing that matters is reported above
	}
	return err
}

// reportWiped says once that the quorum knows this node by another directory. The node does not exit: starting it
// again would find the same.
func (n *Node) reportWiped(p transport.Preamble, self transport.PeerID) {
	known := p.To.Directory.String()
	if !n.wiped.CompareAndSwap(nil, &known) {
		return
	}
	n.logger.Error(fmt.Sprintf("node %d is known to cluster %s with directory %s, but this directory is %s and empty: "+
		"its disk was wiped or replaced. It stays out of the quorum until it is brought back as a new member",
		self.NodeID, p.ClusterID, known, self.Directory),
		"from", p.From.String(), "fix", transport.RejoinCommand(self.NodeID))
}

// waiting is why a node that is not initialised does not serve.
func (n *Node) waiting() string {
	if known := n.wiped.Load(); known != nil {
		return fmt.Sprintf("this directory is empty, and the quorum knows this node by directory %s: %s", *known, transport.RejoinCommand(n.cfg.NodeID))
	}
	return "not initialised: run skiff quorum init for a new cluster, or skiff snapshot restore for one that was lost"
}

// registeredAddress is where a peer said itself that it is reached.
func (n *Node) registeredAddress(peer transport.PeerID) (string, bool) {
	m := n.member.Load()
	if m == nil {
		return "", false
	}
	img := m.machine.image.Load()
	if img == nil {
		return "", false
	}
	c, ok := img.Controller(peer.NodeID)
	if !ok || c.DirectoryID != peer.Directory || len(c.Listeners) == 0 {
		return "", false
	}
	return c.Listeners[0].Address(), true
}

// Image is the node's image; nil before it is initialised. It may be behind.
func (n *Node) Image() *fsm.Image {
	if m := n.member.Load(); m != nil {
		return m.machine.image.Load()
	}
	return nil
}

// Addr is the address that the node listens on.
func (n *Node) Addr() net.Addr { return n.mux.Addr() }

// drain lets the calls of the server that waited for init end, the one that committed it among them, and stops it.
func (n *Node) drain(server *grpc.Server) {
	const grace = 5 * time.Second
	n.wg.Go(func() {
		timer := time.AfterFunc(grace, server.Stop)
		defer timer.Stop()
		server.GracefulStop()
	})
}

// Loop is the active controller of the node, whether it holds a claim or not; nil before the node is initialised.
func (n *Node) Loop() *active.Loop {
	if m := n.member.Load(); m != nil {
		return m.loop
	}
	return nil
}
