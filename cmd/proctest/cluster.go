package proctest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/skiff/up"
)

// How long the harness waits. A loaded machine is slow; a wait that is met ends at once.
const (
	readyTimeout = 2 * time.Minute
	stopTimeout  = 90 * time.Second
	verbTimeout  = 60 * time.Second
	pollInterval = 20 * time.Millisecond
)

// Options of a cluster.
type Options struct {
	// Controllers and Brokers are how many there are; 0 means 3. Use NoBrokers for a quorum alone.
	Controllers, Brokers int
	// NoBrokers starts a quorum alone.
	NoBrokers bool
	// Set are lines key=value for every node's configuration.
	Set []string
	// Namespaces gives every node a network namespace of its own, so that its wires can be cut. See NeedNamespaces.
	Namespaces bool
	// Dir of the cluster's data; empty for a new one.
	Dir string
	// Binary is the skiff to run, for example one that was built with a tag; empty for that of the test run.
	Binary string
}

// Cluster is one `skiff up`.
type Cluster struct {
	t       testing.TB
	options Options
	dir     string
	binary  string
	ready   up.Ready
	client  *up.Client
	cmd     *exec.Cmd
	exited  chan struct{} // closed when cmd has ended
	output  bytes.Buffer  // of up; read it only after exited
}

// Start starts a cluster and waits until every node is ready.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t, options: o, dir: o.Dir, binary: o.Binary}
	if c.binary == "" {
		c.binary = Binary(t)
	}
	if c.dir == "" {
		c.dir = NewDir(t)
	}
	var err error
	if c.client, err = up.NewClient(c.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	c.Start()
	return c
}

// NewDir makes a directory that is kept when the test fails.
func NewDir(t testing.TB) string {
	t.Helper()
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	dir, err := os.MkdirTemp("", "skiff-"+name+"-") //nolint:usetesting // t.TempDir would take the evidence of a failure away
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() || os.Getenv("SKIFF_KEEP") == "1" {
			t.Logf("kept: %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	return dir
}

// Start starts a cluster that was stopped, on its data and ports, and waits until every node is ready.
func (c *Cluster) Start() {
	c.t.Helper()
	file := filepath.Join(c.dir, "ready.json")
	c.output.Reset()
	c.cmd = exec.Command(c.binary, c.arguments(file)...)
	c.cmd.Stdout, c.cmd.Stderr = &c.output, &c.output
	if err := run.children.Start(c.cmd); err != nil {
		c.t.Fatalf("start skiff up: %v", err)
	}
	c.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan<- struct{}) {
		_ = cmd.Wait() // its state is read from cmd.ProcessState
		close(exited)
	}(c.cmd, c.exited)
	c.awaitReady(file)
}

func (c *Cluster) arguments(readyFile string) []string {
	args := []string{"up", "--data", c.dir, "--ready-file", readyFile, "--wait", readyTimeout.String()}
	if _, err := up.ReadState(c.dir); err != nil {
		args = append(args, "--port", "0", "--controllers", count(c.options.Controllers), "--brokers", c.brokers())
	}
	if c.options.Namespaces {
		args = append(args, "--network-namespaces")
	}
	for _, line := range c.options.Set {
		args = append(args, "--set", line)
	}
	return args
}

func (c *Cluster) brokers() string {
	if c.options.NoBrokers {
		return "0"
	}
	return count(c.options.Brokers)
}

// count words how many nodes of a kind there are.
func count(n int) string {
	if n == 0 {
		n = 3
	}
	return fmt.Sprint(n)
}

func (c *Cluster) awaitReady(file string) {
	c.t.Helper()
	Eventually(c.t, readyTimeout+stopTimeout, "the cluster is ready", func() error {
		select {
		case <-c.exited:
			c.t.Fatalf("skiff up ended (%v):\n%s", c.cmd.ProcessState, c.output.String())
		default:
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return json.Unmarshal(data, &c.ready)
	})
}

// Stop stops the cluster in order and waits for every process.
func (c *Cluster) Stop() {
	c.t.Helper()
	if c.cmd == nil {
		return
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !c.gone() {
		c.t.Errorf("stop skiff up: %v", err)
	}
	select {
	case <-c.exited:
	case <-time.After(stopTimeout):
		c.t.Errorf("skiff up did not stop within %v; it is killed", stopTimeout)
		c.kill()
	}
	if !c.cmd.ProcessState.Success() {
		c.t.Errorf("skiff up ended with %v:\n%s", c.cmd.ProcessState, c.output.String())
	}
	c.cmd = nil
}

// CrashAll kills `up` itself and with it, on Linux, every node: the whole machine loses its processes at once.
func (c *Cluster) CrashAll() {
	c.t.Helper()
	pids := []int{}
	for _, n := range c.Nodes() {
		if n.PID != 0 {
			pids = append(pids, n.PID)
		}
	}
	c.kill()
	c.cmd = nil
	Eventually(c.t, stopTimeout, "every process is gone", func() error {
		for _, pid := range pids {
			if syscall.Kill(pid, 0) == nil {
				return fmt.Errorf("pid %d lives", pid)
			}
		}
		return nil
	})
}

// kill ends `up` by its pid.
func (c *Cluster) kill() {
	if err := c.cmd.Process.Kill(); err != nil && !c.gone() {
		c.t.Errorf("kill skiff up: %v", err)
	}
	<-c.exited
}

func (c *Cluster) gone() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// close ends what is left at the end of a test.
func (c *Cluster) close() {
	if c.cmd == nil {
		return
	}
	if c.t.Failed() {
		c.kill()
		c.unwire()
		c.t.Logf("output of skiff up:\n%s", c.output.String())
		return
	}
	c.Stop()
}

// Dir is the cluster's directory.
func (c *Cluster) Dir() string { return c.dir }

// BootstrapServers are host:port of the brokers.
func (c *Cluster) BootstrapServers() []string { return slices.Clone(c.ready.BootstrapServers) }

// Controllers are host:port of the quorum nodes.
func (c *Cluster) Controllers() []string { return slices.Clone(c.ready.Controllers) }

// Skiff runs the tool on this cluster and returns its standard output.
func (c *Cluster) Skiff(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), verbTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.binary, args...)
	cmd.Env = append(os.Environ(), "SKIFF_DATA="+c.dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("skiff %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
