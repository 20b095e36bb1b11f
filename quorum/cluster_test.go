package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

// register writes a broker's registration through the active controller: a small change of the metadata.
func register(ctx context.Context, n *quorumtest.Node, broker int32) error {
	req := &controllerv1.RegisterRequest{
		BrokerId: broker, IncarnationId: fsm.UUID{1, byte(broker)}.Bytes(), PreviousBrokerEpoch: -1,
		Directories: [][]byte{fsm.UUID{2, byte(broker)}.Bytes()},
		Listeners:   []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "b", Port: 9092}},
	}
	_, _, err := active.Do(ctx, n.Loop(), controller.RegisterBroker, req, &metadatav1.Cause{Principal: "test"}, fsm.UUID{3, byte(broker)})
	return err
}

func mustRegister(t *testing.T, c *quorumtest.Cluster, broker int32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := register(ctx, c.Active(), broker); err != nil {
		t.Fatalf("register broker %d: %v", broker, err)
	}
}

func hasBroker(n *quorumtest.Node, broker int32) bool {
	_, ok := n.Image().Broker(broker)
	return ok
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestThreeNodesElectClaimAndCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 3, nil)
		mustRegister(t, c, 1)
		c.AwaitSame()
		for _, n := range c.Nodes {
			if !hasBroker(n, 1) {
				t.Errorf("%s has no broker 1", n.Name)
			}
		}
	})
}
