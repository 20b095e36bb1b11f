package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/brokerd/wire"
)

// produceTo is a Produce request of one partition.
func produceTo(topic string, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topic, []kmsg.ProduceRequestTopicPartition{p}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis, req.Topics = acks, 1_000, []kmsg.ProduceRequestTopic{t}
	return req
}

func TestProduceAppends(t *testing.T) {
	eachVersion(t, produceAPI.served, func(t *testing.T, version int16) {
		for _, acks := range []int16{1, -1} {
			ts := newTestServer(t, nil)
			c := ts.conn(t)
			for _, want := range []int64{0, 2} {
				req := produceTo("foo", 0, acks, batchOf(t, recordbatch.BuildOptions{}, "a", "b"))
				req.SetVersion(version)
				resp, err := c.Request(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				got := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
				if got.ErrorCode != 0 || got.BaseOffset != want || got.LogAppendTime != -1 {
					t.Fatalf("acks %d: %+v", acks, got)
				}
				if version >= 5 && got.LogStartOffset != 0 {
					t.Fatalf("log start offset %d", got.LogStartOffset)
				}
			}
			if o := ts.replicas.options[0]; o.Acks != acks || o.LeaderEpoch != -1 {
				t.Fatalf("appended with %+v", o)
			}
		}
	})
}

func TestProduceRefuses(t *testing.T) {
	good := batchOf(t, recordbatch.BuildOptions{}, "a")
	corrupt := batchOf(t, recordbatch.BuildOptions{}, "a")
	corrupt[len(corrupt)-1] ^= 1
	magic1 := batchOf(t, recordbatch.BuildOptions{}, "a")
	magic1[16] = 1
	transactional := batchOf(t, recordbatch.BuildOptions{Attributes: recordbatch.AttrTransactional, Producer: &recordbatch.Producer{ID: 1}}, "a")
	zstd := batchOf(t, recordbatch.BuildOptions{Codec: recordbatch.CodecZstd}, "a")
	tests := map[string]struct {
		req     *kmsg.ProduceRequest
		version int16
		fail    error
		want    int16
	}{
		"unknown topic":           {produceTo("nope", 0, 1, good), 9, nil, 3},
		"unknown partition":       {produceTo("foo", 2, 1, good), 9, nil, 3},
		"negative partition":      {produceTo("foo", -1, 1, good), 9, nil, 3},
		"internal topic":          {produceTo("__consumer_offsets", 0, 1, good), 9, nil, 17},
		"acks of 2":               {produceTo("foo", 0, 2, good), 9, nil, 21},
		"acks of -2":              {produceTo("foo", 0, -2, good), 9, nil, 21},
		"no records":              {produceTo("foo", 0, 1, nil), 9, nil, 87},
		"no header":               {produceTo("foo", 0, 1, []byte{1, 2, 3}), 9, nil, 2},
		"two batches":             {produceTo("foo", 0, 1, append(append([]byte{}, good...), good...)), 9, nil, 87},
		"corrupt":                 {produceTo("foo", 0, 1, corrupt), 9, nil, 2},
		"an old message format":   {produceTo("foo", 0, 1, magic1), 9, nil, 87},
		"zstd too early":          {produceTo("foo", 0, 1, zstd), 6, nil, 76},
		"zstd":                    {produceTo("foo", 0, 1, zstd), 7, nil, 0},
		"transactional batch":     {produceTo("foo", 0, 1, transactional), 9, nil, 53},
		"not the leader":          {produceTo("foo", 0, 1, good), 9, replica.ErrNotLeaderOrFollower, 6},
		"too few in sync":         {produceTo("foo", 0, -1, good), 9, replica.ErrNotEnoughReplicas, 19},
		"sequence gap":            {produceTo("foo", 0, -1, good), 9, fmt.Errorf("append: %w", partlog.ErrOutOfOrderSequence), 45},
		"old producer epoch":      {produceTo("foo", 0, -1, good), 9, partlog.ErrInvalidProducerEpoch, 47},
		"too large for the topic": {produceTo("foo", 0, -1, good), 9, recordbatch.ErrTooLarge, 10},
		"disk":                    {produceTo("foo", 0, -1, good), 9, replica.ErrStorage, 56},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ts := newTestServer(t, nil)
			p := testPartition{replicas: []int32{1}, isr: []int32{1}, leader: 1}
			ts.setImage(withTopic(t, ts.image(), "__consumer_offsets", 9, p))
			ts.replicas.appendErr = tt.fail
			got := ask[*kmsg.ProduceResponse](t, ts, tt.req, tt.version).Topics[0].Partitions[0]
			if got.ErrorCode != tt.want {
				t.Fatalf("error %v, want %v", kerr.ErrorForCode(got.ErrorCode), kerr.ErrorForCode(tt.want))
			}
			if tt.want != 0 && got.BaseOffset != -1 {
				t.Fatalf("base offset %d beside an error", got.BaseOffset)
			}
		})
	}
}

