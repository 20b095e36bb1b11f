package quorum

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/quorum/transport"
)

// signal says that there is something to look at; more signals before the look are one. Its capacity is 1.
type signal chan struct{}

// set never blocks.
func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// followLeadership tells the loop when this node may lead. Raft's channel holds the newest value only and may skip
// some, so it is a hint to look: state and term are read anew.
func (m *member) followLeadership() {
	for {
		select {
		case <-m.raft.LeaderCh():
			m.hintLeadership()
		case <-m.frozen:
			if f := m.machine.fault.Load(); f != nil && m.raft.State() == raft.Leader {
				m.failFrozen(f)
			}
		case <-m.ctx.Done():
			return
		}
	}
}

func (m *member) hintLeadership() {
	if m.cfg.hint != nil {
		m.cfg.hint()
	}
	term, leading := m.raft.CurrentTerm(), m.raft.State() == raft.Leader
	m.logger.Info("leadership changed", "leading", leading, "term", term)
	if f := m.machine.fault.Load(); leading && f != nil {
		m.resign(f)
		return
	}
	m.loop.Leadership(leading, term)
}

// resign gives leadership away because the image is not to be trusted; a leader that cannot is of no use.
func (m *member) resign(f *fault) {
	m.logger.Error("this node was elected with an image that is not to be trusted; it hands over", "error", f)
	if err := m.transfer(nil); err != nil {
		m.failFrozen(f)
	}
}

// Bounds of a hand-over.
const (
	transferAttempts = 3
	transferTimeout  = 5 * time.Second
)

// errNoPeer is returned when there is nobody to hand leadership to.
var errNoPeer = errors.New("no other voter")

// handOver gives leadership to a peer before the node stops, if it leads and there is one.
func (m *member) handOver() {
	if m.raft.State() != raft.Leader || m.stall.Load() != nil {
		return // there is nothing to give, or no disk to give it with
	}
	switch err := m.transfer(nil); {
	case errors.Is(err, errNoPeer):
	case err != nil:
		m.logger.Warn("leadership was not handed over; the others elect", "error", err)
	default:
		m.logger.Info("leadership was handed over")
	}
}

// transfer hands leadership to the target, or to the most caught up voter if it is nil.
func (m *member) transfer(target *transport.PeerID) error {
	if !m.hasPeer() {
		return errNoPeer
	}
	var err error
	for range transferAttempts {
		if err = m.awaitTransfer(m.startTransfer(target)); err == nil || m.raft.State() != raft.Leader {
			return nil
		}
	}
	return err
}

func (m *member) startTransfer(target *transport.PeerID) raft.Future {
	if target == nil {
		return m.raft.LeadershipTransfer()
	}
	return m.raft.LeadershipTransferToServer(target.ServerID(), target.ServerAddress())
}

// awaitTransfer waits with a bound of its own: the future may come back after the leader has stopped leading only.
func (m *member) awaitTransfer(future raft.Future) error {
	over := make(chan struct{})
	timer := time.AfterFunc(transferTimeout, func() { close(over) })
	defer timer.Stop()
	giveUpOn(future, over)
	return future.Error()
}

// hasPeer tells whether the configuration has another voter.
func (m *member) hasPeer() bool {
	for _, s := range m.servers() {
		if s.Suffrage == raft.Voter && s.ID != m.self.ServerID() {
			return true
		}
	}
	return false
}

// servers are the members of the latest configuration.
func (m *member) servers() []raft.Server {
	future := m.raft.GetConfiguration() // answered from a copy, at once
	if future.Error() != nil {
		return nil
	}
	return future.Configuration().Servers
}

// leader is who Raft believes to lead.
func (m *member) leader() (transport.PeerID, bool) {
	_, id := m.raft.LeaderWithID()
	peer, err := transport.ParsePeerID(string(id))
	return peer, err == nil
}

// leaderContactAge is how long ago the leader was heard: 0 on the leader, negative if never.
func (m *member) leaderContactAge() time.Duration {
	if m.raft.State() == raft.Leader {
		return 0
	}
	last := m.raft.LastContact()
	if last.IsZero() {
		return -1
	}
	return time.Since(last)
}

// leaderAddress is where the leader, who is or soon will be the active controller, is reached; empty if unknown.
func (m *member) leaderAddress() string {
	peer, ok := m.leader()
	if !ok {
		return ""
	}
	if peer == m.self {
		return m.advertised()
	}
	if addresses := m.node.book.Lookup(peer); len(addresses) > 0 {
		return addresses[0]
	}
	return ""
}
