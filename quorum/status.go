package quorum

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
	"github.com/skiffmq/skiff/quorum/archive"
	"github.com/skiffmq/skiff/quorum/transport"
)

// Status is what a node is and sees, at one moment.
type Status struct {
	// NodeID and DirectoryID name the node.
	NodeID      int32
	DirectoryID fsm.UUID
	// Formatted tells that the node is initialised; most of what follows has no meaning before.
	Formatted bool
	// ClusterID of the cluster.
	ClusterID string
	// RaftState is Follower, Candidate, Leader or Shutdown.
	RaftState string
	// Term of Raft.
	Term uint64
	// LeaderID is the leader's node id, -1 if unknown.
	LeaderID int32
	// Image of the node; nil before init.
	Image *fsm.Image
	// Active: this node holds an open claim.
	Active bool
	// ActiveController is host:port of the active controller, as far as known.
	ActiveController string
	// Frozen tells why the image is not to be trusted; empty if it is.
	Frozen string
	// LeaderContactAge since the leader was heard; 0 on the leader, negative if never.
	LeaderContactAge time.Duration
	// LastIndex, CommitIndex, AppliedIndex and SnapshotIndex are Raft's.
	LastIndex, CommitIndex, AppliedIndex, SnapshotIndex uint64
	// Archive of snapshots; nil if the node keeps none.
	Archive *archive.Status
	// Ready tells that the node serves, and NotReady why it does not.
	Ready    bool
	NotReady string
}

// Status looks at the node. It waits for nothing.
func (n *Node) Status() Status {
	v := n.view.Load()
	s := Status{NodeID: v.self.NodeID, DirectoryID: v.self.Directory, LeaderID: -1, LeaderContactAge: -1}
	m := n.member.Load()
	if m == nil {
		s.NotReady = n.waiting()
		return s
	}
	s.Formatted, s.ClusterID = true, m.plan.ClusterID
	m.fillStatus(&s)
	return s
}

func (m *member) fillStatus(s *Status) {
	s.RaftState, s.Term = m.raft.State().String(), m.raft.CurrentTerm()
	s.LeaderID = m.statusLeader()
	s.Image, s.Active, s.ActiveController = m.machine.image.Load(), m.loop.Active(), m.leaderAddress()
	s.LeaderContactAge = m.leaderContactAge()
	s.LastIndex, s.CommitIndex, s.AppliedIndex = m.raft.LastIndex(), m.raft.CommitIndex(), m.raft.AppliedIndex()
	s.SnapshotIndex = m.snaps.index.Load()
	if m.archive != nil {
		archived := m.archive.Status()
		s.Archive = &archived
	}
	if f := m.machine.fault.Load(); f != nil {
		s.Frozen = f.Error()
	}
	s.NotReady = m.notReady(s)
	s.Ready = s.NotReady == ""
}

func (m *member) statusLeader() int32 {
	if leader, ok := m.leader(); ok {
		return leader.NodeID
	}
	return -1
}

// leaderSilenceMax is the number of heartbeat timeouts after which a follower that hears no leader is not ready.
const leaderSilenceMax = 4

// notReady gives the reason why the node does not serve, empty if it does.
func (m *member) notReady(s *Status) string {
	switch {
	case s.Frozen != "":
		return "image: " + s.Frozen
	case m.stall.Load() != nil:
		return m.stallReason()
	case s.LeaderID < 0:
		return "quorum: no leader" + m.peerProblems()
	case s.LeaderContactAge < 0 || s.LeaderContactAge > leaderSilenceMax*m.cfg.timeout():
		return fmt.Sprintf("quorum: the leader was last heard %s ago", s.LeaderContactAge.Round(time.Millisecond))
	case s.CommitIndex == 0 || s.AppliedIndex < s.CommitIndex:
		return fmt.Sprintf("quorum: catching up, applied index %d of %d", s.AppliedIndex, s.CommitIndex)
	case s.Image == nil || s.Image.ClaimOffset() < 0:
		return "quorum: no controller has claimed this lineage yet"
	case m.raft.State() == raft.Leader && !s.Active:
		return "quorum: leading, the claim is not committed yet"
	}
	return ""
}

// peerProblems lists the peers that cannot be reached.
func (m *member) peerProblems() string {
	problems := m.layer.Problems()
	lines := make([]string, 0, len(problems))
	for peer, p := range problems {
		lines = append(lines, fmt.Sprintf("; peer %d unreachable since %s: %v", peer.NodeID, p.Since.UTC().Format(time.RFC3339),
			strings.ReplaceAll(p.Err.Error(), "\n", "; ")))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// statusProto is the status as the QuorumService tells it.
func (n *Node) statusProto() *quorumv1.StatusResponse {
	v, s := n.view.Load(), n.Status()
	out := &quorumv1.StatusResponse{
		NodeId: s.NodeID, DirectoryId: s.DirectoryID.Bytes(), State: v.state(), Plan: v.plan.toProto(),
		RaftState: s.RaftState, Term: s.Term, LeaderId: s.LeaderID,
		LastLogIndex: s.LastIndex, CommitIndex: s.CommitIndex, AppliedIndex: s.AppliedIndex, SnapshotIndex: s.SnapshotIndex,
		Active: s.Active, ActiveController: s.ActiveController, Frozen: s.Frozen,
		LeaderContactAgeMs: -1, Ready: s.Ready, NotReadyReason: s.NotReady,
	}
	if s.LeaderContactAge >= 0 {
		out.LeaderContactAgeMs = s.LeaderContactAge.Milliseconds()
	}
	if img := s.Image; img != nil {
		id, digest := img.Lineage().ID, img.Digest()
		out.Lineage = &metadatav1.LineageID{Number: id.Number, Uuid: id.UUID.Bytes()}
		out.NextMetadataOffset, out.ControllerEpoch, out.Digest = img.NextOffset(), img.ControllerEpoch(), digest[:]
		out.Unconfirmed = !img.Confirmed()
	}
	if m := n.member.Load(); m != nil {
		out.Voters, out.DiskLow = m.votersProto(), m.room.low.Load()
	}
	return out
}

func (v *view) state() quorumv1.NodeState {
	switch {
	case v.formatted:
		return quorumv1.NodeState_NODE_STATE_FORMATTED
	case v.plan != nil:
		return quorumv1.NodeState_NODE_STATE_PREPARED
	}
	return quorumv1.NodeState_NODE_STATE_UNFORMATTED
}

// votersProto are the voters of Raft's configuration, with the addresses that this node dials.
func (m *member) votersProto() []*quorumv1.Voter {
	var out []*quorumv1.Voter
	for _, server := range m.servers() {
		peer, err := transport.ParsePeerID(string(server.ID))
		if err != nil || server.Suffrage != raft.Voter {
			continue
		}
		voter := &quorumv1.Voter{NodeId: peer.NodeID, DirectoryId: peer.Directory.Bytes()}
		if addresses := m.node.book.Lookup(peer); len(addresses) > 0 {
			voter.Address = addresses[0]
		}
		out = append(out, voter)
	}
	return out
}
