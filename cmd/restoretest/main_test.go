package restoretest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/skiff/up"
	"github.com/skiffmq/skiff/fsm"
)

var topicsFlag = flag.Int("topics", 20, "topics of the large test; 200 is what was promised")

func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

// patience bounds a wait for something that takes seconds on a machine that does nothing else.
const patience = 90 * time.Second

// skiff runs the tool on a cluster and fails the test when it fails.
func skiff(t *testing.T, c *proctest.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Skiff(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// save saves a snapshot of the cluster and reads it.
func save(t *testing.T, c *proctest.Cluster, path string) *fsm.Image {
	t.Helper()
	skiff(t, c, "snapshot", "save", path, "--overwrite")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := fsm.ReadSnapshot(f)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// quorumNodes are the quorum nodes of the cluster.
func quorumNodes(c *proctest.Cluster) []up.Node {
	var list []up.Node
	for _, n := range c.Nodes() {
		if n.Role == up.Quorum {
			list = append(list, n)
		}
	}
	return list
}

// voters is the value of --voters.
func voters(c *proctest.Cluster) string {
	var list []string
	for _, n := range quorumNodes(c) {
		list = append(list, fmt.Sprintf("%d@%s", n.ID, n.Addresses[0]))
	}
	return strings.Join(list, ",")
}

// destroyQuorum kills all quorum nodes and puts their directories elsewhere.
func destroyQuorum(t *testing.T, c *proctest.Cluster) (old string) {
	t.Helper()
	old = filepath.Join(c.Dir(), "destroyed")
	if err := os.MkdirAll(old, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, n := range quorumNodes(c) {
		c.Kill(n.Name)
		if err := os.Rename(n.Data, filepath.Join(old, n.Name)); err != nil {
			t.Fatal(err)
		}
	}
	return old
}

// startEmpty starts the quorum nodes with the empty directories that destroyQuorum left.
func startEmpty(t *testing.T, c *proctest.Cluster) {
	t.Helper()
	for _, n := range quorumNodes(c) {
		skiff(t, c, "node", "restart", n.Name)
	}
}

// restore restores the cluster's empty quorum from a file.
func restore(t *testing.T, c *proctest.Cluster, path string, flags ...string) {
	t.Helper()
	skiff(t, c, append([]string{"snapshot", "restore", path, "--voters", voters(c)}, flags...)...)
}

// awaitLineage waits until a node follows another lineage than the given one, and is ready.
func awaitLineage(t *testing.T, c *proctest.Cluster, name, notUUID string) {
	t.Helper()
	proctest.Eventually(t, patience, name+" follows the restored lineage", func() error {
		s, err := c.Status(name)
		if err != nil {
			return err
		}
		if s.Lineage.UUID == notUUID || !s.Ready {
			return fmt.Errorf("lineage %d/%s, ready %t: %s", s.Lineage.Number, s.Lineage.UUID, s.Ready, s.NotReadyReason)
		}
		return nil
	})
}

// run runs the tool without a cluster and gives what it printed and its exit code.
func run(t *testing.T, within time.Duration, args ...string) (output string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, proctest.Binary(t), args...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("skiff %s did not end within %s:\n%s", strings.Join(args, " "), within, out)
	}
	if cmd.ProcessState == nil {
		t.Fatalf("skiff %s: %v", strings.Join(args, " "), err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
