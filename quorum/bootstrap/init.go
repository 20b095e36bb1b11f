package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/skiffmq/skiff/fsm"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// Voter is a quorum node that shall vote.
type Voter struct {
	// NodeID of the node.
	NodeID int32
	// Address is host:port, as the other nodes are to dial it.
	Address string
}

// Options of Init. The zero value is right.
type Options struct {
	// ClusterID of the cluster; empty for a new random one.
	ClusterID string
	// Dial connects to host:port; nil for TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Progress is told what happens, in sentences; nil for nobody.
	Progress func(line string)
	// AttemptTimeout bounds one request to one node; 0 for 5 s. A step in which a node reads a snapshot is given more.
	AttemptTimeout time.Duration
}

// Result is what the quorum is now.
type Result struct {
	// ClusterID of the cluster.
	ClusterID string
	// PlanID of the plan that was carried out.
	PlanID fsm.UUID
	// Lineage that began with it.
	Lineage fsm.LineageID
	// AlreadyInitialised: every node had carried out this very plan before; nothing was changed.
	AlreadyInitialised bool
	// Resumed: a plan of an earlier attempt was taken up.
	Resumed bool
	// Warnings about the choice of voters.
	Warnings []string
}

// RefusedError is returned when init would make something else than what is there. Repeating it cannot help.
type RefusedError struct {
	// Cause is a sentence with both values.
	Cause string
	// Fix is the next step.
	Fix string
}

// Error is the cause.
func (e *RefusedError) Error() string { return e.Cause }

func refuse(fix, format string, args ...any) error {
	return &RefusedError{Cause: fmt.Sprintf(format, args...), Fix: fix}
}

// ErrVoters is returned when the list of voters makes no quorum.
var ErrVoters = errors.New("the list of voters is not valid")

// Init makes a quorum of the voters, or takes up an attempt that was interrupted. Nodes that do not answer are asked
// again until ctx ends.
func Init(ctx context.Context, voters []Voter, opts Options) (Result, error) {
	if err := checkVoters(voters); err != nil {
		return Result{}, err
	}
	f := newFlow(voters, opts)
	defer f.close()
	err := f.run(ctx, false)
	return f.result, err
}

// run asks, plans and, unless it is a dry run, carries the plan out.
func (f *flow) run(ctx context.Context, dryRun bool) error {
	if err := f.askAll(ctx); err != nil {
		return err
	}
	if err := f.choose(ctx); err != nil {
		return err
	}
	if f.done() {
		f.result.AlreadyInitialised = true
		return nil
	}
	if dryRun {
		return nil
	}
	for _, step := range []func(context.Context) error{f.stageAll, f.prepareAll, f.commitAll} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func checkVoters(voters []Voter) error {
	if len(voters) == 0 {
		return fmt.Errorf("%w: it is empty", ErrVoters)
	}
	ids, addresses := map[int32]bool{}, map[string]bool{}
	for _, v := range voters {
		if _, _, err := net.SplitHostPort(v.Address); err != nil {
			return fmt.Errorf("%w: %w", ErrVoters, err)
		}
		if v.NodeID < 0 || ids[v.NodeID] || addresses[v.Address] {
			return fmt.Errorf("%w: %d@%s is negative or given twice", ErrVoters, v.NodeID, v.Address)
		}
		ids[v.NodeID], addresses[v.Address] = true, true
	}
	return nil
}

// flow is one run of Init or Restore.
type flow struct {
	voters  []Voter // by node id
	opts    Options
	nodes   nodes
	status  map[int32]*quorumv1.StatusResponse // of the voters, by node id
	restore *rebirth                           // nil for Init
	plan    *quorumv1.Plan
	result  Result
}

func newFlow(voters []Voter, opts Options) *flow {
	sorted := slices.Clone(voters)
	slices.SortFunc(sorted, func(a, b Voter) int { return int(a.NodeID) - int(b.NodeID) })
	opts.Progress = oneAtATime(opts.Progress)
	if opts.AttemptTimeout <= 0 {
		opts.AttemptTimeout = 5 * time.Second
	}
	f := &flow{voters: sorted, opts: opts, nodes: nodes{opts: opts}, status: map[int32]*quorumv1.StatusResponse{}}
	if n := len(voters); n%2 == 0 {
		f.result.Warnings = append(f.result.Warnings, fmt.Sprintf(
			"%d voters tolerate %d failures, no more than %d voters do; choose an odd number", n, (n-1)/2, n-1))
	}
	return f
}

// oneAtATime lets several goroutines tell their progress.
func oneAtATime(tell func(string)) func(string) {
	if tell == nil {
		return func(string) {}
	}
	var mu sync.Mutex // held while the caller's function runs: it only writes a line
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		tell(line)
	}
}

