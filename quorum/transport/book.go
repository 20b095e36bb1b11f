package transport

import (
	"slices"
	"sync/atomic"
)

// AddressBook tells where a peer is reached. Sources are asked in order of trust; the first that knows the peer wins:
// the operator's word, what the peer itself registered in the metadata, what init was told. When none knows it, every
// bootstrap server is tried: the handshake finds out which of them it is.
type AddressBook struct {
	// Overrides are the operator's word (--peer), by node id.
	Overrides map[int32]string
	// Bootstrap are host:port of quorum nodes, of unknown id.
	Bootstrap []string
	// Registered looks in the metadata; nil or false if it does not know the peer.
	Registered func(PeerID) (string, bool)

	initial atomic.Pointer[map[PeerID]string]
}

// SetInitial tells the book what init was told, by peer.
func (b *AddressBook) SetInitial(addresses map[PeerID]string) { b.initial.Store(&addresses) }

// Lookup gives the addresses to try, in order; host names are not resolved.
func (b *AddressBook) Lookup(peer PeerID) []string {
	if address, ok := b.Overrides[peer.NodeID]; ok {
		return []string{address}
	}
	var found []string
	if b.Registered != nil {
		if address, ok := b.Registered(peer); ok {
			found = append(found, address)
		}
	}
	if initial := b.initial.Load(); initial != nil {
		if address, ok := (*initial)[peer]; ok && !slices.Contains(found, address) {
			found = append(found, address)
		}
	}
	if len(found) == 0 {
		return b.Bootstrap
	}
	return found
}
