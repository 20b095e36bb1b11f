package up

import (
	"context"
	"fmt"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skiffmq/skiff/cmd/config"
)

// How a child that broke is started again, and how long one may take to stop.
const (
	backoffLeast = 250 * time.Millisecond
	backoffMost  = 10 * time.Second
	healthyAfter = time.Minute // a child that lived so long starts with the least backoff again
	restartsMax  = 10          // in a row; then the cause is not one that passes
	stopGrace    = 30 * time.Second
)

// States of a node's process.
const (
	Running    = "running"
	Paused     = "paused"
	Stopped    = "stopped"    // as it was asked to be
	Restarting = "restarting" // it broke and will be started again
	Failed     = "failed"     // it ended in a way that was not asked for
	Refused    = "refused"    // identity or configuration forbid it to start
)

// Verbs that a node obeys.
const (
	Kill    = "kill"
	Stop    = "stop"
	Pause   = "pause"
	Resume  = "resume"
	Restart = "restart"
)

// Verbs that are done to the wires of a node, if it has a network namespace of its own.
const (
	Isolate = "isolate"
	Heal    = "heal"
)

// View is what is known of a node's process.
type View struct {
	// State is one of the states above.
	State string `json:"state"`
	// PID of the process, 0 when there is none.
	PID int `json:"pid"`
	// Restarts that nobody asked for, since `up` began.
	Restarts int `json:"restarts"`
	// LastExit words how the last process ended, empty before.
	LastExit string `json:"last_exit"`
}

// command is a verb on its way to the goroutine of a node.
type command struct {
	verb  string
	force bool
	done  chan error // takes one value
}

// node runs one child process. Its run goroutine owns every field below view.
type node struct {
	spec   Spec
	where  layout
	launch *launcher
	report func(format string, args ...any)
	probe  func(Spec) (pid int, err error)
	abort  context.Context //nolint:containedctx // ends every grace period at once; it belongs to the node's whole life

	commands chan command
	view     atomic.Pointer[View]

	cmd      *exec.Cmd
	exited   chan error // of cmd; nil when there is no process
	started  time.Time
	wanted   bool // the process ought to run
	state    string
	lastExit string
	restarts int
	inRow    int
	retry    *time.Timer
}

// run obeys commands until quit is closed; by then the node must have been stopped.
func (n *node) run(quit <-chan struct{}) {
	n.retry = time.NewTimer(time.Hour)
	n.retry.Stop()
	for {
		n.publish()
		select {
		case <-quit:
			return
		case c := <-n.commands:
			c.done <- n.obey(c)
		case err := <-n.exited:
			n.onExit(err)
		case <-n.retry.C:
			n.again()
		}
	}
}

func (n *node) publish() {
	v := View{State: n.state, Restarts: n.restarts, LastExit: n.lastExit}
	if n.cmd != nil {
		v.PID = n.cmd.Process.Pid
	}
	n.view.Store(&v)
}

// do hands a verb to the node and waits for its outcome.
func (n *node) do(ctx context.Context, verb string, force bool) error {
	c := command{verb: verb, force: force, done: make(chan error, 1)}
	select {
	case n.commands <- c:
	case <-ctx.Done():
		return config.Failed("", "%s: %v", n.spec.Name, ctx.Err())
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return config.Failed("it goes on", "%s %s: %v", verb, n.spec.Name, ctx.Err())
	}
}

func (n *node) obey(c command) error {
	defer n.publish()
	switch c.verb {
	case Kill:
		return n.kill(c.force)
	case Stop:
		return n.stop()
	case Pause:
		return n.signal(syscall.SIGSTOP, Paused)
	case Resume:
		return n.signal(syscall.SIGCONT, Running)
	case Restart:
		if n.cmd != nil {
			if err := n.stop(); err != nil {
				return err
			}
		}
		n.inRow = 0
		return n.start()
	}
	return config.Usage("kill, stop, pause, resume, restart, isolate or heal", "unknown verb %q", c.verb)
}

// start starts the process.
func (n *node) start() error {
	n.wanted = true
	n.retry.Stop()
	cmd, err := n.launch.start(n.spec, n.where)
	if err != nil {
		n.state, n.lastExit = Failed, err.Error()
		return config.Failed("", "%v", err)
	}
	n.cmd, n.exited, n.started, n.state = cmd, make(chan error, 1), time.Now(), Running
	go func(exited chan<- error) { exited <- cmd.Wait() }(n.exited)
	return nil
}

