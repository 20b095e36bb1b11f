package replica

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// asked is a controller that answers as the test says and remembers what it was asked.
type asked struct {
	requests []*controllerv1.AlterPartitionsRequest
	answer   func(n int, req *controllerv1.AlterPartitionsRequest) (*controllerv1.AlterPartitionsResponse, error)
}

func (a *asked) alter(_ context.Context, req *controllerv1.AlterPartitionsRequest) (*controllerv1.AlterPartitionsResponse, error) {
	a.requests = append(a.requests, req)
	return a.answer(len(a.requests), req)
}

func refusing(code controllerv1.ErrorCode) *controllerv1.AlterPartitionsResponse {
	return &controllerv1.AlterPartitionsResponse{Partitions: []*controllerv1.AlterPartitionResult{{Error: &controllerv1.Error{Code: code, Message: "no"}}}}
}

func granting(req *controllerv1.AlterPartitionsRequest) *controllerv1.AlterPartitionsResponse {
	var out controllerv1.AlterPartitionsResponse
	for _, p := range req.GetPartitions() {
		r := &controllerv1.AlterPartitionResult{LeaderEpoch: p.GetLeaderEpoch(), PartitionEpoch: p.GetPartitionEpoch() + 1}
		for _, m := range p.GetNewIsr() {
			r.Isr = append(r.Isr, m.GetBrokerId())
		}
		out.Partitions = append(out.Partitions, r)
	}
	return &out
}

// propose lets broker 2 become a candidate for the ISR and returns when the proposer has nothing more to do for a
// minute.
func propose(t *testing.T, c *asked) *bench {
	t.Helper()
	m, err := Open(Config{NodeID: 1, Dir: t.TempDir(), BrokerEpoch: func() int64 { return 11 }, Alter: c.alter})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.lead(5, 1)
	f := FetchPartition{ID: testPartition, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 1 << 20}
	_, w := b.read(f, reader{replicaID: 2, replicaEpoch: 12, note: true}, room{bytes: 1 << 20})
	if w == nil {
		t.Fatal("no wish")
	}
	m.proposer.propose(b.Partition, *w)
	time.Sleep(time.Minute)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) isr() (committed []int32, pending bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leader.isr.committed, b.leader.isr.pending()
}

func TestAGrantedWishIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &asked{answer: func(_ int, req *controllerv1.AlterPartitionsRequest) (*controllerv1.AlterPartitionsResponse, error) {
			return granting(req), nil
		}}
		b := propose(t, c)
		if isr, pending := b.isr(); pending || !slices.Equal(isr, []int32{1, 2}) {
			t.Fatalf("ISR %v, pending %v", isr, pending)
		}
		if len(c.requests) != 1 {
			t.Fatalf("asked %d times", len(c.requests))
		}
		got := c.requests[0].GetPartitions()[0].GetNewIsr()
		if got[0].GetBrokerEpoch() != 11 || got[1].GetBrokerEpoch() != 12 {
			t.Fatalf("members %v: the broker epochs are ours and the one of the fetch", got)
		}
	})
}

func TestAnUndecidedWishIsAskedAgainAndCountsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &asked{answer: func(n int, req *controllerv1.AlterPartitionsRequest) (*controllerv1.AlterPartitionsResponse, error) {
			switch n {
			case 1:
				return nil, errors.New("connection reset")
			case 2:
				return refusing(controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER), nil
			case 3:
				return &controllerv1.AlterPartitionsResponse{}, nil
			default:
				return granting(req), nil
			}
		}}
		b := propose(t, c)
		if isr, pending := b.isr(); pending || len(isr) != 2 || len(c.requests) != 4 {
			t.Fatalf("ISR %v, pending %v, asked %d times", isr, pending, len(c.requests))
		}
	})
}

func TestAnIneligibleReplicaIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &asked{answer: func(int, *controllerv1.AlterPartitionsRequest) (*controllerv1.AlterPartitionsResponse, error) {
			return refusing(controllerv1.ErrorCode_ERROR_CODE_INELIGIBLE_REPLICA), nil
		}}
		b := propose(t, c)
		if isr, pending := b.isr(); pending || len(isr) != 1 || len(c.requests) != 1 {
			t.Fatalf("ISR %v, pending %v, asked %d times", isr, pending, len(c.requests))
		}
	})
}

func TestARefusalThatMeansOldMetadataWaitsForTheMetadata(t *testing.T) {
	for _, code := range []controllerv1.ErrorCode{
		controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_ID, controllerv1.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH,
		controllerv1.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION, controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
		controllerv1.ErrorCode_ERROR_CODE_NEW_LEADER_ELECTED,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &asked{answer: func(int, *controllerv1.AlterPartitionsRequest) (*controllerv1.AlterPartitionsResponse, error) {
				return refusing(code), nil
			}}
			b := propose(t, c)
			if _, pending := b.isr(); !pending || len(c.requests) != 1 {
				t.Fatalf("%s: pending %v, asked %d times", code, pending, len(c.requests))
			}
			b.recommit(b.registration(1, 5, 1, 3))
			if isr, pending := b.isr(); pending || !slices.Equal(isr, []int32{1, 3}) {
				t.Fatalf("%s: newer metadata left ISR %v, pending %v", code, isr, pending)
			}
		})
	}
}
