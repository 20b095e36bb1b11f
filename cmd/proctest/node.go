package proctest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/admin"
	"github.com/skiffmq/skiff/cmd/skiff/up"
)

// statusClient opens a connection for every question, so that a node that came back is not asked over its old one.
var statusClient = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Eventually waits until check returns nil, and fails the test with its last error when that takes too long.
func Eventually(t testing.TB, within time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %v: %v", what, within, err)
		case <-ticker.C:
		}
	}
}

// Nodes are all nodes as `up` sees them now.
func (c *Cluster) Nodes() []up.Node {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), verbTimeout)
	defer cancel()
	nodes, err := c.client.List(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	return nodes
}

// Node is one node as `up` sees it now.
func (c *Cluster) Node(name string) up.Node {
	c.t.Helper()
	for _, n := range c.Nodes() {
		if n.Name == name {
			return n
		}
	}
	c.t.Fatalf("no node is called %s", name)
	return up.Node{}
}

// Kill ends a node with SIGKILL, after its own admin server has said that this process is it.
func (c *Cluster) Kill(name string) { c.t.Helper(); c.verb(name, up.Kill) }

// StopNode stops a node in order.
func (c *Cluster) StopNode(name string) { c.t.Helper(); c.verb(name, up.Stop) }

// Pause freezes a node.
func (c *Cluster) Pause(name string) { c.t.Helper(); c.verb(name, up.Pause) }

// Resume lets a paused node go on.
func (c *Cluster) Resume(name string) { c.t.Helper(); c.verb(name, up.Resume) }

// Restart starts a node again and waits until it is ready.
func (c *Cluster) Restart(name string) {
	c.t.Helper()
	c.verb(name, up.Restart)
	c.AwaitReady(name)
}

func (c *Cluster) verb(name, verb string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), verbTimeout)
	defer cancel()
	if _, err := c.client.Do(ctx, name, verb, false); err != nil {
		c.t.Fatalf("%s %s: %v", verb, name, err)
	}
}

// Status asks a node for its /status.
func (c *Cluster) Status(name string) (admin.Status, error) {
	c.t.Helper()
	n := c.fromReady(name)
	var status admin.Status
	response, err := statusClient.Get("http://" + n.Admin + "/status")
	if err != nil {
		return status, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return status, err
	}
	if response.StatusCode != http.StatusOK {
		return status, fmt.Errorf("%s: %s: %s", name, response.Status, body)
	}
	return status, json.Unmarshal(body, &status)
}

// fromReady finds a node in the ready file: its addresses never change.
func (c *Cluster) fromReady(name string) up.Node {
	c.t.Helper()
	for _, n := range c.ready.Nodes {
		if n.Name == name {
			return n
		}
	}
	c.t.Fatalf("no node is called %s", name)
	return up.Node{}
}

// AwaitReady waits until a node says that it is ready, and that it is the process that `up` started last.
func (c *Cluster) AwaitReady(name string) {
	c.t.Helper()
	Eventually(c.t, readyTimeout, name+" is ready", func() error {
		status, err := c.Status(name)
		if err != nil {
			return err
		}
		if pid := c.Node(name).PID; status.PID != pid {
			return fmt.Errorf("answered by pid %d, not %d", status.PID, pid)
		}
		if !status.Ready {
			return errors.New(status.NotReadyReason)
		}
		return nil
	})
}

// ActiveController waits until exactly one quorum node is active, and returns its name.
func (c *Cluster) ActiveController() string {
	c.t.Helper()
	active := ""
	Eventually(c.t, readyTimeout, "one controller is active", func() error {
		active = ""
		var found error
		for _, n := range c.ready.Nodes {
			if n.Role != up.Quorum {
				continue
			}
			status, err := c.Status(n.Name)
			if err != nil || status.QuorumStatus == nil || !status.Active {
				continue
			}
			if active != "" {
				found = fmt.Errorf("%s and %s say that they are active", active, n.Name)
			}
			active = n.Name
		}
		if found == nil && active == "" {
			found = errors.New("none is active")
		}
		return found
	})
	return active
}

// BrokerNode is the name of the broker with an id.
func (c *Cluster) BrokerNode(id int32) string {
	c.t.Helper()
	for _, n := range c.ready.Nodes {
		if n.Role == up.Broker && n.ID == id {
			return n.Name
		}
	}
	c.t.Fatalf("there is no broker %d", id)
	return ""
}

// AwaitAgreement waits until all nodes report one lineage, metadata offset and digest (I1), and returns that status.
func (c *Cluster) AwaitAgreement(within time.Duration) admin.Status {
	c.t.Helper()
	var agreed admin.Status
	Eventually(c.t, within, "all nodes agree on the metadata", func() (err error) {
		agreed, err = c.Agreement()
		return err
	})
	return agreed
}

// Agreement asks every node once; it errs unless all report one lineage, metadata offset and digest (I1). It may be called from any
// goroutine.
func (c *Cluster) Agreement() (admin.Status, error) {
	var first admin.Status
	for i, n := range c.ready.Nodes {
		s, err := c.Status(n.Name)
		if err != nil {
			return first, err
		}
		if i == 0 {
			first = s
		}
		if s.Lineage != first.Lineage || s.MetadataOffset != first.MetadataOffset || s.Digest != first.Digest {
			return first, fmt.Errorf("%s has %v at %d with %s, %s has %v at %d with %s", c.ready.Nodes[0].Name, first.Lineage, first.MetadataOffset, first.Digest, n.Name, s.Lineage, s.MetadataOffset, s.Digest)
		}
	}
	return first, nil
}
