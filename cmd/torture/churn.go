package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/skiffmq/skiff/cmd/skiff/up"
	"github.com/skiffmq/skiff/cmd/verify"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// Who creates and deletes topics.
const (
	churners     = 3
	churnNames   = 5
	churnTimeout = 5 * time.Second
)

// churn is clients that create and delete topics on the same few names, and what they were told.
type churn struct {
	clients []*client.Client
	began   time.Time
	running sync.WaitGroup

	// mu guards ops.
	mu  sync.Mutex
	ops []verify.TopicOp
}

func newChurn(controllers []string) (*churn, error) {
	c := &churn{began: time.Now()}
	for i := range churners {
		// Each begins with another node, so that some are always on the wrong one.
		known := slices.Concat(controllers[i%len(controllers):], controllers[:i%len(controllers)])
		one, err := client.New(client.Config{Controllers: known})
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.clients = append(c.clients, one)
	}
	return c, nil
}

// start lets everybody ask until ctx ends.
func (c *churn) start(ctx context.Context, seed uint64) {
	for i := range c.clients {
		c.running.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(100+i)))
			for ctx.Err() == nil {
				c.askOnce(i, rng)
				rest(ctx, time.Duration(rng.Int64N(int64(2*lull))))
			}
		})
	}
}

// finish waits for the last answers.
func (c *churn) finish() { c.running.Wait() }

func (c *churn) close() error {
	var errs []error
	for _, one := range c.clients {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// history is all operations so far.
func (c *churn) history() []verify.TopicOp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ops)
}

func (c *churn) now() int64 { return int64(time.Since(c.began)) }

// askOnce has one client create or delete a topic. It has its own deadline: an operation that is cut off by the end of the run
// would only be one more whose outcome nobody knows.
func (c *churn) askOnce(i int, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), churnTimeout)
	defer cancel()
	op := verify.TopicOp{Client: i, Name: fmt.Sprintf("churn-%d", rng.IntN(churnNames)), Verb: verify.Create}
	context := requestContext(rng)
	op.Call = c.now()
	if rng.IntN(2) == 0 {
		op.Outcome, op.ID = create(ctx, c.clients[i], context, op.Name)
	} else {
		op.Verb = verify.Delete
		op.Outcome = remove(ctx, c.clients[i], context, op.Name)
	}
	op.Return = c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = append(c.ops, op)
}

func requestContext(rng *rand.Rand) *controllerv1.RequestContext {
	id := make([]byte, 16)
	for i := range id {
		id[i] = byte(rng.Uint32())
	}
	return &controllerv1.RequestContext{
		RequestId: id, TimeoutMs: churnTimeout.Milliseconds(), Cause: &metadatav1.Cause{Principal: "User:torture", RequestKind: "churn"},
	}
}

func create(ctx context.Context, c *client.Client, rc *controllerv1.RequestContext, name string) (verify.Outcome, verify.TopicID) {
	resp, err := c.CreateTopics(ctx, &controllerv1.CreateTopicsRequest{
		Context: rc, Topics: []*controllerv1.CreatableTopic{{Name: name, NumPartitions: 1, ReplicationFactor: 2}},
	})
	if err != nil || len(resp.GetTopics()) != 1 {
		return outcome(err), verify.TopicID{}
	}
	t := resp.GetTopics()[0]
	return judged(t.GetError()), verify.TopicID(padded(t.GetTopicId()))
}

func remove(ctx context.Context, c *client.Client, rc *controllerv1.RequestContext, name string) verify.Outcome {
	resp, err := c.DeleteTopics(ctx, &controllerv1.DeleteTopicsRequest{Context: rc, Topics: []*controllerv1.DeletableTopic{{Name: name}}})
	if err != nil || len(resp.GetTopics()) != 1 {
		return outcome(err)
	}
	return judged(resp.GetTopics()[0].GetError())
}

// padded gives an id of the right length: a malformed one equals none that was given.
func padded(b []byte) (id [16]byte) {
	copy(id[:], b)
	return id
}

// outcome is what the error of a whole request says about its topic.
func outcome(err error) verify.Outcome {
	var e *client.Error
	if !errors.As(err, &e) || e.Code == controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN {
		return verify.Unknown
	}
	return verify.NotDone
}

// judged is what the answer for one topic says.
func judged(e *controllerv1.Error) verify.Outcome {
	switch {
	case e == nil:
		return verify.Done
	case e.GetCode() == controllerv1.ErrorCode_ERROR_CODE_TOPIC_ALREADY_EXISTS, e.GetCode() == controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION:
		return verify.Refused
	case e.GetCode() == controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN:
		return verify.Unknown
	default:
		return verify.NotDone
	}
}

// findAll ends the history: every broker is asked for every name, after all nodes have come to hold the same.
func (c *churn) findAll(ctx context.Context, s *system) error {
	for i, node := range s.ofRole(up.Broker) {
		for n := range churnNames {
			op := verify.TopicOp{Client: churners + i, Name: fmt.Sprintf("churn-%d", n), Verb: verify.Find, Outcome: verify.Done, Call: c.now()}
			topic, err := s.views[node.Name].Topic(ctx, op.Name)
			op.Return, op.ID = c.now(), topic.TopicID
			switch {
			case errors.Is(err, kerr.UnknownTopicOrPartition):
				op.Outcome, op.ID = verify.Refused, verify.TopicID{}
			case err != nil:
				return fmt.Errorf("find %s on %s: %w", op.Name, node.Name, err)
			}
			c.mu.Lock()
			c.ops = append(c.ops, op)
			c.mu.Unlock()
		}
	}
	return nil
}
