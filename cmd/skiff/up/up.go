package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/skiffmq/skiff/cmd/admin"
	"github.com/skiffmq/skiff/cmd/child"
	"github.com/skiffmq/skiff/cmd/config"
)

// Unset is the value of a number in Options that was not given.
const Unset = -1

// initTimeout bounds the initialisation of a new quorum on this machine.
const initTimeout = 60 * time.Second

// Options are what `skiff up` is told.
type Options struct {
	// Data is the cluster's directory.
	Data string
	// Controllers and Brokers are how many there are to be; Unset means 3, or as many as there are already.
	Controllers, Brokers int
	// Port is the base of the ports, 0 to pick free ones; Unset means 9092, or as before.
	Port int
	// Namespaces gives each node of a new cluster a network namespace of its own, so that it can be cut off.
	Namespaces bool
	// ReadyFile is written when every node is ready; empty for none.
	ReadyFile string
	// Set are lines key=value for every node's configuration.
	Set []string
	// Wait is the longest time for every node to become ready.
	Wait time.Duration
	// Executable is the binary that the nodes run.
	Executable string
	// Init initialises a new quorum of these nodes; it may be called again for one that is initialised already.
	Init func(ctx context.Context, voters []Spec) error
	// Stdout gets the table, Stderr what happens.
	Stdout, Stderr io.Writer
}

// Run runs a cluster until ctx ends, and stops it then; when abort ends too, what still runs is killed. An error before every node
// was ready stops the cluster as well.
func Run(ctx, abort context.Context, o Options) (err error) {
	where, lock, err := o.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	state, wires, err := o.prepare(where)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, wires.remove()) }()
	c := newCluster(abort, o, where, state, wires)
	defer func() {
		stopErr := c.stop()
		if err == nil {
			err = stopErr
		}
	}()
	control, err := c.listen()
	if err != nil {
		return err
	}
	defer control.close()
	if err := c.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // it was asked to end before it was ready
		}
		return err
	}
	if err := c.announce(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// open makes the directory and takes its lock.
func (o *Options) open() (layout, *lock, error) {
	dir, err := filepath.Abs(o.Data)
	if err != nil {
		return layout{}, nil, config.Failed("", "%v", err)
	}
	o.Data = dir
	where := layout{dir: dir}
	if err := where.makeDirectories(); err != nil {
		return layout{}, nil, err
	}
	lock, err := takeLock(where.lock())
	return where, lock, err
}

// prepare decides which nodes there are and writes their configuration; nothing is started, but the wires lie.
func (o Options) prepare(where layout) (state State, wires *network, err error) {
	if o.ReadyFile != "" {
		if err := os.Remove(o.ReadyFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return State{}, nil, config.Failed("choose another --ready-file", "%v", err)
		}
	}
	for _, line := range o.Set {
		if key, _, ok := strings.Cut(line, "="); !ok || strings.TrimSpace(key) == "" {
			return State{}, nil, config.Usage("write --set key=value", "--set %q is not key=value", line)
		}
	}
	old, exists, err := readState(where.state())
	if err != nil {
		return State{}, nil, err
	}
	if state, err = o.plan(old, exists); err != nil {
		return State{}, nil, err
	}
	if state, wires, err = o.wire(state, exists); err != nil {
		return State{}, nil, err
	}
	if err = o.configure(where, state); err != nil {
		err = errors.Join(err, wires.remove())
	}
	return state, wires, err
}

// configure writes the configuration of every node and the state.
func (o Options) configure(where layout, state State) error {
	if err := checkPorts(state.Nodes); err != nil {
		return err
	}
	for _, s := range state.Nodes {
		if err := writeFile(where.conf(s.Name), []byte(where.properties(s, state.Nodes, o.Set))); err != nil {
			return err
		}
	}
	return state.write(where.state())
}

// cluster is the nodes of one run of `up`.
type cluster struct {
	options Options
	where   layout
	state   State
	launch  *launcher
	wires   *network // nil without namespaces
	nodes   []*node
	byName  map[string]*node
	quit    chan struct{}
	running sync.WaitGroup
	stderr  sync.Mutex // guards options.Stderr
}

func newCluster(abort context.Context, o Options, where layout, state State, wires *network) *cluster {
	c := &cluster{
		options: o, where: where, state: state, wires: wires, byName: make(map[string]*node), quit: make(chan struct{}),
		launch: &launcher{executable: o.Executable, children: child.NewStarter(), network: wires},
	}
	for _, s := range state.Nodes {
		n := &node{spec: s, where: where, launch: c.launch, report: c.report, probe: probePID, abort: abort, commands: make(chan command), state: Stopped}
		n.view.Store(&View{State: Stopped})
		c.nodes, c.byName[s.Name] = append(c.nodes, n), n
		c.running.Go(func() { n.run(c.quit) })
	}
	return c
}

// report tells the person at the terminal what happened.
func (c *cluster) report(format string, args ...any) {
	c.stderr.Lock()
	defer c.stderr.Unlock()
	fmt.Fprintf(c.options.Stderr, "skiff up: "+format+"\n", args...)
}

// ofRole picks the nodes of a role.
func (c *cluster) ofRole(role string) []*node {
	var picked []*node
	for _, n := range c.nodes {
		if n.spec.Role == role {
			picked = append(picked, n)
		}
	}
	return picked
}

// start starts the quorum, initialises it if it is new, starts the brokers and waits until everybody is ready.
func (c *cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Wait)
	defer cancel()
	if err := each(c.ofRole(Quorum), func(n *node) error { return n.do(ctx, Restart, false) }); err != nil {
		return err
	}
	if !c.state.Initialised {
		if err := c.initialise(ctx); err != nil {
			return err
		}
	}
	if err := each(c.ofRole(Broker), func(n *node) error { return n.do(ctx, Restart, false) }); err != nil {
		return err
	}
	return c.awaitReady(ctx)
}

