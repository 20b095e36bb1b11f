package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
	"github.com/skiffmq/skiff/quorum/rpc/rpctest"
)

func TestFindsTheActiveControllerWhicheverItIs(t *testing.T) {
	for i := range 3 {
		bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
			q.Lead(i)
			if b := register(t, c, 1); b.epoch <= 0 {
				t.Fatalf("broker epoch %d", b.epoch)
			}
			if got := c.ActiveController(); got != q.Node(i).Addr {
				t.Fatalf("believes %q, want %q", got, q.Node(i).Addr)
			}
			if c.ClusterID() != q.Node(i).Image().ClusterID() {
				t.Fatalf("cluster id %q was not taken over", c.ClusterID())
			}
		})
	}
}

func TestFailoverIsFoundInTensOfMilliseconds(t *testing.T) {
	for name, end := range map[string]func(*rpctest.Quorum){
		"deposed":    func(q *rpctest.Quorum) {},
		"killed":     func(q *rpctest.Quorum) { q.Node(0).Kill() },
		"blackholed": func(q *rpctest.Quorum) { q.Node(0).Blackhole(true) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
				q.Lead(0)
				b := register(t, c, 1)
				end(q)
				q.Lead(-1)
				time.Sleep(300 * time.Millisecond) // nobody leads
				asked := make(chan error, 1)
				begin := time.Now()
				go func() {
					_, err := c.ReserveProducerIDs(within(t, 30*time.Second), &controllerv1.ReserveProducerIDsRequest{BrokerId: b.id, BrokerEpoch: b.epoch})
					asked <- err
				}()
				time.Sleep(200 * time.Millisecond)
				q.Lead(1)
				led := time.Now()
				if err := <-asked; err != nil {
					t.Fatal(err)
				}
				took := time.Since(led)
				t.Logf("found %s after the claim, %s after the request", took, time.Since(begin))
				if name == "blackholed" {
					return // the request itself is lost in the hole; see TestRequestInABlackholeIsRepeatedElsewhere
				}
				if took > 100*time.Millisecond {
					t.Fatalf("found %s after the claim", took)
				}
			})
		})
	}
}

func TestRequestInABlackholeIsRepeatedElsewhere(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b := register(t, c, 1)
		q.Node(0).Blackhole(true)
		q.Lead(1)
		begin := time.Now()
		reserve(t, c, b, 1) // repeatable
		if took := time.Since(begin); took > 4*time.Second {
			t.Fatalf("it took %s", took)
		}
		q.Node(1).Blackhole(true)
		q.Lead(2)
		_, err := c.CreateTopics(within(t, 2*time.Second), anonymous(topicsRequest("t"))) // not repeatable: it may have been done
		if e := asError(t, err); e.Code != controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN {
			t.Fatalf("got %v", e)
		}
	})
}

// anonymous takes a request's id away, by which a retry is known.
func anonymous(req *controllerv1.CreateTopicsRequest) *controllerv1.CreateTopicsRequest {
	req.Context = nil
	return req
}

// TestAnIdentifiedRequestIsRepeatedElsewhere after its outcome is unknown: whoever decides it again gives the first answer.
func TestAnIdentifiedRequestIsRepeatedElsewhere(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b := register(t, c, 1)
		session, err := c.OpenSession(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		if err := session.Send(b.beat(1)); err != nil {
			t.Fatal(err)
		}
		if beat, err := session.Recv(); err != nil || beat.GetIsFenced() {
			t.Fatalf("heartbeat: %v, %v", beat, err)
		}
		first, err := c.CreateTopics(within(t, time.Minute), topicsRequest("t"))
		if err != nil || first.GetTopics()[0].GetError() != nil {
			t.Fatalf("%v, %v", first, err)
		}
		q.Node(0).Blackhole(true)
		q.Lead(1)
		again, err := c.CreateTopics(within(t, time.Minute), topicsRequest("t"))
		if err != nil || !proto.Equal(again, first) {
			t.Fatalf("first %v, from the next controller %v, %v", first, again, err)
		}
		other := topicsRequest("t")
		other.Context.RequestId = fsm.UUID{43}.Bytes()
		denied, err := c.CreateTopics(within(t, time.Minute), other)
		if err != nil || denied.GetTopics()[0].GetError().GetCode() != controllerv1.ErrorCode_ERROR_CODE_TOPIC_ALREADY_EXISTS {
			t.Fatalf("another request: %v, %v", denied, err)
		}
	})
}

