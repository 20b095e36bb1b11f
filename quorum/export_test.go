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

// HandOverTo gives leadership to another node, as an operator has it done.
func (n *Node) HandOverTo(other *Node) error {
	self := other.view.Load().self
	return n.member.Load().transfer(&self)
}
