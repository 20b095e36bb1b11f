package transport

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/fsm"
)

// PeerID is who a quorum node is for Raft: its node id and the uuid of its directory. A node whose disk was replaced
// has another PeerID, so that a disk that forgot its votes is never taken for the one that cast them.
type PeerID struct {
	// NodeID of the node, not negative.
	NodeID int32
	// Directory is the uuid of the node's directory.
	Directory fsm.UUID
}

// String is "<node id>.<directory uuid>", for example "101.AAECAwQFBgcICQoLDA0ODw".
func (p PeerID) String() string {
	return strconv.FormatInt(int64(p.NodeID), 10) + "." + p.Directory.String()
}

// ServerID is the id of the node in Raft's configuration.
func (p PeerID) ServerID() raft.ServerID { return raft.ServerID(p.String()) }

// ServerAddress is the address of the node in Raft's configuration: the same words as its id.
func (p PeerID) ServerAddress() raft.ServerAddress { return raft.ServerAddress(p.String()) }

// IsZero tells that no peer is named.
func (p PeerID) IsZero() bool { return p == PeerID{} }

// ErrPeerID is returned when a string does not name a peer.
var ErrPeerID = errors.New("not a peer id")

// ParsePeerID reads what String wrote.
func ParsePeerID(s string) (PeerID, error) {
	number, directory, found := strings.Cut(s, ".")
	if !found {
		return PeerID{}, fmt.Errorf("%w: %.80q has no dot", ErrPeerID, s)
	}
	id, err := strconv.ParseInt(number, 10, 32)
	if err != nil || id < 0 {
		return PeerID{}, fmt.Errorf("%w: %.80q does not begin with a node id", ErrPeerID, s)
	}
	uuid, err := fsm.ParseUUID(directory)
	if err != nil {
		return PeerID{}, fmt.Errorf("%w: %.80q: %w", ErrPeerID, s, err)
	}
	return PeerID{NodeID: int32(id), Directory: uuid}, nil
}

// peerAddr makes a PeerID a net.Addr: what raft.StreamLayer calls its address.
type peerAddr PeerID

func (a peerAddr) Network() string { return "skiff-raft" }
func (a peerAddr) String() string  { return PeerID(a).String() }
