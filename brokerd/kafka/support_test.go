package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/brokerd/wire"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// uuid returns a uuid that is all b.
func uuid(b byte) fsm.UUID {
	var u fsm.UUID
	for i := range u {
		u[i] = b
	}
	return u
}

// emptyImage is a cluster without brokers.
func emptyImage(tb testing.TB) *fsm.Image {
	tb.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId:          uuid(0xc1).String(),
		Lineage:            &metadatav1.LineageID{Number: 1, Uuid: uuid(1).Bytes()},
		NextMetadataOffset: 1,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return img
}

// testBroker describes a broker to register.
type testBroker struct {
	id        int32
	fenced    bool
	rack      string
	listeners []*metadatav1.Listener
}

// listenerAt is a listener with an address of its own.
func listenerAt(name, host string, port uint32) *metadatav1.Listener {
	return &metadatav1.Listener{Name: name, Host: host, Port: port}
}

// withBrokers registers brokers.
func withBrokers(tb testing.TB, img *fsm.Image, brokers ...testBroker) *fsm.Image {
	tb.Helper()
	for _, b := range brokers {
		reg := &metadatav1.RegisterBroker{
			BrokerId: b.id, IncarnationId: uuid(byte(b.id)).Bytes(), BrokerEpoch: img.NextOffset(), Fenced: true, Listeners: b.listeners,
		}
		if b.rack != "" {
			reg.Rack = &b.rack
		}
		records := []*metadatav1.Record{{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: reg}}}
		if !b.fenced {
			unfenced := false
			records = append(records, &metadatav1.Record{Kind: &metadatav1.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatav1.BrokerRegistrationChange{
				BrokerId: b.id, BrokerEpoch: img.NextOffset(), Fenced: &unfenced,
			}}})
		}
		img = fold(tb, img, records)
	}
	return img
}

// testPartition describes a partition to create.
type testPartition struct {
	replicas, isr []int32
	leader        int32
}

// withTopic creates a topic whose id is uuid(id).
func withTopic(tb testing.TB, img *fsm.Image, name string, id byte, partitions ...testPartition) *fsm.Image {
	tb.Helper()
	records := []*metadatav1.Record{{Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{Name: name, TopicId: uuid(id).Bytes()}}}}
	for i, p := range partitions {
		records = append(records, &metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{
			TopicId: uuid(id).Bytes(), PartitionId: int32(i), Replicas: p.replicas, Isr: p.isr, Leader: p.leader,
		}}})
	}
	return fold(tb, img, records)
}

// withoutTopic deletes a topic.
func withoutTopic(tb testing.TB, img *fsm.Image, id fsm.UUID) *fsm.Image {
	tb.Helper()
	return fold(tb, img, []*metadatav1.Record{{Kind: &metadatav1.Record_RemoveTopic{RemoveTopic: &metadatav1.RemoveTopic{TopicId: id.Bytes()}}}})
}

// fold applies records to an image.
func fold(tb testing.TB, img *fsm.Image, records []*metadatav1.Record) *fsm.Image {
	tb.Helper()
	next, _, err := fsm.FoldBatches(img, []*metadatav1.Batch{{TimeMs: 1, Records: records}}, 1)
	if err != nil {
		tb.Fatal(err)
	}
	return next
}

// fakeReplicas holds partitions in memory; all are led here. The fields that are functions replace the behaviour of one method.
type fakeReplicas struct {
	appendErr  error
	awaitErr   error
	fetchErr   error
	fetch      func(ctx context.Context, req replica.FetchRequest) []replica.FetchResult
	await      func(ctx context.Context, appended []replica.Appended) []error
	listOffset func(id fsm.PartitionID, q replica.ListOffsetQuery) (replica.ListOffsetResult, error)
	epochEnd   func(id fsm.PartitionID, current, epoch int32) (replica.EpochEnd, error)

	mu      sync.Mutex
	logs    map[fsm.PartitionID]*fakeLog
	grown   chan struct{} // closed and replaced by each append
	fetches []replica.FetchRequest
	options []replica.AppendOptions
}

// fakeLog is a log of whole batches.
type fakeLog struct {
	batches [][]byte
	end     int64
}

func newFakeReplicas() *fakeReplicas {
	return &fakeReplicas{logs: map[fsm.PartitionID]*fakeLog{}, grown: make(chan struct{})}
}

func (f *fakeReplicas) log(id fsm.PartitionID) *fakeLog {
	if f.logs[id] == nil {
		f.logs[id] = &fakeLog{}
	}
	return f.logs[id]
}

