package transport

import "github.com/skiffmq/skiff/fsm"

// Successor is a lineage that has taken the place of this node's.
type Successor struct {
	// Peer that said so.
	Peer PeerID
	// Lineage of the peer, which a committed claim stands behind.
	Lineage fsm.LineageID
	// ForkOffset is the first metadata offset of this node's lineage that the successor does not continue.
	ForkOffset int64
}

// supersededBy tells whether theirs is a descendant of the lineage, in the same cluster, and where it left it. Only a
// lineage that was claimed supersedes another: before that it may still be one that nobody ever leads.
func (s Standing) supersededBy(theirs Standing) (forkOffset int64, yes bool) {
	if s.ClusterID == "" || s.ClusterID != theirs.ClusterID || !theirs.Claimed {
		return 0, false
	}
	if !(fsm.Lineage{ID: theirs.Lineage, Ancestors: theirs.Ancestors}).Descends(s.Lineage) {
		return 0, false
	}
	for _, a := range theirs.Ancestors {
		if a.UUID == s.Lineage.UUID {
			return a.ForkOffset, true
		}
	}
	return 0, false
}

// compare tells whoever wants to know that the peer's lineage has taken the place of this node's.
func (l *Layer) compare(peer PeerID, theirs Standing) {
	ours, _ := l.gate.Standing()
	if fork, yes := ours.supersededBy(theirs); yes && l.superseded != nil {
		l.superseded(Successor{Peer: peer, Lineage: theirs.Lineage, ForkOffset: fork})
	}
}
