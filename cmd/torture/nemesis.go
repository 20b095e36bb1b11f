package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skiffmq/skiff/cmd/skiff/up"
)

// nemesis carries out a schedule. What it starts it ends: after a step every node runs.
type nemesis struct {
	system *system
	work   *workload
	disks  *disks
	log    func(format string, args ...any)

	// mu guards what follows.
	mu     sync.Mutex
	counts map[string]int
	// slowest is the longest time from the end of a step's faults until every partition took records again.
	slowest time.Duration
}

func newNemesis(s *system, w *workload, d *disks, log func(string, ...any)) *nemesis {
	return &nemesis{system: s, work: w, disks: d, log: log, counts: map[string]int{}}
}

// count notes that something was done.
func (n *nemesis) count(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts[what]++
}

// run carries out steps until the time is over, then waits for full ISRs. An error is a promise of progress that was broken, or
// a tool that does not work; the run is over then.
func (n *nemesis) run(ctx context.Context, schedule *Schedule, until time.Time, stepsMax int) (steps int, err error) {
	for time.Now().Before(until) && (stepsMax == 0 || steps < stepsMax) && ctx.Err() == nil {
		step := schedule.Next()
		n.log("%v", step)
		if err := n.carryOut(ctx, step); err != nil {
			return steps, fmt.Errorf("%v: %w", step, err)
		}
		steps++
	}
	return steps, n.system.awaitFullISR(ctx)
}

// carryOut carries out one step and waits until the cluster works again.
func (n *nemesis) carryOut(ctx context.Context, step Step) error {
	errs := make([]error, len(step.Faults))
	var all sync.WaitGroup
	for i, f := range step.Faults {
		all.Go(func() { errs[i] = n.apply(ctx, f) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	began := time.Now()
	if err := n.work.awaitProgress(ctx); err != nil {
		return err
	}
	n.mu.Lock()
	n.slowest = max(n.slowest, time.Since(began))
	n.mu.Unlock()
	if err := await(ctx, "a controller is active", func(context.Context) error { _, err := n.system.active(); return err }); err != nil {
		return err
	}
	if step.Settle {
		if err := n.system.awaitFullISR(ctx); err != nil {
			return err
		}
	}
	rest(ctx, step.Rest)
	return nil
}

// restore has every node run, after a step that went wrong half-way.
func (n *nemesis) restore(ctx context.Context) error {
	nodes, err := n.system.control.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, node := range nodes {
		switch node.State {
		case up.Running:
		case up.Paused:
			errs = append(errs, n.system.do(ctx, node.Name, up.Resume))
		default:
			errs = append(errs, n.system.do(ctx, node.Name, up.Restart))
		}
		if n.system.wired {
			errs = append(errs, n.system.do(ctx, node.Name, up.Heal))
		}
	}
	return errors.Join(errs...)
}

// apply does one fault and undoes it.
func (n *nemesis) apply(ctx context.Context, f Fault) error {
	name, err := n.system.pick(ctx, f)
	if err != nil {
		return err
	}
	began, what := time.Now(), fmt.Sprintf("%s, %s", f.Kind, f.Role)
	switch f.Kind {
	case Kill:
		err = n.downAndUp(ctx, name, up.Kill, f.For)
	case Stop:
		err = n.downAndUp(ctx, name, up.Stop, f.For)
	case Pause:
		err = n.pause(ctx, name, f.For)
	case KillAtSyscall:
		var killed bool
		if killed, err = n.killAtSyscall(ctx, name, f); !killed {
			what = "calls that a node did not come to"
		}
	case Strand:
		err = n.strand(ctx, name, f)
	case FillDisk:
		err = n.fillDisk(ctx, name, f.For)
	case Isolate, Blackhole, CutLink:
		err = n.cut(ctx, name, f)
	}
	if err != nil {
		return fmt.Errorf("%v (%s): %w", f, name, err)
	}
	n.count(what)
	n.log("    %s: %s, ready again after %v", f.Kind, name, time.Since(began).Round(10*time.Millisecond))
	return nil
}

// downAndUp ends a node and starts it after a while.
func (n *nemesis) downAndUp(ctx context.Context, name, verb string, down time.Duration) error {
	if err := n.system.do(ctx, name, verb); err != nil {
		return err
	}
	rest(ctx, down)
	return n.restart(ctx, name)
}

func (n *nemesis) restart(ctx context.Context, name string) error {
	if err := n.system.do(ctx, name, up.Restart); err != nil {
		return err
	}
	return n.system.awaitReady(ctx, name)
}

// pause freezes a node for a while.
func (n *nemesis) pause(ctx context.Context, name string, frozen time.Duration) error {
	if err := n.system.do(ctx, name, up.Pause); err != nil {
		return err
	}
	rest(ctx, frozen)
	if err := n.system.do(ctx, name, up.Resume); err != nil {
		return err
	}
	return n.system.awaitReady(ctx, name)
}

// killAtSyscall has a node killed at one of its system calls and starts it after a while. It tells whether the node came to the call.
func (n *nemesis) killAtSyscall(ctx context.Context, name string, f Fault) (killed bool, err error) {
	killed, err = n.system.killAtSyscall(ctx, name, f)
	if err != nil {
		return killed, err
	}
	if !killed {
		n.log("    %s did not come to call number %d of %s within %v", name, f.Nth, f.Calls, syscallPatience)
		return false, n.system.awaitReady(ctx, name)
	}
	rest(ctx, f.For)
	return true, n.restart(ctx, name)
}

// strand leaves a leader alone with what is sent to it, and kills it: what it acknowledged in that time, nobody else has.
func (n *nemesis) strand(ctx context.Context, leader string, f Fault) error {
	followers, err := n.followers(ctx, leader, f.Partition)
	if err != nil {
		return err
	}
	for _, name := range followers {
		if err := n.system.do(ctx, name, up.Pause); err != nil {
			return err
		}
	}
	rest(ctx, f.For)
	err = n.system.do(ctx, leader, up.Kill)
	for _, name := range followers {
		err = errors.Join(err, n.system.do(ctx, name, up.Resume))
	}
	if err != nil {
		return err
	}
	for _, name := range followers {
		if err := n.system.awaitReady(ctx, name); err != nil {
			return err
		}
	}
	return n.restart(ctx, leader)
}

// followers are the brokers with the other replicas of a partition.
func (n *nemesis) followers(ctx context.Context, leader string, partition int32) ([]string, error) {
	partitions, err := n.system.partitions(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range partitions {
		for _, node := range n.system.ofRole(up.Broker) {
			if p.Partition == partition && node.Name != leader && slices.Contains(p.Replicas, node.ID) {
				names = append(names, node.Name)
			}
		}
	}
	return names, nil
}

// fillDisk leaves a node without room for a while. What it makes of that is its own affair: it may end; afterwards it is started anew.
func (n *nemesis) fillDisk(ctx context.Context, name string, full time.Duration) error {
	free, err := n.disks.fill(name)
	if err != nil {
		return err
	}
	rest(ctx, full)
	if err := free(); err != nil {
		return err
	}
	return n.restart(ctx, name)
}
