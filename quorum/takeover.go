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
	// takeoverStep lies between the turns of two voters: enough for an election on a slow disk. An election that comes
	// into another's way splits the votes, and then Raft's timeouts decide. Nobody waits for a voter that is gone too, or
	// that cannot win without this node.
	takeoverStep = 300 * time.Millisecond
	// lookPause follows the first look at the leader's port, and doubles with every look: the system closes what a process
	// had open in an order of its own, so its listener may outlive its connections by a moment.
	lookPause = 5 * time.Millisecond
	// looksMax bounds the looks.
	looksMax = 5
	// lookPatience is how long a look waits for an answer, in the pauses after it: a port that is being closed may not
	// answer at all, and one that is far away answers a later look.
	lookPatience = 5
	// refusalTimeout bounds a look at the port of another voter.
	refusalTimeout = 150 * time.Millisecond
	// campaignTimeout bounds the wait for Raft to take the request: later it would disturb whoever leads by then.
	campaignTimeout = 100 * time.Millisecond
	// campaignsMax bounds the requests: Raft may be busy with its disk, and each is made only while it still matters.
	campaignsMax = 5
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
	// voted is the term in which this node voted last, refused the one in which it considered a candidate and said no.
	voted, refused uint64
	// unfit: the image is not to be trusted, or the disk does not answer. Such a node must not lead.
	unfit bool
}

// suspicion is that a leader's process is gone.
type suspicion struct {
	transport.Heard
	// earlier are the voters whose turn comes before this node's: those with smaller ids.
	earlier []transport.PeerID
}

// suspect begins a suspicion when the leader's connections have ended. It returns false when this node is not one to
// act on it. A candidate may have been quicker, and may have been refused by then: its question for a vote comes on a
// connection of its own.
func (o *outlook) suspect() (suspicion, bool) {
	earlier, votes := earlierThan(o.voters, o.self, o.heard.Leader)
	s := suspicion{Heard: o.heard, earlier: earlier}
	return s, votes && s.holds(o)
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
	return o.term > s.Term && o.refused == o.term && o.voted < o.term && o.leader.IsZero()
}

// free tells that nobody has to be waited for: no turn comes earlier, or the candidate that was refused cannot win
// without this node's vote, nor without the leader's that is gone.
func (s *suspicion) free(o *outlook) bool {
	return len(s.earlier) == 0 || s.refused(o) && len(o.voters)-2 < len(o.voters)/2+1
}

// earlierThan gives the voters, without the leader, whose ids are smaller than this node's. votes is false when this
// node is none of them.
func earlierThan(voters []transport.PeerID, self, leader transport.PeerID) (earlier []transport.PeerID, votes bool) {
	for _, p := range voters {
		switch {
		case p == leader:
		case p == self:
			votes = true
		case p.NodeID < self.NodeID:
			earlier = append(earlier, p)
		}
	}
	return earlier, votes
}

// outlook looks at Raft now.
func (m *member) outlook() *outlook {
	leader, _ := m.leader()
	voted, err := m.store.vote.term()
	return &outlook{
		self: m.self, voters: m.voters(),
		state: m.raft.State(), term: m.raft.CurrentTerm(), leader: leader,
		heard: m.network.Heard(), voted: voted, refused: m.network.RefusedTerm(),
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
		case <-m.network.Refusals():
		case <-m.ctx.Done():
			return
		}
		m.takeOver()
	}
}

// takeOver makes sure, waits for this node's turn, makes sure again, and stands for election. It looks before it waits:
// connections end for other reasons too, and a turn that began with one of those would come at a moment of no meaning.
func (m *member) takeOver() {
	s, ok := m.outlook().suspect()
	if !ok || !m.looksGone(&s) || !m.awaitTurn(&s) {
		return
	}
	m.campaign(&s)
}

// looksGone looks more than once, if need be.
func (m *member) looksGone(s *suspicion) bool {
	pause := lookPause
	for range looksMax {
		if m.isGone(s, lookPatience*pause) {
			return true
		}
		if !m.rest(pause) || !s.holds(m.outlook()) {
			return false
		}
		pause *= 2
	}
	return false
}

// isGone tells whether the leader's port refuses, and whether that still matters then.
func (m *member) isGone(s *suspicion, patience time.Duration) bool {
	return s.holds(m.outlook()) && m.refuses(s.Leader, patience) && s.holds(m.outlook())
}

// awaitTurn lets the earlier voters go first, and tells whether this node is still needed then. A voter whose process is
// gone too is not waited for.
func (m *member) awaitTurn(s *suspicion) bool {
	s.earlier = slices.DeleteFunc(s.earlier, func(p transport.PeerID) bool { return m.refuses(p, refusalTimeout) })
	if s.free(m.outlook()) {
		return s.holds(m.outlook())
	}
	turn := time.NewTimer(time.Duration(len(s.earlier)) * takeoverStep)
	defer turn.Stop()
	for {
		select {
		case <-turn.C:
			return m.isGone(s, refusalTimeout)
		case <-m.network.Refusals():
			if s.free(m.outlook()) {
				return m.isGone(s, refusalTimeout)
			}
		case <-m.ctx.Done():
			return false
		}
	}
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

// refuses asks whether anybody listens at a peer's address. Whoever does not answer in time is not a process that is gone.
func (m *member) refuses(peer transport.PeerID, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(m.ctx, within)
	defer cancel()
	return m.layer.Refuses(ctx, peer)
}

// campaign asks Raft to stand for election until it takes the request or somebody else has gone on.
func (m *member) campaign(s *suspicion) {
	var err error
	for range campaignsMax {
		if !s.holds(m.outlook()) {
			return
		}
		if err = m.campaignOnce(); err == nil {
			m.logger.Info("the leader's process is gone: its connections ended and its port refuses; this node stands for election",
				"leader", s.Leader.NodeID, "term", s.Term, "before-it", len(s.earlier))
			return
		}
	}
	m.logger.Warn("the leader's process is gone, and Raft does not take the request to stand for election", "leader", s.Leader.NodeID, "term", s.Term, "error", err)
}

func (m *member) campaignOnce() error {
	ctx, cancel := context.WithTimeout(m.ctx, campaignTimeout)
	defer cancel()
	return m.network.Campaign(ctx, m.self)
}
