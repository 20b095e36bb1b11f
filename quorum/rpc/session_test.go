package rpc_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
	"github.com/skiffmq/skiff/quorum/rpc"
	"github.com/skiffmq/skiff/quorum/rpc/rpctest"
)

// edge runs a test on one active node and a connection to it, in virtual time.
func edge(t *testing.T, opts rpctest.Options, test func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn)) {
	t.Helper()
	opts.Nodes = 1
	synctest.Test(t, func(t *testing.T) {
		q := rpctest.New(t, opts)
		defer q.Close()
		q.Lead(0)
		synctest.Wait()
		conn := dial(t, q)
		defer conn.Close()
		test(t, q.Node(0), conn)
	})
}

func dial(t *testing.T, q *rpctest.Quorum) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+q.Node(0).Addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(q.Dial))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// codeOf is the code in a status.
func codeOf(err error) controllerv1.ErrorCode {
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*controllerv1.Error); ok {
			return e.GetCode()
		}
	}
	return controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED
}

func registerBroker(t *testing.T, conn *grpc.ClientConn, id int32) int64 {
	t.Helper()
	resp, err := controllerv1.NewBrokerServiceClient(conn).Register(within(t, time.Minute), &controllerv1.RegisterRequest{
		BrokerId: id, IncarnationId: fsm.UUID{byte(id), byte(id >> 8), 1}.Bytes(), PreviousBrokerEpoch: -1,
		Directories: [][]byte{fsm.UUID{byte(id), byte(id >> 8), 2}.Bytes()},
		Listeners:   []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "localhost", Port: 9092}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetBrokerEpoch()
}

type stream = grpc.BidiStreamingClient[controllerv1.SessionRequest, controllerv1.SessionResponse]

func openSession(t *testing.T, ctx context.Context, conn *grpc.ClientConn) stream {
	t.Helper()
	s, err := controllerv1.NewBrokerServiceClient(conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exchange(t *testing.T, s stream, req *controllerv1.SessionRequest) *controllerv1.SessionResponse {
	t.Helper()
	if err := s.Send(req); err != nil {
		t.Fatal(err)
	}
	resp, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetSequence() != req.GetSequence() {
		t.Fatalf("answer to %d, sent %d", resp.GetSequence(), req.GetSequence())
	}
	return resp
}

func TestHeartbeatsUnfenceAndThenChangeNothing(t *testing.T) {
	edge(t, rpctest.Options{}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		epoch := registerBroker(t, conn, 1)
		s := openSession(t, within(t, time.Minute), conn)
		behind := exchange(t, s, &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch, MetadataOffset: epoch - 1, Sequence: 1})
		if !behind.GetIsFenced() || behind.GetIsCaughtUp() {
			t.Fatalf("a broker that is not caught up got %v", behind)
		}
		ready := exchange(t, s, &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch, MetadataOffset: epoch, Sequence: 2})
		if ready.GetIsFenced() || !ready.GetIsCaughtUp() || ready.GetMetadataOffset() != n.Image().AppliedOffset() {
			t.Fatalf("a broker that is caught up got %v", ready)
		}
		entries := n.Loop.Status().Counts.Entries
		for i := range int64(20) {
			resp := exchange(t, s, &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch, MetadataOffset: epoch, Sequence: 3 + i})
			if resp.GetIsFenced() || resp.GetControllerEpoch() != n.Image().ControllerEpoch() {
				t.Fatalf("steady state: %v", resp)
			}
			time.Sleep(1500 * time.Millisecond)
		}
		if got := n.Loop.Status().Counts.Entries; got != entries {
			t.Fatalf("heartbeats made %d entries", got-entries)
		}
		time.Sleep(11 * time.Second)
		if b, _ := n.Image().Broker(1); !b.Fenced {
			t.Fatal("a silent broker is not fenced")
		}
	})
}

