package transport

import (
	"errors"
	"fmt"
)

// Gate judges the preambles of nodes that dial this one, and the answers of nodes that this one dials.
type Gate struct {
	// Self is this node.
	Self PeerID
	// Standing tells what this node says of itself now; false while it can take no Raft message yet or no longer.
	Standing func() (Standing, bool)
	// Acked knows what each peer acknowledged.
	Acked *Acknowledged
}

// RefusedError is returned when a peer refused the connection, or when this node refuses the peer's answer.
type RefusedError struct {
	// Peer that was dialed, or that dialed.
	Peer PeerID
	// Verdict is why.
	Verdict Verdict
	// Theirs is what the peer said of itself.
	Theirs Standing
	// Reason is a sentence with both values.
	Reason string
}

// Error is the sentence.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("peer %s: %s: %s", e.Peer, e.Verdict, e.Reason)
}

// IsRefused tells whether err is a refusal with that verdict.
func IsRefused(err error, verdict Verdict) bool {
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Verdict == verdict
}

// RejoinCommand is what the operator types when the node's disk is not the one that the quorum knows.
func RejoinCommand(nodeID int32) string {
	return fmt.Sprintf("skiff quorum rejoin --node-id %d", nodeID)
}

// Judge gives the answer to a preamble. It changes nothing.
func (g *Gate) Judge(p Preamble) Answer {
	ours, serving := g.Standing()
	verdict, refusal := g.judge(p, ours, serving)
	return Answer{Standing: ours, Verdict: verdict, Self: g.Self, Refusal: refusal}
}

func (g *Gate) judge(p Preamble, ours Standing, serving bool) (Verdict, string) {
	if p.ClusterID != ours.ClusterID {
		return WrongCluster, fmt.Sprintf("you belong to cluster %s, this node (%s) to cluster %s", p.ClusterID, g.Self, ours.ClusterID)
	}
	if fork, superseded := p.supersededBy(ours); superseded {
		return LineageBehind, fmt.Sprintf("your lineage %s was superseded at metadata offset %d by %s", p.Lineage, fork, ours.Lineage)
	}
	if p.To != g.Self {
		return WrongTarget, fmt.Sprintf("you mean %s, this node is %s", p.To, g.Self)
	}
	if verdict, why := judgeLineage(p.Standing, ours); verdict != Accepted {
		return verdict, why
	}
	if !serving {
		return NotServing, "this node is starting or stopping"
	}
	if lost := g.Acked.lost(p.From, p.LastIndex); lost != "" {
		return LostEntries, lost
	}
	return Accepted, ""
}

func judgeLineage(theirs, ours Standing) (Verdict, string) {
	switch {
	case theirs.Lineage == ours.Lineage:
		return Accepted, ""
	case theirs.Lineage.Number < ours.Lineage.Number:
		return LineageBehind, fmt.Sprintf("your lineage is %s, this node's is %s", theirs.Lineage, ours.Lineage)
	default:
		return LineageForeign, fmt.Sprintf("your lineage is %s, this node's is %s, which does not continue yours", theirs.Lineage, ours.Lineage)
	}
}

// judgeAnswer tells whether the dialer may go on; peer is who was dialed.
func (g *Gate) judgeAnswer(peer PeerID, a Answer) error {
	refuse := func(verdict Verdict, reason string) error {
		return &RefusedError{Peer: peer, Verdict: verdict, Theirs: a.Standing, Reason: reason}
	}
	if a.Verdict != Accepted {
		return refuse(a.Verdict, a.Refusal)
	}
	if a.Self != peer {
		return refuse(WrongTarget, fmt.Sprintf("it accepts, but says that it is %s", a.Self))
	}
	if lost := g.Acked.lost(peer, a.LastIndex); lost != "" {
		return refuse(LostEntries, lost)
	}
	return nil
}