// TestRequestToAFrozenControllerEndsWhenAnotherIsActive: its caller has a deadline far away, and is told within a second
// that the outcome is unknown; its next request goes to the new active controller at once.
func TestRequestToAFrozenControllerEndsWhenAnotherIsActive(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		register(t, c, 1)
		q.Node(0).Blackhole(true)
		asked := make(chan error, 1)
		go func() {
			_, err := c.CreateTopics(within(t, time.Minute), anonymous(topicsRequest("t")))
			asked <- err
		}()
		time.Sleep(2 * time.Second) // nobody else is active yet: the caller waits
		select {
		case err := <-asked:
			t.Fatalf("answered with %v while no other node was active", err)
		default:
		}
		q.Lead(1)
		led := time.Now()
		if e := asError(t, <-asked); e.Code != controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN {
			t.Fatalf("got %v", e)
		}
		if took := time.Since(led); took > 1500*time.Millisecond {
			t.Fatalf("told %s after another was active", took)
		}
		begin := time.Now()
		if _, err := c.CreateTopics(within(t, time.Minute), topicsRequest("u")); err != nil && client.CodeOf(err) == controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 500*time.Millisecond {
			t.Fatalf("the next request took %s", took)
		}
	})
}

// TestSlowAnswerOfTheActiveControllerIsWaitedFor: suspicion alone ends nothing.
func TestSlowAnswerOfTheActiveControllerIsWaitedFor(t *testing.T) {
	const delay = 2 * time.Second // less than an attempt may take, more than arouses suspicion
	bubble(t, rpctest.Options{LogDelay: delay}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		begin := time.Now()
		if _, err := c.DeleteTopics(within(t, time.Minute), &controllerv1.DeleteTopicsRequest{Topics: []*controllerv1.DeletableTopic{{Name: "t"}}}); err != nil {
			t.Fatal(err)
		}
		register(t, c, 1)
		if took := time.Since(begin); took < 2*delay {
			t.Fatalf("answered after %s: the claim and the registration take %s each", took, delay)
		}
	})
}

func TestRefusalIsTyped(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		_, err := c.ReserveProducerIDs(within(t, time.Second), &controllerv1.ReserveProducerIDsRequest{BrokerId: 9, BrokerEpoch: 3})
		if e := asError(t, err); e.Code == controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER || e.Message == "" {
			t.Fatalf("refused with %v", e)
		}
	})
}

func TestWithoutAnActiveControllerTheDeadlineSaysThatNothingWasDone(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		_, err := c.CreateTopics(within(t, 2*time.Second), topicsRequest("t"))
		if e := asError(t, err); e.Code != controllerv1.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT {
			t.Fatalf("got %v", e)
		}
	})
}

func TestCreateTopicsAnswersWithItsOffset(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(2)
		b := register(t, c, 1)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		s, err := c.OpenSession(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(b.beat(1)); err != nil {
			t.Fatal(err)
		}
		if resp, err := s.Recv(); err != nil || resp.GetIsFenced() {
			t.Fatalf("heartbeat: %v, %v", resp, err)
		}
		resp, err := c.CreateTopics(within(t, time.Second), topicsRequest("a", "b"))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := resp.GetMetadataOffset(), q.Node(2).Image().AppliedOffset(); got != want {
			t.Fatalf("metadata offset %d, applied %d", got, want)
		}
		for _, topic := range resp.GetTopics() {
			if topic.GetError() != nil {
				t.Fatalf("%s: %v", topic.GetName(), topic.GetError())
			}
		}
		again, err := c.CreateTopics(within(t, time.Second), topicsRequest("a", "b"))
		if err != nil || again.GetMetadataOffset() != resp.GetMetadataOffset() || again.GetTopics()[0].GetError() != nil {
			t.Fatalf("a retry with the same request id got %v, %v", again, err)
		}
	})
}