// initialise makes the quorum; a quorum node that dies meanwhile ends the wait.
func (c *cluster) initialise(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	watched, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() { stop(c.firstDown(watched)) }()
	if err := c.options.Init(watched, ofRole(c.state.Nodes, Quorum)); err != nil {
		if down := context.Cause(watched); down != nil && ctx.Err() == nil {
			return down
		}
		return err
	}
	c.state.Initialised = true
	return c.state.write(c.where.state())
}

// firstDown waits until a node is down for good and returns why; nil when ctx ends first.
func (c *cluster) firstDown(ctx context.Context) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		if err := c.down(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// down returns an error when a node is down for good.
func (c *cluster) down() error {
	for _, n := range c.nodes {
		v := n.view.Load()
		if v.State != Failed && v.State != Refused {
			continue
		}
		code := config.ExitFailed
		if v.State == Refused {
			code = config.ExitRefused
		}
		path := c.where.log(n.spec.Name)
		return &config.ExitError{Code: code, Cause: fmt.Sprintf("%s did not start (%s): %s", n.spec.Name, v.LastExit, lastWords(path)), Fix: "read " + path}
	}
	return nil
}

// awaitReady waits until every node says that it is ready, and every broker knows of every other.
func (c *cluster) awaitReady(ctx context.Context) error {
	newest := int64(0)
	judge := func(_ *node, s *admin.Status) string {
		newest = max(newest, s.MetadataOffset)
		if !s.Ready {
			return s.NotReadyReason
		}
		return ""
	}
	if err := c.await(ctx, c.nodes, judge); err != nil {
		return err
	}
	// A broker that is ready has learned so itself, and the others perhaps not yet: a client that asks one of them at once
	// would miss it.
	return c.await(ctx, c.ofRole(Broker), func(n *node, s *admin.Status) string {
		if s.MetadataOffset < newest {
			return fmt.Sprintf("%s has applied metadata offset %d of %d", n.spec.Name, s.MetadataOffset, newest)
		}
		return ""
	})
}

// await waits until no node has a reason not to be ready.
func (c *cluster) await(ctx context.Context, waiting []*node, judge func(*node, *admin.Status) string) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	reason := ""
	for {
		if err := c.down(); err != nil {
			return err
		}
		if waiting, reason = unready(ctx, waiting, reason, judge); len(waiting) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return config.Failed("read "+c.where.log(waiting[0].spec.Name), "%d of %d nodes are not ready after %v, %s among them: %s", len(waiting), len(c.nodes), c.options.Wait, waiting[0].spec.Name, reason)
		case <-ticker.C:
		}
	}
}

// unready keeps the nodes that are not ready yet, with the reason of the first; before is the reason known so far.
func unready(ctx context.Context, nodes []*node, before string, judge func(*node, *admin.Status) string) (waiting []*node, reason string) {
	for i, n := range nodes {
		status, err := fetchStatus(ctx, n.spec)
		why := ""
		switch {
		case err != nil && ctx.Err() != nil:
			return append(waiting, nodes[i:]...), before
		case err != nil:
			why = err.Error()
		case status.PID != n.view.Load().PID:
			why = fmt.Sprintf("%s is answered by pid %d", n.spec.Admin(), status.PID)
		default:
			if why = judge(n, status); why == "" {
				continue
			}
		}
		if waiting == nil {
			reason = why
		}
		waiting = append(waiting, n)
	}
	return waiting, reason
}

// stop ends every process, the brokers before the quorum that they say goodbye to, and waits for them.
func (c *cluster) stop() error {
	if c.options.ReadyFile != "" {
		if err := os.Remove(c.options.ReadyFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			c.report("%v", err)
		}
	}
	err := errors.Join(each(c.ofRole(Broker), c.end), each(c.ofRole(Quorum), c.end))
	close(c.quit)
	c.running.Wait()
	c.launch.children.Close()
	return err
}

// end stops a node, or kills it when it does not stop.
func (c *cluster) end(n *node) error {
	err := n.do(context.Background(), Stop, false)
	if err == nil {
		return nil
	}
	c.report("%v; it is killed", err)
	return n.do(context.Background(), Kill, true)
}

// each calls f for all nodes at once and waits for all.
func each(nodes []*node, f func(*node) error) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { errs[i] = f(n) })
	}
	all.Wait()
	return errors.Join(errs...)
}
