package transport

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Settings of the network transport.
const (
	// rpcTimeout bounds one RPC; a snapshot gets one more for each 256 KiB.
	rpcTimeout = 10 * time.Second
	// poolMax is the number of idle connections kept for each peer.
	poolMax = 3
	// rpcsInFlight of 1 switches pipelining off: with more a follower can be wedged for ever (hashicorp/raft#612).
	rpcsInFlight = 1
	// protocolVersion of a request that this node makes to itself.
	protocolVersion raft.ProtocolVersion = 3
)

// Network is raft's network transport over a Layer. It embeds the concrete type, not the interface, so that every
// optional interface (pre-vote, close) is still there.
type Network struct {
	*raft.NetworkTransport
	self  PeerID
	acked *Acknowledged
	ear   ear
	held  atomic.Pointer[HeldUp]
	votes votes

	inbound chan raft.RPC
	closed  chan struct{}
	closing sync.Once
	wg      sync.WaitGroup
}

// NewNetwork starts the transport on the layer and owns it: Close closes the layer.
func NewNetwork(layer *Layer, logger hclog.Logger) *Network {
	inner := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:          layer,
		MaxPool:         poolMax,
		MaxRPCsInFlight: rpcsInFlight,
		Timeout:         rpcTimeout,
		Logger:          logger,
	})
	n := &Network{
		NetworkTransport: inner, self: layer.gate.Self, acked: layer.gate.Acked, votes: newVotes(),
		inbound: make(chan raft.RPC), closed: make(chan struct{}),
	}
	inner.SetHeartbeatHandler(n.heartbeat)
	n.wg.Go(n.relay)
	return n
}

// Consumer gives the requests that Raft answers: those of the peers, and those that this node makes to itself.
func (n *Network) Consumer() <-chan raft.RPC { return n.inbound }

// relay hands the peers' requests to Raft and listens who leads.
func (n *Network) relay() {
	for {
		select {
		case rpc := <-n.NetworkTransport.Consumer():
			n.ear.listen(rpc.Command)
			select {
			case n.inbound <- n.overhear(rpc):
			case <-n.closed:
				return
			}
		case <-n.closed:
			return
		}
	}
}

// Heard tells who spoke as the leader last.
func (n *Network) Heard() Heard { return n.ear.heard() }

// Campaign has this node stand for election now, as if the leader had asked it to take over (Raft thesis 3.10): the
// others vote although they know a leader. It returns when Raft has taken the request.
func (n *Network) Campaign(ctx context.Context, self PeerID) error {
	answer := make(chan raft.RPCResponse, 1)
	header := raft.RPCHeader{ProtocolVersion: protocolVersion, ID: []byte(self.String()), Addr: []byte(self.String())}
	select {
	case n.inbound <- raft.RPC{Command: &raft.TimeoutNowRequest{RPCHeader: header}, RespChan: answer}:
	case <-ctx.Done():
		return ctx.Err()
	case <-n.closed:
		return raft.ErrTransportShutdown
	}
	select {
	case response := <-answer:
		return response.Error
	case <-ctx.Done():
		return ctx.Err()
	case <-n.closed:
		return raft.ErrTransportShutdown
	}
}

// Close ends every request and closes the layer.
func (n *Network) Close() error {
	n.closing.Do(func() { close(n.closed) })
	err := n.NetworkTransport.Close()
	n.wg.Wait()
	return err
}

// RequestVote asks for a vote. Raft asks once, and a connection that was kept from before the peer started anew fails
// only when it is used: it must not cost the vote. The same question in the same term has the same answer.
func (n *Network) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return freshly(func() error { return n.NetworkTransport.RequestVote(id, target, args, resp) })
}

// RequestPreVote asks whether the peer would vote. See RequestVote.
func (n *Network) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return freshly(func() error { return n.NetworkTransport.RequestPreVote(id, target, args, resp) })
}

// freshly asks again while connections turn out to be gone: at most as many as are kept, then on a new one.
func freshly(ask func() error) error {
	err := ask()
	for range poolMax {
		if err == nil || !isGone(err) {
			break
		}
		err = ask()
	}
	return err
}

// SetHeartbeatHandler does nothing: heartbeats go to Raft's main goroutine like every other RPC. On Raft's fast path
// they change term and state while the main goroutine may be appending entries (hashicorp/raft#695). What becomes of
// those that find the main goroutine held up, see heartbeat.
func (n *Network) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntriesPipeline is refused, so that every append passes AppendEntries, which remembers what was acknowledged.
func (n *Network) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries sends the entries and remembers what the peer acknowledged.
func (n *Network) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := n.NetworkTransport.AppendEntries(id, target, args, resp)
	if err == nil && resp.Success {
		n.acked.recordAppend(id, args)
	}
	return err
}

// InstallSnapshot sends the snapshot and remembers what the peer acknowledged.
func (n *Network) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	err := n.NetworkTransport.InstallSnapshot(id, target, args, resp, data)
	if err == nil && resp.Success {
		n.acked.recordSnapshot(id, args)
	}
	return err
}
