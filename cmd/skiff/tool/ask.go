package tool

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/skiffmq/skiff/fsm"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// unreachable is the state of a node that did not answer.
const unreachable = "unreachable"

// askAll asks the quorum nodes at the addresses, and then those that their answers name besides.
func askAll(ctx context.Context, c *client.Client, known []string) quorumStatus {
	result := quorumStatus{ActiveID: -1}
	asked := make(map[string]bool)
	seen := make(map[int32]bool)
	for len(known) > 0 {
		answers := askEach(ctx, c, known)
		for _, a := range known {
			asked[a] = true
		}
		known = nil
		for _, a := range answers {
			if a.status != nil && seen[a.status.GetNodeId()] {
				continue // two names of one node
			}
			result.add(a)
			if a.status == nil {
				continue
			}
			seen[a.status.GetNodeId()] = true
			for _, v := range a.status.GetVoters() {
				if address := v.GetAddress(); address != "" && !asked[address] && !slices.Contains(known, address) {
					known = append(known, address)
				}
			}
		}
	}
	slices.SortFunc(result.Nodes, func(a, b nodeStatus) int {
		if a.ID != b.ID {
			return int(a.ID) - int(b.ID)
		}
		return strings.Compare(a.Address, b.Address)
	})
	result.Healthy = result.judge()
	return result
}

// judge tells whether every node answers and serves, and one of them is active.
func (s *quorumStatus) judge() bool {
	return s.ActiveID >= 0 && !slices.ContainsFunc(s.Nodes, func(n nodeStatus) bool { return !n.Ready })
}

// answered is what one address said.
type answered struct {
	address string
	status  *quorumv1.StatusResponse
	err     error
}

func askEach(ctx context.Context, c *client.Client, list []string) []answered {
	answers := make([]answered, len(list))
	var all sync.WaitGroup
	for i, address := range list {
		all.Go(func() {
			status, err := c.QuorumStatus(ctx, address)
			answers[i] = answered{address: address, status: status, err: err}
		})
	}
	all.Wait()
	return answers
}

// add appends one node.
func (s *quorumStatus) add(a answered) {
	if a.status == nil {
		s.Nodes = append(s.Nodes, nodeStatus{ID: -1, Address: a.address, State: unreachable, LeaderID: -1, Trouble: plain(a.err)})
		return
	}
	st := a.status
	n := nodeStatus{
		ID: st.GetNodeId(), Address: a.address, State: st.GetRaftState(), Term: st.GetTerm(), LeaderID: st.GetLeaderId(),
		LastLogIndex: st.GetLastLogIndex(), CommitIndex: st.GetCommitIndex(), AppliedIndex: st.GetAppliedIndex(),
		SnapshotIndex: st.GetSnapshotIndex(), MetadataOffset: max(0, st.GetNextMetadataOffset()-1), Epoch: st.GetControllerEpoch(),
		Digest: hex.EncodeToString(st.GetDigest()), Active: st.GetActive(), Ready: st.GetReady(), Trouble: st.GetNotReadyReason(),
		Unconfirmed: st.GetUnconfirmed(),
	}
	if n.State == "" {
		n.State = strings.ToLower(strings.TrimPrefix(st.GetState().String(), "NODE_STATE_"))
	}
	if uuid, err := fsm.UUIDFromBytes(st.GetLineage().GetUuid()); err == nil {
		n.Lineage = lineageText(fsm.LineageID{Number: st.GetLineage().GetNumber(), UUID: uuid})
	}
	if frozen := st.GetFrozen(); frozen != "" {
		n.Trouble, n.Frozen = frozen, true
	}
	if n.Active {
		s.ActiveID = n.ID
	}
	if s.ClusterID == "" {
		s.ClusterID = st.GetPlan().GetClusterId()
	}
	s.Nodes = append(s.Nodes, n)
}

// plain words why an address did not answer, without the layers of gRPC around the one fact.
func plain(err error) string {
	var refused *client.Error
	if errors.As(err, &refused) {
		return refused.Message
	}
	text := err.Error()
	for _, layer := range []string{"desc = ", "dialing: "} {
		if _, inner, found := strings.Cut(text, layer); found {
			text = inner
		}
	}
	return strings.Trim(text, `"`)
}
