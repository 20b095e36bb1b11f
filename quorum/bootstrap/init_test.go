package bootstrap_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/bootstrap"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

func initWith(t *testing.T, c *quorumtest.Cluster, voters []bootstrap.Voter, opts bootstrap.Options) (bootstrap.Result, error) {
	t.Helper()
	if opts.Dial == nil {
		opts.Dial = c.Net.Host("tool").Dial
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return bootstrap.Init(ctx, voters, opts)
}

func wantRefused(t *testing.T, err error, words ...string) {
	t.Helper()
	var refused *bootstrap.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("%v, want a refusal", err)
	}
	for _, w := range words {
		if !strings.Contains(refused.Cause, w) {
			t.Errorf("%q does not say %q", refused.Cause, w)
		}
	}
	if refused.Fix == "" {
		t.Errorf("%q has no fix", refused.Cause)
	}
}

func awaitOne(t *testing.T, c *quorumtest.Cluster) {
	t.Helper()
	c.Await("an open claim", func() bool { return c.Active() != nil })
	c.AwaitSame()
}

func TestRepeatedInitChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, 3, nil)
		first, err := initWith(t, c, c.Voters(), bootstrap.Options{})
		if err != nil {
			t.Fatal(err)
		}
		awaitOne(t, c)
		for _, id := range []string{"", first.ClusterID} {
			again, err := initWith(t, c, c.Voters(), bootstrap.Options{ClusterID: id})
			if err != nil || !again.AlreadyInitialised || again.ClusterID != first.ClusterID || again.PlanID != first.PlanID {
				t.Errorf("again: %+v, %v", again, err)
			}
		}
		awaitOne(t, c)
	})
}

func TestDifferingInitIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, 4, nil)
		voters := c.Voters()
		if _, err := initWith(t, c, voters[:3], bootstrap.Options{}); err != nil {
			t.Fatal(err)
		}
		other := fsm.UUID{7}.String()
		_, err := initWith(t, c, voters[:3], bootstrap.Options{ClusterID: other})
		wantRefused(t, err, other)
		_, err = initWith(t, c, voters, bootstrap.Options{})
		wantRefused(t, err, "104@c4:9093")
		_, err = initWith(t, c, voters[:2], bootstrap.Options{})
		wantRefused(t, err, "103@c3:9093")
		if s := c.Nodes[3].Status(); s.Formatted {
			t.Error("node 104 was initialised by an init that was refused")
		}
	})
}

func TestWrongVotersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, 2, nil)
		_, err := initWith(t, c, []bootstrap.Voter{{NodeID: 101, Address: "c2:9093"}}, bootstrap.Options{})
		wantRefused(t, err, "c2:9093", "102", "101")
		for _, voters := range [][]bootstrap.Voter{
			nil,
			{{NodeID: 101, Address: "nonsense"}},
			{{NodeID: 101, Address: "c1:9093"}, {NodeID: 101, Address: "c2:9093"}},
			{{NodeID: 101, Address: "c1:9093"}, {NodeID: 102, Address: "c1:9093"}},
		} {
			if _, err := initWith(t, c, voters, bootstrap.Options{}); !errors.Is(err, bootstrap.ErrVoters) {
				t.Errorf("%v: %v", voters, err)
			}
		}
		result, err := initWith(t, c, c.Voters(), bootstrap.Options{})
		if err != nil || len(result.Warnings) != 1 {
			t.Errorf("two voters: %+v, %v; want a warning", result, err)
		}
	})
}

func TestInitWaitsForNodesAndSaysForWhom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, 3, nil)
		c.Crash(c.Nodes[2])
		var mu sync.Mutex
		var lines []string
		opts := bootstrap.Options{Progress: func(l string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, l)
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		opts.Dial = c.Net.Host("tool").Dial
		if _, err := bootstrap.Init(ctx, c.Voters(), opts); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "c3:9093") {
			t.Errorf("%v, want the address that does not answer", err)
		}
		started := make(chan struct{})
		go func() {
			defer close(started)
			time.Sleep(2 * time.Second)
			c.Start(c.Nodes[2])
		}()
		if _, err := initWith(t, c, c.Voters(), opts); err != nil {
			t.Error(err)
		}
		<-started
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(strings.Join(lines, "\n"), "waiting for 1 of 3") {
			t.Errorf("progress %q", lines)
		}
	})
}