func (f *flow) close() { f.nodes.close() }

// done tells whether every voter has carried out the plan.
func (f *flow) done() bool {
	for _, s := range f.status {
		if s.GetState() != quorumv1.NodeState_NODE_STATE_FORMATTED {
			return false
		}
	}
	return true
}

// askAll learns who every voter is.
func (f *flow) askAll(ctx context.Context) error {
	answers, err := f.nodes.askUntil(ctx, addressesOf(f.voters))
	if err != nil {
		return err
	}
	directories := map[string]Voter{}
	for i, v := range f.voters {
		s := answers[i]
		if s.GetNodeId() != v.NodeID {
			return refuse("correct the list of voters, or node.id of that node", "%s is node %d, not %d", v.Address, s.GetNodeId(), v.NodeID)
		}
		if other, twice := directories[string(s.GetDirectoryId())]; twice {
			return refuse("correct the addresses", "%s and %s are the same node", other.Address, v.Address)
		}
		directories[string(s.GetDirectoryId())] = v
		f.status[v.NodeID] = s
	}
	return nil
}

func addressesOf(voters []Voter) []string {
	out := make([]string, len(voters))
	for i, v := range voters {
		out[i] = v.Address
	}
	return out
}

// prepareAll writes the plan on every voter that has not carried it out.
func (f *flow) prepareAll(ctx context.Context) error {
	for _, v := range f.voters {
		if f.formatted(v) {
			continue
		}
		f.opts.Progress(fmt.Sprintf("preparing node %d at %s", v.NodeID, v.Address))
		resp, err := callWithin(ctx, &f.nodes, f.stepTimeout(), v.Address, func(ctx context.Context, c quorumv1.QuorumServiceClient) (*quorumv1.PrepareResponse, error) {
			return c.Prepare(ctx, &quorumv1.PrepareRequest{Plan: f.plan})
		})
		if err != nil {
			return fmt.Errorf("prepare node %d at %s: %w; repeat the command to go on", v.NodeID, v.Address, err)
		}
		if resp.GetRefusal() != "" {
			return refuse("look at the node with skiff quorum status", "node %d at %s refuses: %s", v.NodeID, v.Address, resp.GetRefusal())
		}
	}
	return nil
}

// commitAll carries the plan out on every voter that has not done so. One that fails does not keep the others from it.
func (f *flow) commitAll(ctx context.Context) error {
	var errs []error
	for _, v := range f.voters {
		if f.formatted(v) {
			continue
		}
		f.opts.Progress(fmt.Sprintf("committing on node %d at %s", v.NodeID, v.Address))
		resp, err := callWithin(ctx, &f.nodes, f.stepTimeout(), v.Address, func(ctx context.Context, c quorumv1.QuorumServiceClient) (*quorumv1.CommitResponse, error) {
			return c.Commit(ctx, &quorumv1.CommitRequest{PlanId: f.plan.GetPlanId()})
		})
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("commit on node %d at %s: %w; repeat the command to go on", v.NodeID, v.Address, err))
		case resp.GetRefusal() != "":
			errs = append(errs, refuse("look at the node with skiff quorum status", "node %d at %s refuses: %s", v.NodeID, v.Address, resp.GetRefusal()))
		}
	}
	return errors.Join(errs...)
}

// stepTimeout bounds a step of the plan on one node, which may have to read a snapshot.
func (f *flow) stepTimeout() time.Duration {
	if f.plan.GetSnapshot() != nil {
		return max(f.opts.AttemptTimeout, stageStall)
	}
	return f.opts.AttemptTimeout
}

func (f *flow) formatted(v Voter) bool {
	return f.status[v.NodeID].GetState() == quorumv1.NodeState_NODE_STATE_FORMATTED
}
