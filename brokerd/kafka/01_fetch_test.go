package kafka

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/brokerd/wire"
)

// fetchOf is a Fetch request of one partition, which names the topic by name and by id.
func fetchOf(topic string, id byte, partition int32, offset int64) *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = topic, uuid(id), []kmsg.FetchRequestTopicPartition{p}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.Topics = 100, 1, []kmsg.FetchRequestTopic{t}
	return req
}

// withRecords appends one batch for each value to foo-0.
func withRecords(t *testing.T, ts *testServer, values ...string) {
	t.Helper()
	for _, v := range values {
		req := produceTo("foo", 0, 1, batchOf(t, recordbatch.BuildOptions{}, v))
		if got := ask[*kmsg.ProduceResponse](t, ts, req, 9).Topics[0].Partitions[0]; got.ErrorCode != 0 {
			t.Fatalf("%+v", got)
		}
	}
}

func TestFetchReads(t *testing.T) {
	eachVersion(t, fetchAPI.served, func(t *testing.T, version int16) {
		ts := newTestServer(t, nil)
		withRecords(t, ts, "a", "b", "c")
		resp := ask[*kmsg.FetchResponse](t, ts, fetchOf("foo", 7, 0, 1), version)
		if resp.ErrorCode != 0 || resp.SessionID != 0 || len(resp.Topics) != 1 {
			t.Fatalf("%+v", resp)
		}
		if version < 13 && resp.Topics[0].Topic != "foo" || version >= 13 && resp.Topics[0].TopicID != uuid(7) {
			t.Fatalf("topic %+v", resp.Topics[0])
		}
		p := resp.Topics[0].Partitions[0]
		h, err := recordbatch.Parse(p.RecordBatches)
		if p.ErrorCode != 0 || p.HighWatermark != 3 || p.LastStableOffset != 3 || err != nil || h.BaseOffset != 1 {
			t.Fatalf("%+v, %v", p, err)
		}
		if p.PreferredReadReplica != -1 || p.AbortedTransactions != nil || p.DivergingEpoch.Epoch != -1 {
			t.Fatalf("%+v", p)
		}
		got := ts.replicas.lastFetch(t)
		if got.ReplicaID != replica.ConsumerReplicaID || got.ReplicaEpoch != -1 || got.MaxWait != 100*time.Millisecond || got.MinBytes != 1 {
			t.Fatalf("asked for %+v", got)
		}
		q := got.Partitions[0]
		if q.Offset != 1 || q.MaxBytes != 1<<20 || q.CurrentLeaderEpoch != -1 || q.LastFetchedEpoch != -1 || q.ID.Topic != uuid(7) {
			t.Fatalf("asked for %+v", q)
		}
	})
}

// TestFetchOfNothingIsEmptyNotNull: librdkafka calls a length of -1 a broken answer.
func TestFetchOfNothingIsEmptyNotNull(t *testing.T) {
	for _, version := range []int16{4, 11, 12} {
		req := fetchOf("foo", 7, 0, 0)
		req.MaxWaitMillis = 0
		req.Topics = append(req.Topics, fetchOf("nope", 9, 0, 0).Topics...)
		resp := ask[*kmsg.FetchResponse](t, newTestServer(t, nil), req, version)
		for _, topic := range resp.Topics {
			if topic.Partitions[0].RecordBatches == nil {
				t.Errorf("version %d: records of %s are null", version, topic.Topic)
			}
		}
	}
}

func TestFetchErrors(t *testing.T) {
	tests := map[string]struct {
		req     *kmsg.FetchRequest
		version int16
		err     error
		want    int16
	}{
		"unknown topic":            {fetchOf("nope", 7, 0, 0), 12, nil, 3},
		"unknown partition":        {fetchOf("foo", 7, 5, 0), 12, nil, 3},
		"unknown topic id":         {fetchOf("foo", 9, 0, 0), 13, nil, 100},
		"unknown partition, by id": {fetchOf("foo", 7, 5, 0), 13, nil, 3},
		"out of range":             {fetchOf("foo", 7, 0, 9), 12, replica.ErrOffsetOutOfRange, 1},
		"not the leader":           {fetchOf("foo", 7, 0, 0), 12, replica.ErrNotLeaderOrFollower, 6},
		"fenced":                   {fetchOf("foo", 7, 0, 0), 12, replica.ErrFencedLeaderEpoch, 74},
		"unknown epoch":            {fetchOf("foo", 7, 0, 0), 12, replica.ErrUnknownLeaderEpoch, 75},
		"disk":                     {fetchOf("foo", 7, 0, 0), 6, replica.ErrStorage, 56},
		"disk, before it had code": {fetchOf("foo", 7, 0, 0), 5, replica.ErrStorage, 6},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ts := newTestServer(t, nil)
			ts.replicas.fetchErr = tt.err
			got := ask[*kmsg.FetchResponse](t, ts, tt.req, tt.version).Topics[0].Partitions[0]
			if got.ErrorCode != tt.want {
				t.Fatalf("error %v, want %v", kerr.ErrorForCode(got.ErrorCode), kerr.ErrorForCode(tt.want))
			}
		})
	}
}