// cutAfter is a tool that dies after a number of requests have been sent.
type cutAfter struct {
	net.Conn
	tool *dyingTool
}

type dyingTool struct {
	mu   sync.Mutex
	left int
	dial func(context.Context, string) (net.Conn, error)
}

func (d *dyingTool) Dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := d.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return cutAfter{c, d}, nil
}

var errDied = errors.New("the tool died")

// Write sends until the tool's time has come; every gRPC frame burst is one.
func (c cutAfter) Write(p []byte) (int, error) {
	c.tool.mu.Lock()
	dead := c.tool.left == 0
	if !dead {
		c.tool.left--
	}
	c.tool.mu.Unlock()
	if dead {
		c.Conn.Close()
		return 0, errDied
	}
	return c.Conn.Write(p)
}

// TestInitResumesWhereverTheToolDied: the tool dies at every point of its conversation; whoever repeats the command
// makes one quorum of the nodes.
func TestInitResumesWhereverTheToolDied(t *testing.T) {
	for left := 1; ; left++ {
		finished := false
		synctest.Test(t, func(t *testing.T) {
			c := quorumtest.Start(t, 3, nil)
			tool := &dyingTool{left: left, dial: c.Net.Host("tool").Dial}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			first, err := bootstrap.Init(ctx, c.Voters(), bootstrap.Options{Dial: tool.Dial, AttemptTimeout: time.Second})
			finished = err == nil
			second, err := initWith(t, c, c.Voters(), bootstrap.Options{})
			if err != nil {
				t.Fatalf("died after %d writes, then: %v", left, err)
			}
			if finished && (!second.AlreadyInitialised || second.ClusterID != first.ClusterID) {
				t.Errorf("finished, then %+v", second)
			}
			awaitOne(t, c)
			for _, n := range c.Nodes {
				if got := n.Status().ClusterID; got != second.ClusterID {
					t.Errorf("%s belongs to cluster %s, not %s", n.Name, got, second.ClusterID)
				}
			}
		})
		if finished || t.Failed() {
			return
		}
	}
}

// TestPreparedPlanIsReplacedOnlyWhileUncommitted: an interrupted init with other voters gives way; a committed one
// does not.
func TestPreparedPlanIsReplacedOnlyWhileUncommitted(t *testing.T) {
	for left := 1; ; left++ {
		committed, finished := 0, false
		synctest.Test(t, func(t *testing.T) {
			c := quorumtest.Start(t, 3, nil)
			tool := &dyingTool{left: left, dial: c.Net.Host("tool").Dial}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := bootstrap.Init(ctx, c.Voters(), bootstrap.Options{Dial: tool.Dial, AttemptTimeout: time.Second})
			finished = err == nil
			time.Sleep(time.Second) // what the tool had asked for before it died is done by now
			for _, n := range c.Nodes {
				if n.Status().Formatted {
					committed++
				}
			}
			_, err = initWith(t, c, c.Voters()[:1], bootstrap.Options{})
			switch {
			case committed == 0 && err != nil:
				t.Errorf("died after %d writes, nothing committed: %v", left, err)
			case committed > 0:
				wantRefused(t, err)
			}
		})
		if finished || t.Failed() {
			return
		}
	}
}

// TestWipedDiskStaysOut: a node that comes back with an empty directory is not ready, does not exit, and neither votes
// nor disturbs the others; init refuses to paper over it.
func TestWipedDiskStaysOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, 3, nil)
		if _, err := initWith(t, c, c.Voters(), bootstrap.Options{}); err != nil {
			t.Fatal(err)
		}
		awaitOne(t, c)
		wiped := c.Others(c.Active())[0]
		c.Crash(wiped)
		if err := os.RemoveAll(wiped.Dir); err != nil {
			t.Fatal(err)
		}
		c.Start(wiped)
		c.Await("the node to hear of its old directory", func() bool {
			return strings.Contains(wiped.Status().NotReady, fmt.Sprintf("rejoin --node-id %d", wiped.ID))
		})
		if _, err := initWith(t, c, c.Voters(), bootstrap.Options{}); err == nil {
			t.Error("init took the wiped node in")
		} else {
			wantRefused(t, err, "wiped or replaced")
		}
		if wiped.Status().Formatted || c.Active() == nil {
			t.Errorf("the wiped node is formatted %t, the quorum has an active controller %t", wiped.Status().Formatted, c.Active() != nil)
		}
	})
}