func (f *fakeReplicas) Append(id fsm.PartitionID, records []byte, o replica.AppendOptions) (replica.Appended, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.options = append(f.options, o)
	if f.appendErr != nil {
		return replica.Appended{}, f.appendErr
	}
	h, err := recordbatch.Validate(records, recordbatch.Limits{MaxBytes: 1 << 20})
	if err != nil {
		return replica.Appended{}, err
	}
	l := f.log(id)
	batch := slices.Clone(records)
	binary.BigEndian.PutUint64(batch, uint64(l.end))
	a := replica.Appended{ID: id, BaseOffset: l.end, LastOffset: l.end + int64(h.LastOffsetDelta), LogAppendTimeMs: -1}
	l.batches = append(l.batches, batch)
	l.end = a.LastOffset + 1
	close(f.grown)
	f.grown = make(chan struct{})
	return a, nil
}

func (f *fakeReplicas) AwaitReplicated(ctx context.Context, appended []replica.Appended) []error {
	if f.await != nil {
		return f.await(ctx, appended)
	}
	errs := make([]error, len(appended))
	for i := range errs {
		errs[i] = f.awaitErr
	}
	return errs
}

func (f *fakeReplicas) Fetch(ctx context.Context, req replica.FetchRequest) []replica.FetchResult {
	f.mu.Lock()
	f.fetches = append(f.fetches, req)
	f.mu.Unlock()
	if f.fetch != nil {
		return f.fetch(ctx, req)
	}
	ctx, cancel := context.WithTimeout(ctx, req.MaxWait)
	defer cancel()
	for {
		results, n, grown := f.read(req)
		if n >= req.MinBytes || f.fetchErr != nil {
			return results
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return results
		}
	}
}

// read reads once.
func (f *fakeReplicas) read(req replica.FetchRequest) (results []replica.FetchResult, n int, grown chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range req.Partitions {
		l := f.log(p.ID)
		r := replica.FetchResult{ID: p.ID, Err: f.fetchErr, HighWatermark: l.end, LastStableOffset: l.end, Records: []byte{}, LeaderID: 2, LeaderEpoch: 5}
		for _, batch := range l.batches {
			h, _ := recordbatch.Parse(batch)
			if h.LastOffset() >= p.Offset && (n == 0 || n+len(batch) <= req.MaxBytes) && f.fetchErr == nil {
				r.Records = append(r.Records, batch...)
				n += len(batch)
			}
		}
		results = append(results, r)
	}
	return results, n, f.grown
}

func (f *fakeReplicas) ListOffset(id fsm.PartitionID, q replica.ListOffsetQuery) (replica.ListOffsetResult, error) {
	if f.listOffset != nil {
		return f.listOffset(id, q)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.Timestamp == replica.TimestampEarliest {
		return replica.ListOffsetResult{Offset: 0, Timestamp: -1}, nil
	}
	return replica.ListOffsetResult{Offset: f.log(id).end, Timestamp: -1}, nil
}

func (f *fakeReplicas) EpochEnd(id fsm.PartitionID, current, epoch int32) (replica.EpochEnd, error) {
	if f.epochEnd != nil {
		return f.epochEnd(id, current, epoch)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return replica.EpochEnd{Epoch: epoch, EndOffset: f.log(id).end}, nil
}

// lastFetch returns the newest fetch.
func (f *fakeReplicas) lastFetch(tb testing.TB) replica.FetchRequest {
	tb.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.fetches) == 0 {
		tb.Fatal("nothing was fetched")
	}
	return f.fetches[len(f.fetches)-1]
}

// fakeController answers with what the test says.
type fakeController struct {
	create  func(context.Context, *controllerv1.CreateTopicsRequest) (*controllerv1.CreateTopicsResponse, error)
	remove  func(context.Context, *controllerv1.DeleteTopicsRequest) (*controllerv1.DeleteTopicsResponse, error)
	reserve func(context.Context, *controllerv1.ReserveProducerIDsRequest) (*controllerv1.ReserveProducerIDsResponse, error)
	fakeAdmin
}

func (f *fakeController) CreateTopics(ctx context.Context, req *controllerv1.CreateTopicsRequest) (*controllerv1.CreateTopicsResponse, error) {
	return f.create(ctx, req)
}

func (f *fakeController) DeleteTopics(ctx context.Context, req *controllerv1.DeleteTopicsRequest) (*controllerv1.DeleteTopicsResponse, error) {
	return f.remove(ctx, req)
}

func (f *fakeController) ReserveProducerIDs(ctx context.Context, req *controllerv1.ReserveProducerIDsRequest) (*controllerv1.ReserveProducerIDsResponse, error) {
	return f.reserve(ctx, req)
}

// testServer is a server among fakes. Change the fakes before the first request.
type testServer struct {
	*Server
	replicas   *fakeReplicas
	controller *fakeController
	logged     *logBuffer

	mu    sync.Mutex
	img   *fsm.Image
	moved chan struct{} // closed and replaced with each image
}

// setImage publishes an image.
func (ts *testServer) setImage(img *fsm.Image) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.img = img
	close(ts.moved)
	ts.moved = make(chan struct{})
}