func TestGoodbyeEndsTheSessionAtOnce(t *testing.T) {
	edge(t, rpctest.Options{}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		epoch := registerBroker(t, conn, 1)
		ctx, cancel := context.WithCancel(context.Background())
		s := openSession(t, ctx, conn)
		exchange(t, s, &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch, MetadataOffset: epoch})
		if err := s.Send(&controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch, MetadataOffset: epoch, Goodbye: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel() // the process is gone
		synctest.Wait()
		if b, _ := n.Image().Broker(1); !b.Fenced {
			t.Fatal("the broker that said goodbye is not fenced")
		}
	})
}

func TestStaleBrokerEpochIsTold(t *testing.T) {
	edge(t, rpctest.Options{}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		epoch := registerBroker(t, conn, 1)
		s := openSession(t, within(t, time.Minute), conn)
		resp := exchange(t, s, &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch - 1, MetadataOffset: epoch})
		if resp.GetError().GetCode() != controllerv1.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH {
			t.Fatalf("got %v", resp)
		}
	})
}

func TestSessionIsOneBrokers(t *testing.T) {
	edge(t, rpctest.Options{}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		one, two := registerBroker(t, conn, 1), registerBroker(t, conn, 2)
		s := openSession(t, within(t, time.Minute), conn)
		exchange(t, s, &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: one, MetadataOffset: one - 1})
		if err := s.Send(&controllerv1.SessionRequest{BrokerId: 2, BrokerEpoch: two}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); codeOf(err) != controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST {
			t.Fatalf("got %v", err)
		}
	})
}

func TestBrokerThatReadsNoAnswersIsCutOff(t *testing.T) {
	edge(t, rpctest.Options{}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		epoch := registerBroker(t, conn, 1)
		s := openSession(t, within(t, time.Hour), conn)
		for range 100_000 {
			if err := s.Send(&controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch, MetadataOffset: -1}); err != nil {
				return // cut off
			}
		}
		t.Fatal("a hundred thousand heartbeats were answered to nobody")
	})
}

// The edge's part of the promise that a session never waits behind a decision: real sessions of a hundred brokers are
// answered within a second each while one decision takes a minute.
func TestHeartbeatsAreAnsweredWhileADecisionTakesAMinute(t *testing.T) {
	edge(t, rpctest.Options{}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		const brokers = 100
		var ready sync.WaitGroup
		ready.Add(brokers)
		for id := range int32(brokers) {
			epoch := registerBroker(t, conn, id)
			s := openSession(t, ctx, conn)
			wg.Go(func() {
				exchange(t, s, &controllerv1.SessionRequest{BrokerId: id, BrokerEpoch: epoch, MetadataOffset: epoch})
				ready.Done()
				for i := int64(1); ctx.Err() == nil; i++ {
					begin := time.Now()
					resp := exchange(t, s, &controllerv1.SessionRequest{BrokerId: id, BrokerEpoch: epoch, MetadataOffset: epoch, Sequence: i})
					if took := time.Since(begin); took > time.Second || resp.GetIsFenced() {
						t.Errorf("broker %d: %v after %s", id, resp, took)
					}
					select {
					case <-ctx.Done():
					case <-time.After(1500 * time.Millisecond):
					}
				}
			})
		}
		ready.Wait()
		blocked := func(*fsm.Image, *controller.Env, int) controller.Decision[int] {
			time.Sleep(time.Minute)
			return controller.Decision[int]{}
		}
		_, _, _ = active.Do(ctx, n.Loop, blocked, 0, nil, fsm.UUID{})
		time.Sleep(20 * time.Second)
		for b := range n.Image().Brokers() {
			if b.Fenced {
				t.Errorf("broker %d was fenced", b.ID)
			}
		}
		cancel()
		wg.Wait()
	})
}

