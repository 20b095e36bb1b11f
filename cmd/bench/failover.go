package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/skiffmq/skiff/cmd/skiff/up"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// attemptTimeout bounds one CreateTopics: what is lost in a dead connection, or waits for a frozen process, is given up and
// asked again under another name.
const attemptTimeout = time.Second

// Failover signals the active controller and measures until the next CreateTopics is committed. With SIGKILL the node
// is started again afterwards, with SIGSTOP it is resumed. The client is one that knew the old controller, as users' are.
func (c *Cluster) Failover(ctx context.Context, s syscall.Signal) (time.Duration, error) {
	nodes, err := c.nodes(ctx, up.Quorum)
	if err != nil {
		return 0, err
	}
	controllers := make([]string, len(nodes))
	for i, n := range nodes {
		controllers[i] = n.Addresses[0]
	}
	asker, err := client.New(client.Config{Controllers: controllers})
	if err != nil {
		return 0, err
	}
	defer asker.Close()
	if _, err := createOne(ctx, asker); err != nil {
		return 0, fmt.Errorf("before the failover: %w", err)
	}
	active, err := c.active(ctx)
	if err != nil {
		return 0, err
	}
	sent, err := c.signal(ctx, active, s)
	if err != nil {
		return 0, err
	}
	committed, err := createOne(ctx, asker)
	return committed.Sub(sent), errors.Join(err, c.revive(ctx, active, s))
}

// createOne creates a topic, asking until one is committed, tells when that was, and deletes it again.
func createOne(ctx context.Context, asker *client.Client) (time.Time, error) {
	var committed time.Time
	var name string
	err := until(ctx, func() error {
		id := make([]byte, 16)
		_, _ = rand.Read(id) // never fails: crypto/rand ends the process instead
		name = "bench-" + hex.EncodeToString(id)
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		response, err := asker.CreateTopics(attempt, &controllerv1.CreateTopicsRequest{
			Context: &controllerv1.RequestContext{RequestId: id},
			Topics:  []*controllerv1.CreatableTopic{{Name: name, NumPartitions: 1, ReplicationFactor: 1}},
		})
		committed = time.Now()
		if err != nil {
			return err
		}
		if refusal := response.Topics[0].Error; refusal != nil {
			return errors.New(refusal.Message)
		}
		return nil
	})
	if err != nil {
		return committed, err
	}
	return committed, deleteOne(ctx, asker, name)
}

func deleteOne(ctx context.Context, asker *client.Client, name string) error {
	return until(ctx, func() error {
		response, err := asker.DeleteTopics(ctx, &controllerv1.DeleteTopicsRequest{Topics: []*controllerv1.DeletableTopic{{Name: name}}})
		if err != nil {
			return err
		}
		refusal := response.Topics[0].Error
		if refusal != nil && refusal.Code != controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION {
			return errors.New(refusal.Message)
		}
		return nil
	})
}