func TestProduceJudgesEachPartitionAlone(t *testing.T) {
	ts := newTestServer(t, nil)
	req := produceTo("foo", 0, 1, batchOf(t, recordbatch.BuildOptions{}, "a"))
	bad := kmsg.NewProduceRequestTopicPartition()
	bad.Partition, bad.Records = 1, []byte{0}
	req.Topics[0].Partitions = append([]kmsg.ProduceRequestTopicPartition{bad}, req.Topics[0].Partitions...)
	req.Topics = append(req.Topics, produceTo("nope", 0, 1, nil).Topics...)
	resp := ask[*kmsg.ProduceResponse](t, ts, req, 9)
	first, second, third := resp.Topics[0].Partitions[0], resp.Topics[0].Partitions[1], resp.Topics[1].Partitions[0]
	if first.Partition != 1 || first.ErrorCode != 2 || second.Partition != 0 || second.ErrorCode != 0 || third.ErrorCode != 3 {
		t.Fatalf("%+v", resp.Topics)
	}
}

func TestProduceOfATransactionIsRefused(t *testing.T) {
	req := produceTo("foo", 0, -1, batchOf(t, recordbatch.BuildOptions{}, "a"))
	req.TransactionID = kmsg.StringPtr("tx")
	got := ask[*kmsg.ProduceResponse](t, newTestServer(t, nil), req, 9).Topics[0].Partitions[0]
	if got.ErrorCode != kerr.TransactionalIDAuthorizationFailed.Code || got.ErrorMessage == nil || *got.ErrorMessage != transactionsRefused {
		t.Fatalf("%+v", got)
	}
}

func TestProduceAllWaitsForTheISR(t *testing.T) {
	tests := map[string]struct {
		err  error
		want int16
	}{
		"replicated":         {nil, 0},
		"shrank":             {replica.ErrNotEnoughReplicasAfterAppend, 20},
		"timed out":          {replica.ErrRequestTimedOut, 7},
		"context's deadline": {context.DeadlineExceeded, 7},
		"leadership lost":    {replica.ErrNotLeaderOrFollower, 6},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ts := newTestServer(t, nil)
			ts.replicas.await = func(ctx context.Context, appended []replica.Appended) []error {
				deadline, ok := ctx.Deadline()
				if left := time.Until(deadline); !ok || left > time.Second || len(appended) != 1 {
					t.Errorf("waits %s for %v", left, appended)
				}
				return []error{tt.err}
			}
			req := produceTo("foo", 0, -1, batchOf(t, recordbatch.BuildOptions{}, "a"))
			req.Topics = append(req.Topics, produceTo("nope", 0, -1, nil).Topics...)
			resp := ask[*kmsg.ProduceResponse](t, ts, req, 9)
			if got := resp.Topics[0].Partitions[0]; got.ErrorCode != tt.want || got.BaseOffset != 0 {
				t.Fatalf("%+v", got)
			}
			if got := resp.Topics[1].Partitions[0].ErrorCode; got != 3 {
				t.Fatalf("the partition that was not appended has error %d", got)
			}
		})
	}
}

// TestProduceWithoutAcksIsNotAnswered, and an error ends the connection.
func TestProduceWithoutAcksIsNotAnswered(t *testing.T) {
	ts := newTestServer(t, nil)
	c := ts.pipe("PLAINTEXT")
	send := func(topic string, correlationID int32) {
		req := produceTo(topic, 0, 0, batchOf(t, recordbatch.BuildOptions{}, "a"))
		req.SetVersion(9)
		if _, err := c.Write(wire.FormatRequest(req, "c", correlationID)); err != nil {
			t.Fatal(err)
		}
	}
	send("foo", 1)
	writeRaw(t, c, 18, 0, 2, "c", nil)
	readRaw(t, c, kmsg.NewPtrApiVersionsResponse(), 2) // the first answer is that of the second request
	send("nope", 3)
	if _, err := wire.ReadFrame(c, 1<<20); !errors.Is(err, io.EOF) {
		t.Fatalf("after an error: %v", err)
	}
}

