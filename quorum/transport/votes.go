package transport

import (
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// votes remembers what this node answered to those who asked for its vote. Raft tells nobody of a vote that it refuses,
// and who refused one knows that it is ahead of a candidate.
type votes struct {
	// refusedTerm is the newest term in which this node considered a candidate and refused its vote.
	refusedTerm atomic.Uint64
	// refusals says that there was another; capacity 1, and never waited for.
	refusals chan struct{}
}

func newVotes() votes { return votes{refusals: make(chan struct{}, 1)} }

// answered takes note of the answer to a question for a vote. One that stays in another term than the candidate's says
// that the candidate was not considered.
func (v *votes) answered(question *raft.RequestVoteRequest, answer any) {
	vote, ok := answer.(*raft.RequestVoteResponse)
	if !ok || vote.Granted || vote.Term != question.Term {
		return
	}
	v.refusedTerm.Store(question.Term)
	select {
	case v.refusals <- struct{}{}:
	default:
	}
}

// overhear takes note of the answer to a question for a vote, on its way to who asked.
func (n *Network) overhear(rpc raft.RPC) raft.RPC {
	question, ok := rpc.Command.(*raft.RequestVoteRequest)
	if !ok {
		return rpc
	}
	answer, asker := make(chan raft.RPCResponse, 1), rpc.RespChan
	rpc.RespChan = answer
	n.wg.Go(func() {
		select {
		case a := <-answer:
			n.votes.answered(question, a.Response)
			asker <- a // never waits: the transport keeps room for the one answer
		case <-n.closed:
		}
	})
	return rpc
}

// Refusals says that this node has refused its vote; RefusedTerm tells in which term.
func (n *Network) Refusals() <-chan struct{} { return n.votes.refusals }

// RefusedTerm is the newest term in which this node considered a candidate and refused its vote; 0 if there is none.
func (n *Network) RefusedTerm() uint64 { return n.votes.refusedTerm.Load() }