// TestFetchTellsWhoLeads: from version 16 on (KIP-951).
func TestFetchTellsWhoLeads(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.replicas.fetchErr = replica.ErrNotLeaderOrFollower
	for version, want := range map[int16]int32{15: -1, 16: 2} {
		if got := ask[*kmsg.FetchResponse](t, ts, fetchOf("foo", 7, 0, 0), version).Topics[0].Partitions[0].CurrentLeader; got.LeaderID != want {
			t.Errorf("version %d: %+v", version, got)
		}
	}
}

func TestFetchIsolation(t *testing.T) {
	ts := newTestServer(t, nil)
	req := fetchOf("foo", 7, 0, 0)
	req.IsolationLevel, req.MaxWaitMillis = 1, 0
	got := ask[*kmsg.FetchResponse](t, ts, req, 12).Topics[0].Partitions[0]
	if !ts.replicas.lastFetch(t).ReadCommitted || got.AbortedTransactions == nil {
		t.Fatalf("%+v", got)
	}
}

// TestFollowersSayWhichIncarnationTheyAre: a fetch that raises the high watermark names its broker epoch (I19).
func TestFollowersSayWhichIncarnationTheyAre(t *testing.T) {
	ts := newTestServer(t, nil)
	ts.replicas.fetch = func(_ context.Context, req replica.FetchRequest) []replica.FetchResult {
		return []replica.FetchResult{{ID: req.Partitions[0].ID, Records: []byte{}, Diverging: &replica.EpochEnd{Epoch: 3, EndOffset: 17}}}
	}
	req := fetchOf("", 7, 0, 40)
	req.ReplicaState.ID, req.ReplicaState.Epoch = 2, 1234
	req.Topics[0].Partitions[0].LastFetchedEpoch, req.Topics[0].Partitions[0].CurrentLeaderEpoch = 4, 5
	req.Topics[0].Partitions[0].LogStartOffset = 30
	got := ask[*kmsg.FetchResponse](t, ts, req, wire.ReplicaFetchVersion).Topics[0].Partitions[0]
	if got.ErrorCode != 0 || got.DivergingEpoch.Epoch != 3 || got.DivergingEpoch.EndOffset != 17 {
		t.Fatalf("%+v", got)
	}
	asked := ts.replicas.lastFetch(t)
	if p := asked.Partitions[0]; asked.ReplicaID != 2 || asked.ReplicaEpoch != 1234 || p.LastFetchedEpoch != 4 || p.CurrentLeaderEpoch != 5 || p.LogStartOffset != 30 {
		t.Fatalf("asked for %+v", asked)
	}

	old := fetchOf("foo", 7, 0, 40)
	old.ReplicaID = 2
	if resp := ask[*kmsg.FetchResponse](t, ts, old, 12); resp.ErrorCode != kerr.InvalidRequest.Code || resp.Topics[0].Partitions[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Fatalf("a follower without broker epoch: %+v", resp)
	}
	req.ReplicaState.Epoch = -1
	if resp := ask[*kmsg.FetchResponse](t, ts, req, 15); resp.ErrorCode != kerr.InvalidRequest.Code {
		t.Fatalf("a follower with broker epoch -1: %+v", resp)
	}
	debug := fetchOf("foo", 7, 0, 40)
	debug.ReplicaID = -2
	ask[*kmsg.FetchResponse](t, ts, debug, 12)
	if got := ts.replicas.lastFetch(t).ReplicaID; got != replica.ConsumerReplicaID {
		t.Fatalf("the debugging consumer is replica %d", got)
	}
}

func TestFetchHasNoSessions(t *testing.T) {
	for epoch, want := range map[int32]int16{-1: 0, 0: 0, 1: kerr.FetchSessionIDNotFound.Code} {
		req := fetchOf("foo", 7, 0, 0)
		req.SessionID, req.SessionEpoch, req.MaxWaitMillis = 5, epoch, 0
		if resp := ask[*kmsg.FetchResponse](t, newTestServer(t, nil), req, 12); resp.ErrorCode != want || resp.SessionID != 0 {
			t.Errorf("session epoch %d: error %d, session %d", epoch, resp.ErrorCode, resp.SessionID)
		}
	}
}