func TestSessionEndsWhenTheNodeIsDeposedAndTheNextOpensElsewhere(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b := register(t, c, 1)
		s, err := c.OpenSession(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(b.beat(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		q.Lead(1)
		_, err = s.Recv()
		if e := asError(t, err); e.Code != controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER {
			t.Fatalf("session ended with %v", e)
		}
		s, err = c.OpenSession(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(b.beat(2)); err != nil {
			t.Fatal(err)
		}
		if resp, err := s.Recv(); err != nil || resp.GetSequence() != 2 {
			t.Fatalf("%v, %v", resp, err)
		}
		if took := time.Since(begin); took > 200*time.Millisecond {
			t.Fatalf("the session was open again after %s", took)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSessionIsNotOpenedAtAFrozenControllerWhenAnotherIsActive: a broker that believes in a controller that was frozen has
// a session with the next one well before a local cluster's grace of 3 s is over.
func TestSessionIsNotOpenedAtAFrozenControllerWhenAnotherIsActive(t *testing.T) {
	bubble(t, rpctest.Options{}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b := register(t, c, 1) // now it believes in node 0
		q.Node(0).Blackhole(true)
		q.Lead(1)
		begin := time.Now()
		s, err := c.OpenSession(within(t, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the session was open after %s", took)
		}
		time.Sleep(5 * time.Second) // the attempt that opened it is long over
		if err := s.Send(b.beat(1)); err != nil {
			t.Fatal(err)
		}
		if resp, err := s.Recv(); err != nil || resp.GetSequence() != 1 {
			t.Fatalf("%v, %v", resp, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestOtherClusterIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := rpctest.New(t, rpctest.Options{Nodes: 1})
		defer q.Close()
		q.Lead(0)
		c, err := client.New(client.Config{Controllers: q.Addresses(), Dial: q.Dial, ClusterID: "AAAAAAAAAAAAAAAAAAAAAA"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.QuorumStatus(within(t, time.Second), q.Addresses()[0])
		if e := asError(t, err); e.Code != controllerv1.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID {
			t.Fatalf("got %v", e)
		}
		_, err = c.CreateTopics(within(t, 5*time.Second), topicsRequest("t"))
		if e := asError(t, err); e.Code != controllerv1.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID {
			t.Fatalf("got %v", e)
		}
		f := &follower{t: t}
		err = c.Follow(within(t, 5*time.Second), f.config("stranger"))
		if e := asError(t, err); e.Code != controllerv1.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID {
			t.Fatalf("got %v", e)
		}
	})
}

func TestManyCallersThroughManyFailovers(t *testing.T) {
	bubble(t, rpctest.Options{Depth: 2}, func(t *testing.T, q *rpctest.Quorum, c *client.Client) {
		q.Lead(0)
		b := register(t, c, 1)
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() { reserve(t, c, b, 20) })
		}
		for i := range 10 {
			time.Sleep(50 * time.Millisecond)
			q.Lead(-1)
			time.Sleep(20 * time.Millisecond)
			q.Lead(i % 3)
		}
		wg.Wait()
	})
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := rpctest.New(t, rpctest.Options{})
		defer q.Close()
		c := newClient(t, q, nil)
		errs := make(chan error, 3)
		go func() { _, err := c.CreateTopics(context.Background(), topicsRequest("t")); errs <- err }()
		go func() { _, err := c.OpenSession(context.Background()); errs <- err }()
		f := &follower{t: t}
		go func() { errs <- c.Follow(context.Background(), f.config("b")) }()
		time.Sleep(time.Second)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := <-errs; !errors.Is(err, client.ErrClosed) {
				t.Fatalf("got %v", err)
			}
		}
	})
}
