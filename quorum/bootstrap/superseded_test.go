package bootstrap_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/bootstrap"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

// emptied starts the cluster's nodes with empty directories and gives the old ones.
func emptied(t *testing.T, c *quorumtest.Cluster) (old []string) {
	t.Helper()
	for _, n := range c.Nodes {
		c.Crash(n)
	}
	for _, n := range c.Nodes {
		old = append(old, n.Dir)
		n.Dir = t.TempDir()
		c.Start(n)
	}
	return old
}

func wantSuperseded(t *testing.T, err error, lineages ...fsm.LineageID) {
	t.Helper()
	var stop *quorum.StopError
	if !errors.As(err, &stop) || stop.Code != quorum.ExitRefused || !strings.Contains(stop.Fix, "rejoin") {
		t.Fatalf("%v, want exit code 78 with the next step", err)
	}
	for _, id := range lineages {
		if !strings.Contains(stop.Cause, id.String()) {
			t.Errorf("%q does not name lineage %s", stop.Cause, id)
		}
	}
}

// TestNodeOfTheOldLineageStopsForGood when it meets the lineage that replaced its own, and at each later start.
func TestNodeOfTheOldLineageStopsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		c.AwaitSame()
		img := c.Active().Image()
		old := emptied(t, c)
		done, err := restoreWith(t, c, bootstrap.Restoration{Image: img, Replace: true}, bootstrap.Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkReborn(t, c, done)
		back := c.Nodes[2]
		c.Crash(back)
		fresh := back.Dir
		back.Dir = old[2]
		c.Start(back)
		err = c.Ended(back)
		wantSuperseded(t, err, img.Lineage().ID, done.Lineage)
		wantSuperseded(t, c.TryStart(back), img.Lineage().ID, done.Lineage)
		back.Dir = fresh
		c.Start(back)
		checkReborn(t, c, done)
	})
}

// TestDrillSupersedesNobody: a restore as a new cluster is a stranger to the nodes of the old one, also at their addresses.
func TestDrillSupersedesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		c.AwaitSame()
		img := c.Active().Image()
		old := emptied(t, c)
		done, err := restoreWith(t, c, bootstrap.Restoration{Image: img}, bootstrap.Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkReborn(t, c, done)
		for i, n := range c.Nodes {
			c.Crash(n)
			n.Dir = old[i]
		}
		for _, n := range c.Nodes {
			c.Start(n)
		}
		c.Await("an open claim", func() bool { return c.Active() != nil })
		c.AwaitSame()
		if got := c.Active().Image(); got.Lineage().ID != img.Lineage().ID || got.ClusterID() != img.ClusterID() {
			t.Errorf("cluster %s, lineage %s", got.ClusterID(), got.Lineage().ID)
		}
	})
}
