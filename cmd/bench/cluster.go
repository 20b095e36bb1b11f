package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/skiffmq/skiff/cmd/admin"
	"github.com/skiffmq/skiff/cmd/skiff/up"
)

// Bounds of asking a process about itself.
const (
	statusTimeout = 2 * time.Second
	statusBytes   = 1 << 20
	pollPause     = 5 * time.Millisecond
	patience      = 60 * time.Second
)

// Cluster is a cluster of `skiff up` on this machine.
type Cluster struct {
	up   *up.Client
	http http.Client
}

// Attach returns the cluster that `skiff up` runs on data.
func Attach(data string) (*Cluster, error) {
	client, err := up.NewClient(data)
	if err != nil {
		return nil, err
	}
	// No connection is kept: a node that was killed and came back must not be asked over its old one.
	return &Cluster{up: client, http: http.Client{Timeout: statusTimeout, Transport: &http.Transport{DisableKeepAlives: true}}}, nil
}

// nodes are the nodes of one role.
func (c *Cluster) nodes(ctx context.Context, role string) ([]up.Node, error) {
	all, err := c.up.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []up.Node
	for _, n := range all {
		if n.Role == role {
			out = append(out, n)
		}
	}
	return out, nil
}

// Processes are all processes of the cluster.
func (c *Cluster) Processes(ctx context.Context) ([]Process, error) {
	all, err := c.up.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []Process
	for _, n := range all {
		if n.PID == 0 {
			return nil, fmt.Errorf("%s does not run: it is %s", n.Name, n.State)
		}
		out = append(out, Process{Name: n.Name, PID: n.PID})
	}
	return out, nil
}

func (c *Cluster) status(ctx context.Context, n up.Node) (admin.Status, error) {
	var status admin.Status
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Admin+"/status", nil)
	if err != nil {
		return status, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return status, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return status, fmt.Errorf("%s answers %s", n.Name, response.Status)
	}
	return status, json.NewDecoder(io.LimitReader(response.Body, statusBytes)).Decode(&status)
}

// active is the quorum node that says that it decides.
func (c *Cluster) active(ctx context.Context) (up.Node, error) {
	var found up.Node
	err := until(ctx, func() error {
		nodes, err := c.nodes(ctx, up.Quorum)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if s, err := c.status(ctx, n); err == nil && s.QuorumStatus != nil && s.Active {
				found = n
				return nil
			}
		}
		return errors.New("no node is the active controller")
	})
	return found, err
}

// signal sends a signal to a node after its own status has said that this pid is it, and returns when it was sent.
func (c *Cluster) signal(ctx context.Context, n up.Node, s syscall.Signal) (time.Time, error) {
	status, err := c.status(ctx, n)
	if err != nil {
		return time.Time{}, err
	}
	if status.PID != n.PID || n.PID <= 0 {
		return time.Time{}, fmt.Errorf("%s says that its pid is %d, and it was started as %d: nothing is signalled", n.Name, status.PID, n.PID)
	}
	sent := time.Now()
	return sent, syscall.Kill(n.PID, s)
}

// revive brings a node back after a signal, and waits until the whole cluster is ready.
func (c *Cluster) revive(ctx context.Context, n up.Node, s syscall.Signal) error {
	if s == syscall.SIGSTOP {
		if err := syscall.Kill(n.PID, syscall.SIGCONT); err != nil {
			return fmt.Errorf("resume %s: %w", n.Name, err)
		}
	} else if _, err := c.up.Do(ctx, n.Name, up.Restart, false); err != nil {
		return err
	}
	return c.awaitReady(ctx)
}

func (c *Cluster) awaitReady(ctx context.Context) error {
	return until(ctx, func() error {
		all, err := c.up.List(ctx)
		if err != nil {
			return err
		}
		for _, n := range all {
			s, err := c.status(ctx, n)
			if err != nil {
				return err
			}
			if !s.Ready {
				return fmt.Errorf("%s is not ready: %s", n.Name, s.NotReadyReason)
			}
		}
		return nil
	})
}

// until repeats check until it returns nil, and gives its last error when that takes longer than patience.
func until(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if waitErr := wait(ctx, pollPause); waitErr != nil {
			return fmt.Errorf("not within %v: %w", patience, err)
		}
	}
}
