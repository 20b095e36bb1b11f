package transport

import (
	"io"
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
)

// Network is raft's network transport over a Layer. It embeds the concrete type, not the interface, so that every
// optional interface (pre-vote, close) is still there.
type Network struct {
	*raft.NetworkTransport
	acked *Acknowledged
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
	return &Network{NetworkTransport: inner, acked: layer.gate.Acked}
}

// SetHeartbeatHandler does nothing: heartbeats go to Raft's main goroutine like every other RPC. On the fast path
// they change term and state while the main goroutine may be appending entries (hashicorp/raft#695).
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
