package transport

import (
	"time"

	"github.com/hashicorp/raft"
)

// heldUpTick is how long a heartbeat waits for Raft before it is asked whether Raft is held up, and then once more.
const heldUpTick = 50 * time.Millisecond

// HeldUp tells the term that a node is in, and whether it is a follower whose main goroutine waits for its disk. It is
// called from any goroutine.
type HeldUp func() (term uint64, held bool)

// WhenHeldUp has heartbeats answered for a Raft that is held up.
func (n *Network) WhenHeldUp(held HeldUp) { n.held.Store(&held) }

// heartbeat hands a heartbeat to Raft, on the goroutine of its connection. When Raft does not take it because the disk
// holds it up, it is answered here: else a disk that is slow, but writes, would cost a leader its lease. That answer says
// no more than that this node lives and has promised nothing to a later leader, and it touches nothing of Raft's.
func (n *Network) heartbeat(rpc raft.RPC) {
	n.ear.listen(rpc.Command)
	ticker := time.NewTicker(heldUpTick)
	defer ticker.Stop()
	for {
		select {
		case n.inbound <- rpc:
			return
		case <-ticker.C:
			if n.answerHeldUp(rpc) {
				return
			}
		case <-n.closed:
			rpc.Respond(nil, raft.ErrTransportShutdown)
			return
		}
	}
}

// answerHeldUp answers a heartbeat of the present term if Raft is held up, and tells whether it did.
func (n *Network) answerHeldUp(rpc raft.RPC) bool {
	held, beat := n.held.Load(), rpc.Command.(*raft.AppendEntriesRequest)
	if held == nil {
		return false
	}
	term, is := (*held)()
	if !is || term != beat.Term {
		return false
	}
	name := []byte(n.self.String())
	header := raft.RPCHeader{ProtocolVersion: protocolVersion, ID: name, Addr: name}
	rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: header, Term: term, Success: true}, nil)
	return true
}
