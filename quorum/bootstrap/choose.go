package bootstrap

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// choose finds the plan: the committed one, one that an earlier attempt prepared, or a new one.
func (f *flow) choose(ctx context.Context) error {
	plan, err := f.committedPlan()
	if err != nil {
		return err
	}
	if plan == nil {
		if err := f.replaceable(ctx); err != nil {
			return err
		}
		if plan, err = f.preparedPlan(); err != nil {
			return err
		}
	}
	f.result.Resumed = plan != nil
	if plan == nil {
		if plan, err = f.newPlan(); err != nil {
			return err
		}
	}
	f.plan = plan
	return f.describe()
}

// describe fills the result with the plan.
func (f *flow) describe() (err error) {
	f.result.ClusterID = f.plan.GetClusterId()
	if f.result.PlanID, err = fsm.UUIDFromBytes(f.plan.GetPlanId()); err != nil {
		return fmt.Errorf("plan id: %w", err)
	}
	uuid, err := fsm.UUIDFromBytes(f.plan.GetLineage().GetUuid())
	if err != nil {
		return fmt.Errorf("lineage: %w", err)
	}
	f.result.Lineage = fsm.LineageID{Number: f.plan.GetLineage().GetNumber(), UUID: uuid}
	return nil
}

// committedPlan is the plan that some voter has carried out; nil if none has. Any difference to it is refused.
func (f *flow) committedPlan() (*quorumv1.Plan, error) {
	var plan *quorumv1.Plan
	for _, v := range f.voters {
		if !f.formatted(v) {
			continue
		}
		held := f.status[v.NodeID].GetPlan()
		if plan != nil && !proto.Equal(plan, held) {
			return nil, refuse("these nodes belong to different clusters; start the one that does not belong here with an empty directory",
				"the voters are initialised by different plans: cluster %s and cluster %s", plan.GetClusterId(), held.GetClusterId())
		}
		plan = held
	}
	if plan == nil {
		return nil, nil
	}
	return plan, f.same(plan)
}

// same refuses a plan that is committed and is not what was asked for.
func (f *flow) same(plan *quorumv1.Plan) error {
	const fix = "nothing was changed; to change voters use skiff quorum add, remove or set-address"
	if id := f.opts.ClusterID; id != "" && id != plan.GetClusterId() {
		return refuse(fix, "the quorum is initialised with cluster id %s, not %s", plan.GetClusterId(), id)
	}
	if err := f.sameBeginning(plan); err != nil {
		return err
	}
	if have, want := describeVoters(plan), f.describeWanted(); have != want {
		return refuse(fix, "the quorum is initialised with voters %s, not %s", have, want)
	}
	for _, v := range plan.GetVoters() {
		found := f.status[v.GetNodeId()].GetDirectoryId()
		if !bytes.Equal(found, v.GetDirectoryId()) {
			return refuse(fmt.Sprintf("bring the node back as a new member: skiff quorum rejoin --node-id %d", v.GetNodeId()),
				"the quorum was initialised with directory %s of node %d, which now has directory %s: its disk was wiped or replaced",
				uuidText(v.GetDirectoryId()), v.GetNodeId(), uuidText(found))
		}
	}
	return nil
}

// sameBeginning refuses a committed plan whose lineage begins with something else than what was asked for.
func (f *flow) sameBeginning(plan *quorumv1.Plan) error {
	switch {
	case f.restore == nil && plan.GetSnapshot() != nil && !f.done():
		return refuse("repeat the skiff snapshot restore that was interrupted; it goes on where it stopped",
			"a restore of cluster %s is committed on some of the voters and not on all", plan.GetClusterId())
	case f.restore == nil:
		return nil
	}
	if other := f.restore.differs(plan); other != "" {
		return refuse("nothing was changed; to restore over it stop these nodes, move their data directories away (name them with --witness), start the nodes with empty ones, and repeat",
			"the voters are initialised already, as cluster %s, by %s", plan.GetClusterId(), other)
	}
	// Whether this build would write the same bytes does not matter: every voter holds them since it prepared the plan.
	_, err := f.restore.adopt(plan)
	return err
}

func describeVoters(plan *quorumv1.Plan) string {
	voters := slices.Clone(plan.GetVoters())
	slices.SortFunc(voters, func(a, b *quorumv1.Voter) int { return int(a.GetNodeId()) - int(b.GetNodeId()) })
	var b bytes.Buffer
	for i, v := range voters {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%d@%s", v.GetNodeId(), v.GetAddress())
	}
	return b.String()
}

func (f *flow) describeWanted() string {
	return describeVoters(&quorumv1.Plan{Voters: f.wantedVoters()})
}

// wantedVoters are the voters with the directories that they have now.
func (f *flow) wantedVoters() []*quorumv1.Voter {
	out := make([]*quorumv1.Voter, len(f.voters))
	for i, v := range f.voters {
		out[i] = &quorumv1.Voter{NodeId: v.NodeID, DirectoryId: f.status[v.NodeID].GetDirectoryId(), Address: v.Address}
	}
	return out
}

