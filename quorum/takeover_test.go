package quorum

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/quorum/transport"
)

func peerOf(id int32) transport.PeerID {
	return transport.PeerID{NodeID: id, Directory: [16]byte{byte(id)}}
}

// TestWhoTakesOver: a node acts only if it is a sound follower of the leader that was lost, in that leader's term.
func TestWhoTakesOver(t *testing.T) {
	voters := []transport.PeerID{peerOf(3), peerOf(1), peerOf(2)}
	ground := func() *outlook {
		return &outlook{
			self: peerOf(2), voters: voters, state: raft.Follower, term: 5, leader: peerOf(1),
			heard: transport.Heard{Leader: peerOf(1), Term: 5}, voted: 5,
		}
	}
	cases := []struct {
		name string
		// before is how the outlook differs when the connection ends, after how it differs when the turn has come.
		before, after func(*outlook)
		suspects      bool
		// earlier is how many have their turn before it; free, that it need not wait for them when it looks again.
		earlier     int
		holds, free bool
	}{
		{name: "the first of the others", suspects: true, holds: true, free: true},
		{name: "the second of the others", before: func(o *outlook) { o.self = peerOf(3) }, suspects: true, earlier: 1, holds: true},
		{name: "the leader is in the middle", before: func(o *outlook) {
			o.self, o.leader, o.heard.Leader = peerOf(3), peerOf(2), peerOf(2)
		}, suspects: true, earlier: 1, holds: true},
		{name: "no voter", before: func(o *outlook) { o.self = peerOf(4) }},
		{name: "never heard a leader", before: func(o *outlook) { o.heard = transport.Heard{} }},
		{name: "is the leader", before: func(o *outlook) { o.self, o.state = peerOf(1), raft.Leader }},
		{name: "is a candidate already", before: func(o *outlook) { o.state = raft.Candidate }},
		{name: "knows no leader any more", before: func(o *outlook) { o.leader = transport.PeerID{} }},
		{name: "follows another already", before: func(o *outlook) { o.leader = peerOf(3) }},
		{name: "the image is frozen", before: func(o *outlook) { o.unfit = true }},
		{name: "the leader has handed over: the term is another's", before: func(o *outlook) { o.term, o.voted = 6, 6 }},
		{name: "somebody asks for votes", before: func(o *outlook) { o.term = 6 }},
		{name: "somebody is being voted for", before: func(o *outlook) { o.term, o.leader = 6, transport.PeerID{} }},
		{name: "a candidate was quicker and was refused", before: func(o *outlook) {
			o.self, o.term, o.leader, o.refused = peerOf(3), 6, transport.PeerID{}, 6
		}, suspects: true, earlier: 1, holds: true, free: true},
		{name: "a candidate of five was quicker and was refused; it may win without this vote", before: func(o *outlook) {
			o.voters = append(slices.Clone(voters), peerOf(4), peerOf(5))
			o.self, o.term, o.leader, o.refused = peerOf(3), 6, transport.PeerID{}, 6
		}, suspects: true, earlier: 1, holds: true},
		{name: "a candidate was refused, another was voted for", before: func(o *outlook) {
			o.self, o.term, o.voted, o.leader, o.refused = peerOf(3), 6, 6, transport.PeerID{}, 6
		}},
		{name: "meanwhile another leads", after: func(o *outlook) {
			o.term, o.leader, o.heard = 6, peerOf(3), transport.Heard{Leader: peerOf(3), Term: 6}
		}, suspects: true},
		{name: "meanwhile another was heard", after: func(o *outlook) { o.heard = transport.Heard{Leader: peerOf(3), Term: 6} }, suspects: true},
		{name: "meanwhile it voted for another", after: func(o *outlook) {
			o.term, o.voted, o.leader = 6, 6, transport.PeerID{}
		}, suspects: true},
		{name: "meanwhile it refused its vote to one who is behind", after: func(o *outlook) {
			o.term, o.leader, o.refused = 6, transport.PeerID{}, 6
		}, suspects: true, holds: true, free: true},
		{name: "meanwhile it is voting", after: func(o *outlook) { o.term, o.leader = 6, transport.PeerID{} }, suspects: true},
		{name: "meanwhile another leads whom it refused", after: func(o *outlook) { o.term, o.leader, o.refused = 6, peerOf(3), 6 }, suspects: true},
		{name: "meanwhile it froze", after: func(o *outlook) { o.unfit = true }, suspects: true},
		{name: "meanwhile its own timeout came", after: func(o *outlook) { o.state = raft.Candidate }, suspects: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := ground()
			if c.before != nil {
				c.before(o)
			}
			s, ok := o.suspect()
			if ok != c.suspects {
				t.Fatalf("suspects: %t", ok)
			}
			if !ok {
				return
			}
			if len(s.earlier) != c.earlier {
				t.Errorf("%d go first, want %d", len(s.earlier), c.earlier)
			}
			if c.after != nil {
				c.after(o)
			}
			if got := s.holds(o); got != c.holds {
				t.Errorf("holds: %t", got)
			}
			if got := s.free(o); c.holds && got != c.free {
				t.Errorf("free: %t", got)
			}
		})
	}
}

// TestEveryVoterHasATurnOfItsOwn: no two nodes stand for election at once, whoever the leader was.
func TestEveryVoterHasATurnOfItsOwn(t *testing.T) {
	for n := int32(1); n <= 5; n++ {
		var voters []transport.PeerID
		for id := n; id > 0; id-- {
			voters = append(voters, peerOf(id))
		}
		for _, leader := range voters {
			turns := map[int]transport.PeerID{}
			for _, self := range voters {
				earlier, votes := earlierThan(voters, self, leader)
				rank := len(earlier)
				if !votes {
					rank = -1
				}
				if other, taken := turns[rank]; taken {
					t.Errorf("%d voters, leader %s: %s and %s have turn %d", n, leader, self, other, rank)
				}
				turns[rank] = self
			}
			if turns[-1] != leader {
				t.Errorf("%d voters: leader %s has a turn: %s", n, leader, fmt.Sprint(turns))
			}
		}
	}
}
