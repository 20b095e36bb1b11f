package transport

import (
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// Acknowledged remembers, for each peer, the highest committed index that it acknowledged to this node. A peer whose
// log ends before it has lost entries that count as committed; its vote could elect a leader without them.
// It lives as long as the process. The number of peers is bounded by Raft's configuration: only its members are sent
// entries.
type Acknowledged struct {
	mu    sync.Mutex
	index map[PeerID]uint64 // guarded by mu
}

// NewAcknowledged gives an empty memory.
func NewAcknowledged() *Acknowledged { return &Acknowledged{index: make(map[PeerID]uint64)} }

// Record notes that the peer holds the log up to index, and that the log is committed up to commit.
func (a *Acknowledged) Record(peer PeerID, index, commit uint64) {
	held := min(index, commit)
	a.mu.Lock()
	defer a.mu.Unlock()
	if held > a.index[peer] {
		a.index[peer] = held
	}
}

// Of gives the highest committed index that the peer acknowledged, 0 if none.
func (a *Acknowledged) Of(peer PeerID) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.index[peer]
}

// lost gives a sentence when a log that ends at last cannot be the one that acknowledged, else an empty string.
func (a *Acknowledged) lost(peer PeerID, last uint64) string {
	acked := a.Of(peer)
	if last >= acked {
		return ""
	}
	return fmt.Sprintf("the log of %s ends at index %d, but it acknowledged committed entries up to %d; its disk lost them. "+
		"Bring it back as a new member: %s", peer, last, acked, RejoinCommand(peer.NodeID))
}

// recordAppend notes what a successful AppendEntries acknowledged: everything up to its last entry.
func (a *Acknowledged) recordAppend(id raft.ServerID, args *raft.AppendEntriesRequest) {
	peer, err := ParsePeerID(string(id))
	if err != nil {
		return // not a peer of ours: the dial before it has already failed
	}
	a.Record(peer, args.PrevLogEntry+uint64(len(args.Entries)), args.LeaderCommitIndex)
}

// recordSnapshot notes what an installed snapshot acknowledged: a snapshot holds committed entries only.
func (a *Acknowledged) recordSnapshot(id raft.ServerID, args *raft.InstallSnapshotRequest) {
	peer, err := ParsePeerID(string(id))
	if err != nil {
		return // see recordAppend
	}
	a.Record(peer, args.LastLogIndex, args.LastLogIndex)
}