// TestOldProduceEndsTheConnection: versions 0 to 2 are advertised for old clients' sake and not served, as in Kafka 4.
func TestOldProduceEndsTheConnection(t *testing.T) {
	ts := newTestServer(t, nil)
	for version := range int16(3) {
		c := ts.pipe("PLAINTEXT")
		writeRaw(t, c, 0, version, 1, "ancient", []byte{0, 1, 0, 0, 0, 1, 0, 0, 0, 0})
		if _, err := wire.ReadFrame(c, 1<<20); !errors.Is(err, io.EOF) {
			t.Fatalf("version %d: %v", version, err)
		}
	}
}

// TestProducerThatLeavesEndsItsWait: nobody waits for the ISR on behalf of a client that is gone.
func TestProducerThatLeavesEndsItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, nil)
		ended := make(chan error, 1)
		ts.replicas.await = func(ctx context.Context, _ []replica.Appended) []error {
			<-ctx.Done()
			ended <- ctx.Err()
			return []error{ctx.Err()}
		}
		c := ts.pipe("PLAINTEXT")
		req := produceTo("foo", 0, -1, batchOf(t, recordbatch.BuildOptions{}, "a"))
		req.TimeoutMillis = 3_600_000
		req.SetVersion(9)
		if _, err := c.Write(wire.FormatRequest(req, "c", 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // long enough to be parked, and watched
		_ = c.Close()
		start := time.Now()
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(start) > time.Second {
			t.Fatalf("ended with %v after %s", err, time.Since(start))
		}
	})
}

// TestPipelinedProducesAreAnsweredInOrder: answers leave in the order of the requests (I18), and records arrive in it.
func TestPipelinedProducesAreAnsweredInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, nil)
		delay := 5 * time.Second
		ts.replicas.await = func(_ context.Context, a []replica.Appended) []error {
			time.Sleep(delay) // the first ones take longest
			delay -= time.Second
			return make([]error, len(a))
		}
		c := ts.pipe("PLAINTEXT")
		go func() {
			var all []byte
			for i := range int32(5) {
				req := produceTo("foo", 0, -1, batchOf(t, recordbatch.BuildOptions{}, fmt.Sprint(i)))
				req.TimeoutMillis = 60_000
				req.SetVersion(9)
				all = append(all, wire.FormatRequest(req, "c", i)...)
			}
			_, _ = c.Write(all)
		}()
		for i := range int32(5) {
			resp := kmsg.NewPtrProduceResponse()
			resp.SetVersion(9)
			readRaw(t, c, resp, i)
			if got := resp.Topics[0].Partitions[0]; got.ErrorCode != 0 || got.BaseOffset != int64(i) {
				t.Fatalf("answer %d: %+v", i, got)
			}
		}
		_ = c.Close()
	})
}

// TestProducersDoNotShareBytes: the buffers of requests are used again, but never while a handler looks at them.
func TestProducersDoNotShareBytes(t *testing.T) {
	ts := newTestServer(t, nil)
	var done sync.WaitGroup
	for i, size := range []int{10, 100, 70_000, 80_000, 1_000, 500_000} {
		c := ts.conn(t)
		done.Go(func() {
			for range 20 {
				req := produceTo("foo", int32(i%2), 1, batchOf(t, recordbatch.BuildOptions{}, strings.Repeat(fmt.Sprint(i), size)))
				req.SetVersion(9)
				resp, err := c.Request(context.Background(), req)
				if err != nil || resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode != 0 { // a checksum that does not fit is error 2
					t.Errorf("%+v, %v", resp, err)
					return
				}
			}
		})
	}
	done.Wait()
}

func TestProduceBeforeTheFirstImageEndsTheConnection(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.mu.Lock()
	ts.img = nil
	ts.mu.Unlock()
	req := produceTo("foo", 0, 1, nil)
	req.SetVersion(9)
	if _, err := ts.conn(t).Request(t.Context(), req); err == nil {
		t.Fatal("answered without metadata")
	}
	waitFor(t, func() bool { return strings.Contains(strings.Join(ts.logged.all(), ""), "no metadata yet") })
}

// waitFor waits for a condition.
func waitFor(tb testing.TB, ok func() bool) {
	tb.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			tb.Fatal("condition not met in 10 s")
		}
		<-time.After(time.Millisecond)
	}
}
