package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/cmd/netns"
	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/skiff/up"
	"github.com/skiffmq/skiff/cmd/verify"
)

// How long anything may take before it counts as a promise of progress that was broken. A loaded machine is slow.
const (
	patience     = 2 * time.Minute
	askTimeout   = 3 * time.Second
	pollInterval = 50 * time.Millisecond
	// lull is how long something that goes on beside the faults waits between two turns.
	lull = 500 * time.Millisecond
)

// system is the cluster under torture, as every part of a run sees it. Its methods may be called from any goroutine.
type system struct {
	cluster *proctest.Cluster
	control *up.Client
	nodes   []up.Node // by name, with addresses; what runs is asked for with node
	views   map[string]*verify.View
	topic   string
	wires   netns.Network // if wired
	wired   bool          // nodes have namespaces of their own
}

func newSystem(ctx context.Context, cluster *proctest.Cluster, topic string) (*system, error) {
	s := &system{cluster: cluster, topic: topic, views: map[string]*verify.View{}}
	var err error
	if s.control, err = up.NewClient(cluster.Dir()); err != nil {
		return nil, err
	}
	if s.nodes, err = s.control.List(ctx); err != nil {
		return nil, err
	}
	state, err := up.ReadState(cluster.Dir())
	if err != nil {
		return nil, err
	}
	s.wires, s.wired = state.Wires()
	for _, n := range s.ofRole(up.Broker) {
		if s.views[n.Name], err = verify.NewView(n.Addresses[0]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *system) close() {
	for _, v := range s.views {
		v.Close()
	}
}

// ofRole are the nodes of a role, in the order of their names.
func (s *system) ofRole(role string) []up.Node {
	var nodes []up.Node
	for _, n := range s.nodes {
		if n.Role == role {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// do carries out a verb of `up`. Kills are forced: a process that was paused or hangs cannot say who it is, and `up` kills its
// own child.
func (s *system) do(ctx context.Context, name, verb string) error {
	_, err := s.control.Do(ctx, name, verb, verb == up.Kill)
	return err
}

// node is a node as `up` sees it now.
func (s *system) node(ctx context.Context, name string) (up.Node, error) {
	nodes, err := s.control.List(ctx)
	if err != nil {
		return up.Node{}, err
	}
	i := slices.IndexFunc(nodes, func(n up.Node) bool { return n.Name == name })
	if i < 0 {
		return up.Node{}, fmt.Errorf("no node is called %s", name)
	}
	return nodes[i], nil
}

// pick finds the node that a fault means.
func (s *system) pick(ctx context.Context, f Fault) (string, error) {
	nodes := s.ofRole(f.Role)
	name := nodes[f.Pick%len(nodes)].Name
	if !f.Chosen {
		return name, nil
	}
	err := await(ctx, f.String()+": find the node", func(ctx context.Context) (err error) {
		if f.Role == up.Quorum {
			name, err = s.active()
		} else {
			name, err = s.leader(ctx, f.Partition)
		}
		return err
	})
	return name, err
}

// active is the quorum node that says that it is the active controller. A paused one may have said so before; it cannot now.
func (s *system) active() (string, error) {
	for _, n := range s.ofRole(up.Quorum) {
		if status, err := s.cluster.Status(n.Name); err == nil && status.QuorumStatus != nil && status.Active {
			return n.Name, nil
		}
	}
	return "", errors.New("no controller is active")
}

// leader is the broker that leads a partition of the topic, as the first broker that answers tells.
func (s *system) leader(ctx context.Context, partition int32) (string, error) {
	partitions, err := s.partitions(ctx)
	if err != nil {
		return "", err
	}
	for _, p := range partitions {
		if p.Partition != partition {
			continue
		}
		for _, n := range s.ofRole(up.Broker) {
			if n.ID == p.Leader {
				return n.Name, nil
			}
		}
	}
	return "", fmt.Errorf("partition %d has no leader", partition)
}

// partitions of the topic, as the first broker that answers tells. All are asked at once: a paused one must not hold us up.
func (s *system) partitions(ctx context.Context) ([]kmsg.MetadataResponseTopicPartition, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make(chan []kmsg.MetadataResponseTopicPartition, len(s.views))
	errs := make([]error, len(s.views))
	var asked sync.WaitGroup
	for i, n := range s.ofRole(up.Broker) {
		asked.Go(func() {
			topic, err := s.views[n.Name].Topic(ctx, s.topic)
			if err != nil {
				errs[i] = fmt.Errorf("ask %s: %w", n.Name, err)
				return
			}
			answers <- topic.Partitions
		})
	}
	none := make(chan struct{})
	go func() { asked.Wait(); close(none) }()
	select {
	case partitions := <-answers:
		return partitions, nil
	case <-none:
		select {
		case partitions := <-answers:
			return partitions, nil
		default:
			return nil, errors.Join(errs...)
		}
	}
}

// awaitReady waits until a node says that it is ready and that it is the process that `up` started last.
func (s *system) awaitReady(ctx context.Context, name string) error {
	return await(ctx, name+" is ready", func(ctx context.Context) error {
		node, err := s.node(ctx, name)
		if err != nil {
			return err
		}
		status, err := s.cluster.Status(name)
		switch {
		case err != nil:
			return fmt.Errorf("%w (%s, last exit %s)", err, node.State, node.LastExit)
		case status.PID != node.PID:
			return fmt.Errorf("pid %d answers, not %d", status.PID, node.PID)
		case !status.Ready:
			return errors.New(status.NotReadyReason)
		}
		return nil
	})
}

// awaitFullISR waits until every partition has a leader and all its replicas in the ISR, in the eyes of every broker.
func (s *system) awaitFullISR(ctx context.Context) error {
	return await(ctx, "every ISR is full", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		for _, n := range s.ofRole(up.Broker) {
			topic, err := s.views[n.Name].Topic(ctx, s.topic)
			if err != nil {
				return fmt.Errorf("ask %s: %w", n.Name, err)
			}
			for _, p := range topic.Partitions {
				if p.Leader < 0 || len(p.ISR) != len(p.Replicas) {
					return fmt.Errorf("%s: partition %d: leader %d, ISR %v of %v, error code %d", n.Name, p.Partition, p.Leader, p.ISR, p.Replicas, p.ErrorCode)
				}
			}
		}
		return nil
	})
}

// await repeats look until it returns nil. When that takes longer than patience the last error is returned.
func await(ctx context.Context, what string, look func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := look(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v: %w", what, time.Since(began).Round(time.Second), err)
		case <-ticker.C:
		}
	}
}

// rest waits for a while, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