// none is the error of a verb that needs a process.
func (n *node) none() error {
	return config.Failed("skiff node restart "+n.spec.Name, "%s has no process (%s)", n.spec.Name, n.state)
}

func (n *node) signal(s syscall.Signal, state string) error {
	if n.cmd == nil {
		return n.none()
	}
	if err := n.cmd.Process.Signal(s); err != nil {
		return config.Failed("", "%s: %v", n.spec.Name, err)
	}
	n.state = state
	return nil
}

// kill sends SIGKILL. Before it does, the node's own admin server must have said that this process is it, so that a test that kills
// by name knows whom it killed. A paused process cannot say so.
func (n *node) kill(force bool) error {
	if n.cmd == nil {
		return n.none()
	}
	pid := n.cmd.Process.Pid
	if !force && n.state != Paused {
		answered, err := n.probe(n.spec)
		if err != nil {
			return config.Failed("skiff node kill --force "+n.spec.Name, "%s (pid %d) does not say who it is: %v", n.spec.Name, pid, err)
		}
		if answered != pid {
			return config.Failed("find out whose it is, then skiff node kill --force "+n.spec.Name, "%s is pid %d, but %s is answered by pid %d", n.spec.Name, pid, n.spec.Admin(), answered)
		}
	}
	n.wanted = false
	if err := n.cmd.Process.Kill(); err != nil {
		return config.Failed("", "%s: %v", n.spec.Name, err)
	}
	n.ended(<-n.exited, Stopped)
	return nil
}

// stop sends SIGTERM and waits for the process to end. Only abort cuts the wait short, with SIGKILL.
func (n *node) stop() error {
	n.wanted = false
	n.retry.Stop()
	if n.cmd == nil {
		n.state = Stopped
		return nil
	}
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return config.Failed("", "%s: %v", n.spec.Name, err)
	}
	if n.state == Paused {
		if err := n.signal(syscall.SIGCONT, Running); err != nil {
			return err
		}
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case err := <-n.exited:
		n.ended(err, Stopped)
		return nil
	case <-n.abort.Done():
		return n.kill(true)
	case <-grace.C:
		return config.Failed("skiff node kill "+n.spec.Name, "%s did not stop within %v", n.spec.Name, stopGrace)
	}
}

// ended notes that the process is gone.
func (n *node) ended(err error, state string) {
	n.lastExit = n.cmd.ProcessState.String()
	if err != nil && exitCode(err) == -1 && !n.cmd.ProcessState.Exited() {
		n.lastExit = err.Error()
	}
	n.cmd, n.exited, n.state = nil, nil, state
}

// onExit judges an end that no verb waited for.
func (n *node) onExit(err error) {
	code := exitCode(err)
	lived := time.Since(n.started)
	n.ended(err, Stopped)
	if !n.wanted {
		return
	}
	switch {
	case code == config.ExitBroken && n.mayRetry(lived):
		n.state = Restarting
	case code == config.ExitRefused:
		n.state = Refused
		n.report("%s refused to start and stays down: %s", n.spec.Name, lastWords(n.where.log(n.spec.Name)))
	default:
		n.state = Failed
		n.report("%s ended (%s) and stays down, `skiff node restart %s` starts it: %s", n.spec.Name, n.lastExit, n.spec.Name, lastWords(n.where.log(n.spec.Name)))
	}
}

// mayRetry arms the next start, unless the process broke too often in a row.
func (n *node) mayRetry(lived time.Duration) bool {
	if lived >= healthyAfter {
		n.inRow = 0
	}
	if n.inRow >= restartsMax {
		return false
	}
	pause := min(backoffLeast<<n.inRow, backoffMost)
	n.inRow++
	n.report("%s broke (%s), it is started again in %v: %s", n.spec.Name, n.lastExit, pause, lastWords(n.where.log(n.spec.Name)))
	n.retry.Reset(pause)
	return true
}

// again starts a process that broke.
func (n *node) again() {
	if n.cmd != nil || !n.wanted {
		return
	}
	n.restarts++
	if err := n.start(); err != nil {
		n.report("%s: %v", n.spec.Name, err)
	}
}

// String names the node and its process.
func (n *node) String() string {
	v := n.view.Load()
	return fmt.Sprintf("%s (%s, pid %d)", n.spec.Name, v.State, v.PID)
}
