package endtoend

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/verify"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// What waits at the port of a controller that is paused.
const (
	queuedCalls  = 50
	racingCalls  = 60 // sent as it is paused: some are answered before, some are decided and not answered, some are not read
	queueConns   = 5
	committedNew = 10 // topics that the next controller commits meanwhile
)

// TestAControllerThatWasPausedTellsItsCallersTheTruth freezes the active controller with requests at its port, lets another lead
// and commit, and thaws the first one: it finds in its socket buffers what it was asked while it believed to be active. None of it
// may appear unless its caller was told so, or told that the outcome is unknown (I21).
func TestAControllerThatWasPausedTellsItsCallersTheTruth(t *testing.T) {
	t.Parallel()
	cluster := proctest.Start(t, proctest.Options{Brokers: 1})
	first := cluster.ActiveController()
	queue := newQueue(t, cluster.Node(first).Addresses[0])

	queue.ask("racing", racingCalls)
	proctest.Eventually(t, patience, "the first of those who race with the pause are answered", func() error {
		if queue.answered() == 0 {
			return errors.New("none is")
		}
		return nil
	})
	cluster.Pause(first)
	queue.ask("queued", queuedCalls)
	proctest.Eventually(t, patience, "every request is at the paused port", func() error {
		if sent := queue.sent.Load(); sent < racingCalls+queuedCalls {
			return fmt.Errorf("%d of %d were sent", sent, racingCalls+queuedCalls)
		}
		return nil
	})
	second := cluster.ActiveController()
	if second == first {
		t.Fatalf("%s is active though it is paused", first)
	}
	var meanwhile []string
	for i := range committedNew {
		meanwhile = append(meanwhile, createNext(t, cluster, fmt.Sprintf("meanwhile-%d", i), 1))
	}
	cluster.Resume(first)

	history := queue.answers()
	cluster.AwaitReady(first)
	cluster.AwaitAgreement(patience)
	view := viewOf(t, cluster.BootstrapServers()[0])
	for _, name := range meanwhile {
		if find(t, view, name).Outcome != verify.Done {
			t.Errorf("topic %s, which %s committed, is gone", name, second)
		}
	}
	told := map[verify.Outcome]int{}
	for _, op := range history {
		told[op.Outcome]++
		history = append(history, find(t, view, op.Name))
	}
	t.Logf("%s was paused, %s led: the %d callers of the first were told %v", first, second, racingCalls+queuedCalls, told)
	if told[verify.Unknown] > racingCalls+queuedCalls/2 {
		t.Errorf("callers whose requests were not even read were told nothing: %v", told)
	}
	for _, v := range verify.CheckTopics(history, patience) {
		t.Error(v)
	}
}

// find ends the history of a name. It is called after everything else was answered.
func find(t *testing.T, view *verify.View, name string) verify.TopicOp {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	op := verify.TopicOp{Name: name, Verb: verify.Find, Outcome: verify.Done, Call: time.Now().UnixNano()}
	topic, err := view.Topic(ctx, name)
	op.ID, op.Return = topic.TopicID, time.Now().UnixNano()
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		op.Outcome, op.ID = verify.Refused, verify.TopicID{}
	case err != nil:
		t.Fatalf("find %s: %v", name, err)
	}
	return op
}

// queue is callers of one controller who neither look for another one nor repeat anything.
type queue struct {
	t       *testing.T
	conns   []*grpc.ClientConn
	sent    atomic.Int64 // requests that were handed to a connection
	waiting sync.WaitGroup

	// mu guards ops.
	mu  sync.Mutex
	ops []verify.TopicOp
}

// newQueue connects, and has each connection answer once: the paused process must not have to accept it.
func newQueue(t *testing.T, address string) *queue {
	t.Helper()
	q := &queue{t: t}
	for range queueConns {
		conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithStatsHandler(countSent{&q.sent}), grpc.WithDisableRetry(), grpc.WithNoProxy())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if _, err := quorumv1.NewQuorumServiceClient(conn).Status(ctx, &quorumv1.StatusRequest{}); err != nil {
			t.Fatal(err)
		}
		cancel()
		q.conns = append(q.conns, conn)
	}
	q.sent.Store(0)
	return q
}

// ask sends so many CreateTopics at once and does not wait for their answers.
func (q *queue) ask(prefix string, calls int) {
	for i := range calls {
		q.waiting.Go(func() { q.create(fmt.Sprintf("%s-%d", prefix, i), q.conns[i%len(q.conns)]) })
	}
}

func (q *queue) create(name string, conn *grpc.ClientConn) {
	ctx, cancel := context.WithTimeout(q.t.Context(), 2*patience)
	defer cancel()
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails
	op := verify.TopicOp{Name: name, Verb: verify.Create, Call: time.Now().UnixNano()}
	resp, err := controllerv1.NewAdminServiceClient(conn).CreateTopics(ctx, &controllerv1.CreateTopicsRequest{
		Context: &controllerv1.RequestContext{
			RequestId: id, TimeoutMs: patience.Milliseconds(), Cause: &metadatav1.Cause{Principal: "User:test", RequestKind: "CreateTopics"},
		},
		Topics: []*controllerv1.CreatableTopic{{Name: name, NumPartitions: 1, ReplicationFactor: 1}},
	})
	op.Return = time.Now().UnixNano()
	op.Outcome = refusal(err)
	if err == nil && len(resp.GetTopics()) == 1 {
		if op.Outcome = verify.NotDone; resp.GetTopics()[0].GetError() == nil {
			op.Outcome = verify.Done
			copy(op.ID[:], resp.GetTopics()[0].GetTopicId())
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ops = append(q.ops, op)
}

// answered is how many were answered so far.
func (q *queue) answered() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.ops)
}

// answers waits for all of them.
func (q *queue) answers() []verify.TopicOp {
	q.waiting.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ops
}

// refusal is what the error of a request says: only a refusal by the node itself says that nothing was done.
func refusal(err error) verify.Outcome {
	for _, detail := range status.Convert(err).Details() {
		if e, ok := detail.(*controllerv1.Error); ok && e.GetCode() != controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN {
			return verify.NotDone
		}
	}
	return verify.Unknown
}

// countSent counts requests as gRPC hands them to a connection.
type countSent struct{ sent *atomic.Int64 }

func (countSent) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (countSent) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (countSent) HandleConn(context.Context, stats.ConnStats)                       {}
func (c countSent) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutPayload); ok {
		c.sent.Add(1)
	}
}
