package quorum_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/status"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

const (
	plenty = 500 << 20
	nearly = 1 << 20 // nearly full
)

// newOnRoom gives a quorum of three, each on a disk of its own with plenty of room.
func newOnRoom(t *testing.T) (*quorumtest.Cluster, map[int32]*atomic.Int64) {
	t.Helper()
	free := map[int32]*atomic.Int64{}
	c := quorumtest.New(t, 3, func(cfg *quorum.Config) {
		if free[cfg.NodeID] == nil {
			free[cfg.NodeID] = &atomic.Int64{}
			free[cfg.NodeID].Store(plenty)
		}
		quorum.OnDisk(cfg, free[cfg.NodeID])
	})
	c.AwaitSame()
	return c, free
}

func hasBallast(n *quorumtest.Node) bool {
	info, err := os.Stat(filepath.Join(n.Dir, "ballast"))
	return err == nil && info.Size() >= 1<<20
}

// TestLeaderOnAFullDiskHandsOver: to a voter that has room, though another has none either.
func TestLeaderOnAFullDiskHandsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, free := newOnRoom(t)
		leader := c.Active()
		full, roomy := c.Others(leader)[0], c.Others(leader)[1]
		free[full.ID].Store(nearly)
		time.Sleep(3 * time.Second)
		if c.Active() != leader {
			t.Fatal("a follower's disk moved leadership")
		}
		start := time.Now()
		free[leader.ID].Store(nearly)
		c.Await("another claim", func() bool { a := c.Active(); return a != nil && a != leader })
		if took := time.Since(start); c.Active() != roomy || took > 5*time.Second {
			t.Errorf("%s leads after %s, want %s", c.Active().Name, took, roomy.Name)
		}
		mustRegister(t, c, 1)
		if !hasBallast(leader) {
			t.Error("the ballast of a node that does not lead was thrown out")
		}
	})
}

// TestLeaderGoesOnWhenNobodyHasRoom: it takes what makes room and refuses what needs it, until there is room again.
func TestLeaderGoesOnWhenNobodyHasRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, free := newOnRoom(t)
		leader := c.Active()
		c.Await("the ballast", func() bool { return hasBallast(leader) })
		term := leader.Status().Term
		for _, n := range c.Others(leader) {
			free[n.ID].Store(nearly)
		}
		time.Sleep(3 * time.Second) // they look, and say so when they are asked
		free[leader.ID].Store(nearly)
		c.Await("the ballast to go", func() bool { return !hasBallast(leader) })
		conn := c.Conn("tool", leader.Addr)
		defer conn.Close()
		admin := controllerv1.NewAdminServiceClient(conn)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		create := func() error {
			_, err := admin.CreateTopics(ctx, &controllerv1.CreateTopicsRequest{})
			return err
		}
		if code := detailOf(create()); code != controllerv1.ErrorCode_ERROR_CODE_POLICY_VIOLATION {
			t.Errorf("creating topics is answered with %s", code)
		}
		if _, err := admin.DeleteTopics(ctx, &controllerv1.DeleteTopicsRequest{}); err != nil {
			t.Errorf("deleting topics: %v", err)
		}
		mustRegister(t, c, 1)
		if got := leader.Status(); !got.Active || got.Term != term {
			t.Errorf("leadership moved to where there is no room either:\n%s", c.Describe())
		}
		for _, f := range free {
			f.Store(plenty)
		}
		c.Await("topics to be created again", func() bool { return create() == nil })
		c.Await("the ballast", func() bool { return hasBallast(leader) })
	})
}

// detailOf is the code of a refusal.
func detailOf(err error) controllerv1.ErrorCode {
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*controllerv1.Error); ok {
			return e.GetCode()
		}
	}
	return controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED
}