func TestOneDecisionPendingForEachBroker(t *testing.T) {
	edge(t, rpctest.Options{}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		epoch := registerBroker(t, conn, 1)
		blocked := func(*fsm.Image, *controller.Env, int) controller.Decision[int] {
			time.Sleep(5 * time.Second)
			return controller.Decision[int]{}
		}
		go func() { _, _, _ = active.Do(context.Background(), n.Loop, blocked, 0, nil, fsm.UUID{}) }()
		time.Sleep(time.Second)
		s := openSession(t, within(t, time.Minute), conn)
		for i := range int64(10) { // each asks to be unfenced
			if err := s.Send(&controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: epoch, MetadataOffset: epoch, Sequence: i}); err != nil {
				t.Fatal(err)
			}
		}
		var last *controllerv1.SessionResponse
		for range 10 {
			resp, err := s.Recv()
			if err != nil {
				t.Fatal(err)
			}
			last = resp
		}
		if last.GetSequence() != 0 || last.GetIsFenced() {
			t.Fatalf("the one that was decided answers last: %v", last)
		}
	})
}

func TestWhoCallsIsJudged(t *testing.T) {
	edge(t, rpctest.Options{}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		own := n.Image()
		for name, tc := range map[string]struct {
			pairs []string
			want  controllerv1.ErrorCode
		}{
			"says nothing":  {nil, controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED},
			"belongs":       {[]string{rpc.ClusterIDKey, own.ClusterID(), rpc.LineageKey, own.Lineage().ID.String()}, controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED},
			"other cluster": {[]string{rpc.ClusterIDKey, "other"}, controllerv1.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID},
			"other lineage": {[]string{rpc.LineageKey, "2/" + fsm.UUID{9}.String()}, controllerv1.ErrorCode_ERROR_CODE_LINEAGE_BEHIND},
		} {
			ctx := metadata.AppendToOutgoingContext(within(t, time.Second), tc.pairs...)
			var header metadata.MD
			_, err := controllerv1.NewAdminServiceClient(conn).CreateTopics(ctx, &controllerv1.CreateTopicsRequest{}, grpc.Header(&header))
			if codeOf(err) != tc.want {
				t.Errorf("%s: %v", name, err)
			}
			if got := header.Get(rpc.ClusterIDKey); len(got) != 1 || got[0] != own.ClusterID() {
				t.Errorf("%s: the answer names cluster %v", name, got)
			}
			if got := header.Get(rpc.LineageKey); len(got) != 1 || got[0] != own.Lineage().ID.String() {
				t.Errorf("%s: the answer names lineage %v", name, got)
			}
		}
	})
}

func TestMalformedRequestIDIsRefused(t *testing.T) {
	edge(t, rpctest.Options{}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		_, err := controllerv1.NewAdminServiceClient(conn).CreateTopics(within(t, time.Second), &controllerv1.CreateTopicsRequest{
			Context: &controllerv1.RequestContext{RequestId: []byte{1, 2, 3}},
		})
		if codeOf(err) != controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST {
			t.Fatalf("got %v", err)
		}
	})
}

func TestMessageSizeIsCapped(t *testing.T) {
	edge(t, rpctest.Options{}, func(t *testing.T, n *rpctest.Node, conn *grpc.ClientConn) {
		_, err := controllerv1.NewAdminServiceClient(conn).DeleteTopics(within(t, time.Minute), &controllerv1.DeleteTopicsRequest{
			Topics: []*controllerv1.DeletableTopic{{Name: string(make([]byte, rpc.MaxRequestBytes))}},
		})
		if status.Code(err).String() != "ResourceExhausted" {
			t.Fatalf("got %v", err)
		}
	})
}

func TestFollowersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := rpctest.New(t, rpctest.Options{Nodes: 1})
		defer q.Close()
		q.Lead(0)
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		full, other := dial(t, q), dial(t, q)
		defer full.Close()
		defer other.Close()
		for range 1024 {
			if _, err := controllerv1.NewMetadataServiceClient(full).Follow(ctx, &controllerv1.FollowRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		s, err := controllerv1.NewMetadataServiceClient(other).Follow(ctx, &controllerv1.FollowRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); codeOf(err) != controllerv1.ErrorCode_ERROR_CODE_OVERLOADED {
			t.Fatalf("got %v", err)
		}
	})
}
