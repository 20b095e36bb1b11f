package fsm

import (
	"fmt"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// Controller is a quorum node as it registered itself. It is immutable.
type Controller struct {
	// ID is the node id.
	ID int32
	// DirectoryID names the node's directory; together with ID it is the node's name in Raft.
	DirectoryID UUID
	// IncarnationID is new for each start of the process.
	IncarnationID UUID
	// Listeners where the node is reached.
	Listeners []Listener
	// Features that the node supports.
	Features []Feature
}

// Listener returns the endpoint with this name.
func (n *Controller) Listener(name string) (Listener, bool) { return findListener(n.Listeners, name) }

// Record returns the registration as the record that states it.
func (n *Controller) Record() *metadatav1.ControllerRegistered {
	return &metadatav1.ControllerRegistered{
		NodeId:        n.ID,
		DirectoryId:   n.DirectoryID.Bytes(),
		IncarnationId: n.IncarnationID.Bytes(),
		Listeners:     ListenersProto(n.Listeners),
		Features:      FeaturesProto(n.Features),
	}
}

func controllerFromRecord(r *metadatav1.ControllerRegistered) (*Controller, error) {
	n := &Controller{ID: r.GetNodeId()}
	if n.ID < 0 {
		return nil, fmt.Errorf("node id %d is negative", n.ID)
	}
	var err error
	if n.DirectoryID, err = requireUUID("directory id", r.GetDirectoryId()); err != nil {
		return nil, err
	}
	if n.IncarnationID, err = requireUUID("incarnation id", r.GetIncarnationId()); err != nil {
		return nil, err
	}
	if n.Listeners, err = ListenersFromProto(r.GetListeners()); err != nil {
		return nil, err
	}
	if n.Features, err = FeaturesFromProto(r.GetFeatures()); err != nil {
		return nil, err
	}
	return n, nil
}

// Claim is who opened the claim in force: the active controller since ClaimOffset.
type Claim struct {
	// NodeID of the active controller.
	NodeID int32
	// DirectoryID of its directory.
	DirectoryID UUID
	// IncarnationID of its process.
	IncarnationID UUID
	// Nonce tells two claims of one process apart.
	Nonce UUID
}

func claimFromRecord(r *metadatav1.ControllerClaimed) (Claim, error) {
	c := Claim{NodeID: r.GetNodeId()}
	if c.NodeID < 0 {
		return Claim{}, fmt.Errorf("node id %d is negative", c.NodeID)
	}
	var err error
	if c.DirectoryID, err = requireUUID("directory id", r.GetDirectoryId()); err != nil {
		return Claim{}, err
	}
	if c.IncarnationID, err = requireUUID("incarnation id", r.GetIncarnationId()); err != nil {
		return Claim{}, err
	}
	if c.Nonce, err = requireUUID("nonce", r.GetNonce()); err != nil {
		return Claim{}, err
	}
	return c, nil
}

// record is the claim as the record that stated it.
func (c Claim) record() *metadatav1.ControllerClaimed {
	return &metadatav1.ControllerClaimed{
		NodeId:        c.NodeID,
		DirectoryId:   c.DirectoryID.Bytes(),
		IncarnationId: c.IncarnationID.Bytes(),
		Nonce:         c.Nonce.Bytes(),
	}
}
