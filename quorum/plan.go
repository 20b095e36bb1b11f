package quorum

import (
	"fmt"
	"net"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/transport"
)

// votersMax bounds the voters of a plan; a quorum has 1, 3 or 5.
const votersMax = 15

// check tells whether the plan can be carried out at all.
func (p *plan) check() error {
	if _, err := fsm.ParseUUID(p.ID); err != nil {
		return fmt.Errorf("plan id: %w", err)
	}
	if _, err := fsm.ParseUUID(p.ClusterID); err != nil {
		return fmt.Errorf("cluster id: %w", err)
	}
	if _, err := fsm.ParseUUID(p.Lineage.UUID); err != nil || p.Lineage.Number == 0 {
		return fmt.Errorf("lineage %d/%q is none", p.Lineage.Number, p.Lineage.UUID)
	}
	if n := len(p.Voters); n == 0 || n > votersMax {
		return fmt.Errorf("%d voters; a plan has 1 to %d", n, votersMax)
	}
	if p.Snapshot != nil {
		if err := p.Snapshot.check(); err != nil {
			return err
		}
	}
	return checkVoters(p.Voters)
}

func checkVoters(voters []planVoter) error {
	nodes, directories, addresses := map[int32]bool{}, map[string]bool{}, map[string]bool{}
	for _, v := range voters {
		if v.NodeID < 0 {
			return fmt.Errorf("node id %d is negative", v.NodeID)
		}
		if _, err := fsm.ParseUUID(v.DirectoryID); err != nil {
			return fmt.Errorf("directory id of voter %d: %w", v.NodeID, err)
		}
		if _, _, err := net.SplitHostPort(v.Address); err != nil {
			return fmt.Errorf("address of voter %d: %w", v.NodeID, err)
		}
		switch {
		case nodes[v.NodeID]:
			return fmt.Errorf("node id %d is given twice", v.NodeID)
		case directories[v.DirectoryID]:
			return fmt.Errorf("directory %s is given twice", v.DirectoryID)
		case addresses[v.Address]:
			return fmt.Errorf("address %s is given twice", v.Address)
		}
		nodes[v.NodeID], directories[v.DirectoryID], addresses[v.Address] = true, true, true
	}
	return nil
}

// equal tells whether two plans are one: the same id and the same content.
func (p *plan) equal(q *plan) bool {
	return p.ID == q.ID && p.ClusterID == q.ClusterID && p.Lineage == q.Lineage && slices.Equal(p.Voters, q.Voters) &&
		(p.Snapshot == nil) == (q.Snapshot == nil) && (p.Snapshot == nil || *p.Snapshot == *q.Snapshot)
}

// lineage that the plan begins.
func (p *plan) lineage() fsm.LineageID {
	uuid, err := fsm.ParseUUID(p.Lineage.UUID)
	if err != nil {
		return fsm.LineageID{} // check forbids it
	}
	return fsm.LineageID{Number: p.Lineage.Number, UUID: uuid}
}

// voter finds a node in the plan.
func (p *plan) voter(nodeID int32) (planVoter, bool) {
	i := slices.IndexFunc(p.Voters, func(v planVoter) bool { return v.NodeID == nodeID })
	if i < 0 {
		return planVoter{}, false
	}
	return p.Voters[i], true
}

// peer is who the voter is for Raft.
func (v planVoter) peer() transport.PeerID {
	directory, err := fsm.ParseUUID(v.DirectoryID)
	if err != nil {
		return transport.PeerID{NodeID: v.NodeID} // check forbids it
	}
	return transport.PeerID{NodeID: v.NodeID, Directory: directory}
}

// addresses of the voters, by peer.
func (p *plan) addresses() map[transport.PeerID]string {
	out := make(map[transport.PeerID]string, len(p.Voters))
	for _, v := range p.Voters {
		out[v.peer()] = v.Address
	}
	return out
}

// configuration is what Raft's snapshot at index 1 says about the members.
func (p *plan) configuration() raft.Configuration {
	var c raft.Configuration
	for _, v := range p.Voters {
		peer := v.peer()
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: peer.ServerID(), Address: peer.ServerAddress()})
	}
	return c
}

// genesis is the image that every voter of a plan without a snapshot begins with.
func (p *plan) genesis() (*fsm.Image, error) {
	lineage := p.lineage()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId:          p.ClusterID,
		Lineage:            &metadatav1.LineageID{Number: lineage.Number, Uuid: lineage.UUID.Bytes()},
		NextMetadataOffset: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("make the first image: %w", err)
	}
	return img, nil
}

// accepts tells whether this node may carry out the plan: it must be the voter that the plan means.
func (m *meta) accepts(p *plan) error {
	voter, found := p.voter(m.NodeID)
	if !found {
		return fmt.Errorf("node %d is not among the plan's voters", m.NodeID)
	}
	if voter.peer() != m.self() {
		return fmt.Errorf("the plan means directory %s for node %d, this node's is %s", voter.DirectoryID, m.NodeID, m.Directory)
	}
	return nil
}