// wanted tells whether a plan is what was asked for.
func (f *flow) wanted(plan *quorumv1.Plan) bool {
	if id := f.opts.ClusterID; id != "" && id != plan.GetClusterId() {
		return false
	}
	if f.restore == nil && plan.GetSnapshot() != nil || f.restore != nil && f.restore.differs(plan) != "" {
		return false
	}
	return slices.EqualFunc(plan.GetVoters(), f.wantedVoters(), func(a, b *quorumv1.Voter) bool { return proto.Equal(a, b) })
}

// preparedPlan is the plan of an earlier attempt that is what was asked for, held by most voters; nil if there is none.
// A restore's must moreover begin with the very bytes that this build makes of the snapshot.
func (f *flow) preparedPlan() (*quorumv1.Plan, error) {
	plan := f.mostPrepared()
	if plan == nil || f.restore == nil {
		return plan, nil
	}
	same, err := f.restore.adopt(plan)
	if err != nil || !same {
		return nil, err
	}
	return plan, nil
}

func (f *flow) mostPrepared() *quorumv1.Plan {
	var best *quorumv1.Plan
	held := map[string]int{}
	for _, v := range f.voters {
		plan := f.status[v.NodeID].GetPlan()
		if plan == nil || !f.wanted(plan) {
			continue
		}
		key := string(plan.GetPlanId())
		held[key]++
		if best == nil || held[key] > held[string(best.GetPlanId())] {
			best = plan
		}
	}
	return best
}

// replaceable refuses to put a plan in the place of one that may have been committed where we do not look: of every
// other plan that a voter holds, a majority of its own voters must say that they have not committed it.
func (f *flow) replaceable(ctx context.Context) error {
	seen := map[string]bool{}
	for _, v := range f.voters {
		plan := f.status[v.NodeID].GetPlan()
		if plan == nil || f.wanted(plan) || seen[string(plan.GetPlanId())] {
			continue
		}
		seen[string(plan.GetPlanId())] = true
		if err := f.uncommitted(ctx, plan); err != nil {
			return err
		}
		f.opts.Progress(fmt.Sprintf("replacing the plan for voters %s, which was prepared and not committed", describeVoters(plan)))
	}
	return nil
}

func (f *flow) uncommitted(ctx context.Context, plan *quorumv1.Plan) error {
	free := 0
	for _, v := range plan.GetVoters() {
		s, err := f.nodes.ask(ctx, v.GetAddress())
		if err != nil || !bytes.Equal(s.GetDirectoryId(), v.GetDirectoryId()) {
			continue // nothing is known about this one
		}
		if s.GetState() == quorumv1.NodeState_NODE_STATE_FORMATTED {
			return refuse("nothing was changed; complete that init, or start the nodes with empty directories",
				"node %d at %s has committed the init with voters %s", v.GetNodeId(), v.GetAddress(), describeVoters(plan))
		}
		free++
	}
	if free <= len(plan.GetVoters())/2 {
		return refuse("start the other voters of that plan, complete that init, or start the nodes with empty directories",
			"an init with voters %s is prepared, and only %d of %d of them say that it is not committed", describeVoters(plan), free, len(plan.GetVoters()))
	}
	return nil
}

func (f *flow) newPlan() (*quorumv1.Plan, error) {
	clusterID := f.opts.ClusterID
	switch {
	case clusterID != "":
		if _, err := fsm.ParseUUID(clusterID); err != nil {
			return nil, fmt.Errorf("cluster id: %w", err)
		}
	case f.restore != nil && f.restore.Replace:
		clusterID = f.restore.Image.ClusterID()
	default:
		clusterID = newUUID().String()
	}
	plan := &quorumv1.Plan{
		PlanId:    newUUID().Bytes(),
		ClusterId: clusterID,
		Lineage:   &metadatav1.LineageID{Number: 1, Uuid: newUUID().Bytes()},
		Voters:    f.wantedVoters(),
	}
	if f.restore == nil {
		return plan, nil
	}
	birth := f.restore.known
	birth.ClusterID, birth.UUID = clusterID, fsm.UUID(plan.GetLineage().GetUuid())
	plan.Lineage.Number = birth.Number
	if err := f.restore.bear(birth); err != nil {
		return nil, err
	}
	plan.Snapshot = f.restore.snapshot
	return plan, nil
}

// newUUID gives a random uuid whose text does not begin with a dash, so that it can stand on a command line.
func newUUID() (u fsm.UUID) {
	for {
		rand.Read(u[:]) // never fails: crypto/rand ends the process instead
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		if u.String()[0] != '-' {
			return u
		}
	}
}

func uuidText(raw []byte) string {
	u, err := fsm.UUIDFromBytes(raw)
	if err != nil {
		return fmt.Sprintf("% x", raw)
	}
	return u.String()
}
