package brokerdtest

import (
	"context"
	"os"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/bootstrap"
)

// DestroyQuorum kills every quorum node and destroys its disk.
func (c *Cluster) DestroyQuorum() {
	c.t.Helper()
	for _, n := range c.Quorum.Nodes {
		c.Quorum.Crash(n)
		if err := os.RemoveAll(n.Dir); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Restore makes a new quorum of the destroyed nodes, which begins with the image in the place of the lost cluster.
func (c *Cluster) Restore(img *fsm.Image) bootstrap.Restored {
	c.t.Helper()
	return c.restore(bootstrap.Restoration{Image: img, Replace: true})
}

// RestoreElsewhere is Restore as another cluster.
func (c *Cluster) RestoreElsewhere(img *fsm.Image) bootstrap.Restored {
	c.t.Helper()
	return c.restore(bootstrap.Restoration{Image: img})
}

func (c *Cluster) restore(r bootstrap.Restoration) bootstrap.Restored {
	c.t.Helper()
	for _, n := range c.Quorum.Nodes {
		c.Quorum.Start(n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done, err := bootstrap.Restore(ctx, c.Quorum.Voters(), r, c.Quorum.BootstrapOptions())
	if err != nil {
		c.t.Fatalf("restore: %v", err)
	}
	c.Quorum.Await("an open claim", func() bool { return c.Quorum.Active() != nil })
	return done
}

// AwaitElected waits until no partition awaits inventories.
func (c *Cluster) AwaitElected() {
	c.t.Helper()
	c.Await("every partition to have a leader", func() bool {
		img := c.Image()
		return img.NumAwaiting() == 0 && img.NumLeaderless() == 0
	})
}

// Confirm confirms the lineage of the quorum.
func (c *Cluster) Confirm() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := c.Controller().ConfirmLineage(ctx, &controllerv1.ConfirmLineageRequest{Lineage: c.Image().Lineage().ID.Proto()})
	if err == nil && resp.GetError() == nil {
		c.AwaitSame()
		return
	}
	c.t.Fatalf("confirm: %v, %v", resp.GetError(), err)
}
