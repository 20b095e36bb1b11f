package quorum

import (
	"time"

	"github.com/skiffmq/skiff/quorum/active"
)

// Propose hands an entry to Raft as the active controller does.
func (n *Node) Propose(entry []byte, timeout time.Duration) <-chan active.Answer {
	return n.member.Load().proposer.Propose(entry, timeout)
}

// TakeSnapshot takes a snapshot now.
func (n *Node) TakeSnapshot() error { return n.member.Load().snaps.snapshot() }

// Dropped is how many entries failed the guard on this node.
func (n *Node) Dropped() uint64 { return n.member.Load().machine.dropped.Load() }
