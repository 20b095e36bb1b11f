package quorum

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/quorum/transport"
)

// A process that was killed leaves two traces: the system closes its connections, and then refuses new ones. Both
// together say that it is gone, within a millisecond, where a timeout can only guess after a second. A follower that
// sees both of its leader stands for election at once, as if the leader had handed over (docs/adr/0019).

// Times of a take-over.
const (
	// takeoverStep lies between the turns of two voters: enough for an election on a slow disk.
	takeoverStep = 150 * time.Millisecond
	// takeoverRetry is the pause before the second and last look: the system closes what a process had open in an
	// order of its own, so its listener may outlive its connections by a moment.
	takeoverRetry = 50 * time.Millisecond
	// campaignTimeout bounds the wait for Raft to take the request: later it would disturb whoever leads by then.
	campaignTimeout = 100 * time.Millisecond
)

// outlook is what this node sees of the quorum at one moment.
type outlook struct {
	self   transport.PeerID
	voters []transport.PeerID
	// state, term and leader are Raft's; leader is zero if it knows none.
	state  raft.RaftState
	term   uint64
	leader transport.PeerID
	// heard is who spoke as the leader last, and in which term.
	heard transport.Heard
	// voted is the term in which this node voted last.
	voted uint64
	// unfit: the image is not to be trusted, or the disk does not answer. Such a node must not lead.
	unfit bool
}

// suspicion is that a leader's process is gone.
type suspicion struct {
	transport.Heard
	// rank of this node among the other voters, by node id: when its turn is.
	rank int
}

// suspect begins a suspicion when the leader's connections have ended. It returns false when this node is not one to
// act on it.
func (o *outlook) suspect() (suspicion, bool) {
	s := suspicion{Heard: o.heard, rank: rankAmong(o.voters, o.self, o.heard.Leader)}
	return s, s.rank >= 0 && s.unchanged(o) && s.holds(o)
}

// holds tells whether the suspicion is still worth acting on: nobody else leads or may be about to.
func (s *suspicion) holds(o *outlook) bool {
	return o.state == raft.Follower && !o.unfit && o.heard == s.Heard && (s.unchanged(o) || s.refused(o))
}

// unchanged: this node still follows the leader in its term.
func (s *suspicion) unchanged(o *outlook) bool { return o.term == s.Term && o.leader == s.Leader }

// refused: the term has grown only by a candidate to whom this node, being ahead of it, refused its vote. Raft forgets
// the leader then.
func (s *suspicion) refused(o *outlook) bool {
	return o.term > s.Term && o.voted < o.term && o.leader.IsZero()
}

// rankAmong is the place of self among the voters without the leader, in the order of node ids; -1 if it has none.
func rankAmong(voters []transport.PeerID, self, leader transport.PeerID) int {
	others := slices.DeleteFunc(slices.Clone(voters), func(p transport.PeerID) bool { return p == leader })
	slices.SortFunc(others, func(a, b transport.PeerID) int { return int(a.NodeID) - int(b.NodeID) })
	return slices.Index(others, self)
}

// outlook looks at Raft now.
func (m *member) outlook() *outlook {
	leader, _ := m.leader()
	voted, err := m.store.vote.term()
	return &outlook{
		self: m.self, voters: m.voters(),
		state: m.raft.State(), term: m.raft.CurrentTerm(), leader: leader,
		heard: m.network.Heard(), voted: voted,
		unfit: m.machine.fault.Load() != nil || m.stall.Load() != nil || err != nil && !isNotFound(err),
	}
}

// voters are the voters of the latest configuration.
func (m *member) voters() []transport.PeerID {
	var out []transport.PeerID
	for _, s := range m.servers() {
		if p, err := transport.ParsePeerID(string(s.ID)); err == nil && s.Suffrage == raft.Voter {
			out = append(out, p)
		}
	}
	return out
}

// connectionLost is told by the transport of each connection that a peer has ended.
func (m *member) connectionLost(peer transport.PeerID) {
	if peer == m.network.Heard().Leader {
		m.leaderLost.set()
	}
}

// watchLeader takes over from a leader whose process is gone.
func (m *member) watchLeader() {
	for {
		select {
		case <-m.leaderLost:
			m.takeOver()
		case <-m.ctx.Done():
			return
		}
	}
}

// takeOver makes sure, waits for this node's turn, makes sure again, and stands for election. It looks before it waits:
// connections end for other reasons too, and a turn that began with one of those would come at a moment of no meaning.
func (m *member) takeOver() {
	s, ok := m.outlook().suspect()
	if !ok || !m.looksGone(&s) {
		return
	}
	if s.rank > 0 && (!m.rest(time.Duration(s.rank)*takeoverStep) || !m.isGone(&s)) {
		return
	}
	m.campaign(&s)
}

// looksGone looks twice, if need be.
func (m *member) looksGone(s *suspicion) bool {
	return m.isGone(s) || m.rest(takeoverRetry) && m.isGone(s)
}

// isGone tells whether the leader's port refuses, and whether that still matters then.
func (m *member) isGone(s *suspicion) bool {
	return s.holds(m.outlook()) && m.refuses(s.Leader) && s.holds(m.outlook())
}

// rest pauses; false means that the member stops.
func (m *member) rest(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-m.ctx.Done():
		return false
	}
}

// refuses asks whether anybody listens at the leader's address. Whoever takes longer to answer than a turn is not a
// process that is gone.
func (m *member) refuses(leader transport.PeerID) bool {
	ctx, cancel := context.WithTimeout(m.ctx, takeoverStep)
	defer cancel()
	return m.layer.Refuses(ctx, leader)
}

func (m *member) campaign(s *suspicion) {
	ctx, cancel := context.WithTimeout(m.ctx, campaignTimeout)
	defer cancel()
	if err := m.network.Campaign(ctx, m.self); err != nil {
		m.logger.Warn("the leader's process is gone, and Raft does not take the request to stand for election", "leader", s.Leader.NodeID, "term", s.Term, "error", err)
		return
	}
	m.logger.Info("the leader's process is gone: its connections ended and its port refuses; this node stands for election",
		"leader", s.Leader.NodeID, "term", s.Term, "rank", s.rank)
}