func (ts *testServer) image() *fsm.Image {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.img
}

// await is Config.Await.
func (ts *testServer) await(ctx context.Context, offset int64) error {
	for {
		ts.mu.Lock()
		applied, moved := ts.img.AppliedOffset(), ts.moved
		ts.mu.Unlock()
		if applied >= offset {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// logBuffer collects the log.
type logBuffer struct {
	mu    sync.Mutex
	lines []string
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(p))
	return len(p), nil
}

func (b *logBuffer) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines)
}

// newTestServer returns a server of broker 1 on an image with brokers 1 and 2 and topic "foo" (id uuid(7)) of two partitions.
// change may alter its config.
func newTestServer(tb testing.TB, change func(*Config)) *testServer {
	tb.Helper()
	ts := &testServer{replicas: newFakeReplicas(), controller: &fakeController{}, logged: &logBuffer{}, moved: make(chan struct{})}
	ts.img = withTopic(tb, withBrokers(tb, emptyImage(tb),
		testBroker{id: 1, rack: "a", listeners: []*metadatav1.Listener{listenerAt("PLAINTEXT", "one.example", 9092), listenerAt("INSIDE", "one.inside", 19092)}},
		testBroker{id: 2, listeners: []*metadatav1.Listener{listenerAt("PLAINTEXT", "two.example", 9192), listenerAt("INSIDE", "two.inside", 19192)}},
	), "foo", 7,
		testPartition{replicas: []int32{1, 2}, isr: []int32{1, 2}, leader: 1},
		testPartition{replicas: []int32{2, 1}, isr: []int32{2}, leader: 2},
	)
	config := Config{
		NodeID:      1,
		BrokerEpoch: func() int64 { return 1 },
		Image:       ts.image,
		Await:       ts.await,
		Replicas:    ts.replicas,
		Controller:  ts.controller,
		Logger:      hclog.New(&hclog.LoggerOptions{Output: ts.logged, Level: hclog.Info}),
	}
	if change != nil {
		change(&config)
	}
	var err error
	if ts.Server, err = New(config); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // cut off what a test left in flight
		_ = ts.Shutdown(ctx)
	})
	return ts
}

// pipe returns the client's end of a connection to the server.
func (ts *testServer) pipe(listener string) net.Conn {
	client, server := net.Pipe()
	ts.start(server, listener)
	return client
}

// conn returns a client on listener PLAINTEXT.
func (ts *testServer) conn(tb testing.TB) *wire.Conn {
	tb.Helper()
	c := wire.NewConn(ts.pipe("PLAINTEXT"), wire.Options{ClientID: "tester", Timeout: time.Minute})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a request on a new connection and returns its answer.
func ask[R kmsg.Response](tb testing.TB, ts *testServer, req kmsg.Request, version int16) R {
	tb.Helper()
	req.SetVersion(version)
	resp, err := ts.conn(tb).Request(context.Background(), req)
	if err != nil {
		tb.Fatal(err)
	}
	return resp.(R)
}

// batchOf builds a record batch of values.
func batchOf(tb testing.TB, o recordbatch.BuildOptions, values ...string) []byte {
	tb.Helper()
	var records []recordbatch.Record
	for i, v := range values {
		records = append(records, recordbatch.Record{TimestampMs: int64(1000 + i), Value: []byte(v)})
	}
	b, err := recordbatch.Build(records, o)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// eachVersion runs f as a subtest for each version in the range.
func eachVersion(t *testing.T, r wire.VersionRange, f func(t *testing.T, version int16)) {
	t.Helper()
	for v := r.Min; v <= r.Max; v++ {
		t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) { f(t, v) })
	}
}

// refuseDelete is a controller that deletes nothing.
func refuseDelete(context.Context, *controllerv1.DeleteTopicsRequest) (*controllerv1.DeleteTopicsResponse, error) {
	return nil, context.DeadlineExceeded
}

// refuseReserve is a controller that gives no producer ids.
func refuseReserve(context.Context, *controllerv1.ReserveProducerIDsRequest) (*controllerv1.ReserveProducerIDsResponse, error) {
	return nil, context.DeadlineExceeded
}

// interruptReads begins to drain, so that connections that wait for more bytes end.
func (ts *testServer) interruptReads() { ts.stopAccepting() }