func TestFetchOfZstdByOldClients(t *testing.T) {
	ts := newTestServer(t, nil)
	ask[*kmsg.ProduceResponse](t, ts, produceTo("foo", 0, 1, batchOf(t, recordbatch.BuildOptions{}, "a")), 9)
	ask[*kmsg.ProduceResponse](t, ts, produceTo("foo", 0, 1, batchOf(t, recordbatch.BuildOptions{Codec: recordbatch.CodecZstd}, "b")), 9)
	for version, want := range map[int16]int16{9: 76, 10: 0} {
		if got := ask[*kmsg.FetchResponse](t, ts, fetchOf("foo", 7, 0, 0), version).Topics[0].Partitions[0]; got.ErrorCode != want || (len(got.RecordBatches) > 0) != (want == 0) {
			t.Errorf("version %d: error %d with %d bytes", version, got.ErrorCode, len(got.RecordBatches))
		}
	}
}

func TestFetchBoundsWhatClientsAskFor(t *testing.T) {
	ts := newTestServer(t, func(c *Config) { c.Limits.FetchBytesMax = 1000 })
	req := fetchOf("foo", 7, 0, 0)
	req.MaxBytes, req.MinBytes, req.MaxWaitMillis = 1<<31-1, 1<<31-1, -5
	req.Topics[0].Partitions[0].PartitionMaxBytes = -1
	ask[*kmsg.FetchResponse](t, ts, req, 12)
	got := ts.replicas.lastFetch(t)
	if got.MaxBytes != 1000 || got.MinBytes != 1000 || got.MaxWait != 0 || got.Partitions[0].MaxBytes != 0 {
		t.Fatalf("asked for %+v", got)
	}
}

// TestFetchParks: a long poll ends with the first records, and not before.
func TestFetchParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, nil)
		consumer, producer := ts.conn(t), ts.conn(t)
		go func() {
			time.Sleep(3 * time.Second)
			req := produceTo("foo", 0, 1, batchOf(t, recordbatch.BuildOptions{}, "a"))
			req.SetVersion(9)
			if _, err := producer.Request(t.Context(), req); err != nil {
				t.Error(err)
			}
		}()
		req := fetchOf("foo", 7, 0, 0)
		req.MaxWaitMillis = 10_000
		req.SetVersion(12)
		start := time.Now()
		resp, err := consumer.Request(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(got.RecordBatches) == 0 || time.Since(start) != 3*time.Second {
			t.Fatalf("%d bytes after %s", len(got.RecordBatches), time.Since(start))
		}
		start = time.Now()
		req.Topics[0].Partitions[0].FetchOffset = 1
		if _, err := consumer.Request(t.Context(), req); err != nil || time.Since(start) != 10*time.Second {
			t.Fatalf("%v after %s", err, time.Since(start))
		}
	})
}

// TestConsumerThatLeavesEndsItsWait: a parked fetch does not outlive its client.
func TestConsumerThatLeavesEndsItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, nil)
		ended := make(chan struct{})
		ts.replicas.fetch = func(ctx context.Context, _ replica.FetchRequest) []replica.FetchResult {
			defer close(ended)
			<-ctx.Done()
			return nil
		}
		c := ts.pipe("PLAINTEXT")
		req := fetchOf("foo", 7, 0, 0)
		req.MaxWaitMillis = 3_600_000
		req.SetVersion(12)
		if _, err := c.Write(wire.FormatRequest(req, "c", 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		select {
		case <-ended:
			t.Fatal("the fetch ended while its client was there")
		default:
		}
		_ = c.Close()
		<-ended
	})
}

// TestWatchingDoesNotEatTheNextRequest: while a fetch is parked, a second request may arrive.
func TestWatchingDoesNotEatTheNextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, nil)
		c := ts.pipe("PLAINTEXT")
		req := fetchOf("foo", 7, 0, 0)
		req.MaxWaitMillis = 5_000
		req.SetVersion(12)
		if _, err := c.Write(wire.FormatRequest(req, "c", 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		go func() { _, _ = c.Write(rawRequest(18, 0, 2, "c", nil)) }()
		resp := kmsg.NewPtrFetchResponse()
		resp.SetVersion(12)
		readRaw(t, c, resp, 1)
		readRaw(t, c, kmsg.NewPtrApiVersionsResponse(), 2)
		_ = c.Close()
	})
}

func TestFetchHandsOutManyBytesWhole(t *testing.T) {
	ts := newTestServer(t, nil)
	var want []byte
	ts.replicas.fetch = func(_ context.Context, req replica.FetchRequest) []replica.FetchResult {
		return []replica.FetchResult{{ID: req.Partitions[0].ID, Records: want}}
	}
	for _, n := range []int{1, 4 << 10, 5 << 20} {
		want = bytes.Repeat([]byte{byte(n), 1, 2, 3}, n/4+1)
		got := ask[*kmsg.FetchResponse](t, ts, fetchOf("foo", 7, 0, 0), 12).Topics[0].Partitions[0].RecordBatches
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes arrived of %d", len(got), len(want))
		}
	}
}
