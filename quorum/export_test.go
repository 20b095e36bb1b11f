package quorum

import (
	"sync/atomic"
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

// OnDisk puts a node on a disk of 1 GiB of which so much is free.
func OnDisk(cfg *Config, free *atomic.Int64) {
	cfg.FreeBytesLow = DefaultFreeBytesLow
	cfg.space = func(string) (int64, int64, error) { return free.Load(), 1 << 30, nil }
}

// HandOverTo gives leadership to another node, as an operator has it done.
func (n *Node) HandOverTo(other *Node) error {
	self := other.view.Load().self
	return n.member.Load().transfer(&self)
}
