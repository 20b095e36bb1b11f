package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// singleBroker is a server on a loopback port whose image says so: one broker, which leads all that the controller creates.
func singleBroker(t *testing.T, change func(*Config)) (*testServer, string) {
	t.Helper()
	ts := newTestServer(t, change)
	address := ts.listen(t)
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	ts.setImage(withBrokers(t, emptyImage(t), testBroker{id: 1, listeners: []*metadatav1.Listener{listenerAt("PLAINTEXT", host, uint32(port))}}))
	next := int64(1000)
	ts.controller.reserve = func(context.Context, *controllerv1.ReserveProducerIDsRequest) (*controllerv1.ReserveProducerIDsResponse, error) {
		next += 1000
		return &controllerv1.ReserveProducerIDsResponse{FirstProducerId: next, Count: 1000}, nil
	}
	ts.controller.create = func(_ context.Context, req *controllerv1.CreateTopicsRequest) (*controllerv1.CreateTopicsResponse, error) {
		resp := &controllerv1.CreateTopicsResponse{}
		for _, topic := range req.GetTopics() {
			resp.Topics = append(resp.Topics, ts.createHere(t, topic))
		}
		resp.MetadataOffset = ts.image().AppliedOffset()
		return resp, nil
	}
	ts.controller.remove = func(_ context.Context, req *controllerv1.DeleteTopicsRequest) (*controllerv1.DeleteTopicsResponse, error) {
		resp := &controllerv1.DeleteTopicsResponse{}
		for _, topic := range req.GetTopics() {
			if found, ok := ts.image().TopicByName(topic.GetName()); ok {
				ts.setImage(withoutTopic(t, ts.image(), found.ID()))
			}
			resp.Topics = append(resp.Topics, &controllerv1.DeleteTopicResult{Name: topic.GetName()})
		}
		resp.MetadataOffset = ts.image().AppliedOffset()
		return resp, nil
	}
	return ts, address
}

// createHere creates a topic that broker 1 leads.
func (ts *testServer) createHere(t *testing.T, topic *controllerv1.CreatableTopic) *controllerv1.CreateTopicResult {
	img := ts.image()
	if _, exists := img.TopicByName(topic.GetName()); exists {
		return &controllerv1.CreateTopicResult{Name: topic.GetName(), Error: &controllerv1.Error{Code: controllerv1.ErrorCode_ERROR_CODE_TOPIC_ALREADY_EXISTS}}
	}
	partitions := make([]testPartition, max(topic.GetNumPartitions(), 1))
	for i := range partitions {
		partitions[i] = testPartition{replicas: []int32{1}, isr: []int32{1}, leader: 1}
	}
	id := byte(img.NextOffset())
	ts.setImage(withTopic(t, img, topic.GetName(), id, partitions...))
	return &controllerv1.CreateTopicResult{Name: topic.GetName(), TopicId: uuid(id).Bytes(), NumPartitions: int32(len(partitions)), ReplicationFactor: 1}
}

// kgoClient is a kgo client of the server.
func kgoClient(t *testing.T, address string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(address), kgo.RequestRetries(20), kgo.MetadataMinAge(50 * time.Millisecond), kgo.RecordDeliveryTimeout(30 * time.Second)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// TestKgoProducesAndConsumes: a real client negotiates from a version that we do not know, creates its topic by asking for it, produces
// idempotently with each codec, and reads back what it wrote.
func TestKgoProducesAndConsumes(t *testing.T) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			ts, address := singleBroker(t, func(c *Config) { c.AutoCreateTopics = true })
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cl := kgoClient(t, address, kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(codec), kgo.ConsumeTopics("auto"))
			const n = 500
			for i := range n {
				cl.Produce(ctx, &kgo.Record{Topic: "auto", Value: []byte(strings.Repeat("v", 50) + strconv.Itoa(i))}, func(r *kgo.Record, err error) {
					if err != nil {
						t.Errorf("record: %v", err)
					}
				})
			}
			if err := cl.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			for got := 0; got < n; {
				fetches := cl.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					t.Fatal(err)
				}
				fetches.EachRecord(func(r *kgo.Record) {
					if want := strings.Repeat("v", 50) + strconv.Itoa(got); string(r.Value) != want || r.Offset != int64(got) {
						t.Fatalf("record %d is %q, want %q", r.Offset, r.Value, want)
					}
					got++
				})
			}
			if lines := ts.logged.all(); len(lines) > 0 {
				t.Fatalf("a good client is worth no line: %q", lines)
			}
		})
	}
}

// TestKadmAdministers: the admin client creates, lists, describes and deletes, and reads its own writes.
func TestKadmAdministers(t *testing.T) {
	_, address := singleBroker(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	adm := kadm.NewClient(kgoClient(t, address))
	created, err := adm.CreateTopic(ctx, 3, 1, nil, "made")
	if err != nil || created.NumPartitions != 3 || created.ID == (kadm.TopicID{}) {
		t.Fatalf("%+v, %v", created, err)
	}
	if _, err := adm.CreateTopic(ctx, 3, 1, nil, "made"); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Fatalf("created twice: %v", err)
	}
	topics, err := adm.ListTopics(ctx)
	if err != nil || !topics.Has("made") || len(topics["made"].Partitions) != 3 || topics["made"].Partitions[2].Leader != 1 {
		t.Fatalf("%+v, %v", topics, err)
	}
	offsets, err := adm.ListEndOffsets(ctx, "made")
	if o, ok := offsets.Lookup("made", 1); err != nil || !ok || o.Offset != 0 {
		t.Fatalf("%+v, %v", offsets, err)
	}
	meta, err := adm.BrokerMetadata(ctx)
	if err != nil || meta.Controller != 1 || meta.Cluster != uuid(0xc1).String() || len(meta.Brokers) != 1 {
		t.Fatalf("%+v, %v", meta, err)
	}
	configs, err := adm.DescribeTopicConfigs(ctx, "made")
	if err != nil || len(configs) != 1 || len(configs[0].Configs) < 5 {
		t.Fatalf("%+v, %v", configs, err)
	}
	if deleted, err := adm.DeleteTopics(ctx, "made"); err != nil || deleted.Error() != nil {
		t.Fatalf("%+v, %v", deleted, err)
	}
	if topics, err := kadm.NewClient(kgoClient(t, address)).ListTopics(ctx); err != nil || topics.Has("made") {
		t.Fatalf("%+v, %v", topics, err)
	}
}

// TestKgoIsToldClearlyWhatIsNotThere: transactions fail at once with a reason, instead of being tried for ever.
func TestKgoIsToldClearlyWhatIsNotThere(t *testing.T) {
	_, address := singleBroker(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cl := kgoClient(t, address, kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("t"))
	err := cl.BeginTransaction()
	if err == nil {
		err = cl.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr()
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a transaction: %v", err)
	}
}

// TestGarbageDoesNotDisturbAProducer: hostile connections beside a producer cost it no record and no error.
func TestGarbageDoesNotDisturbAProducer(t *testing.T) {
	ts, address := singleBroker(t, nil)
	ts.createHere(t, &controllerv1.CreatableTopic{Name: "t", NumPartitions: 1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stop := make(chan struct{})
	hostile := make(chan int)
	go func() {
		n := 0
		defer func() { hostile <- n }()
		for ; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			c, err := net.Dial("tcp", address)
			if err != nil {
				continue
			}
			garbage := [][]byte{frameOf(1<<31 - 1), []byte("GET / HTTP/1.1\r\n\r\n"), rawRequest(3, 9, 1, "c", []byte{1, 2, 3}), frameOf(5000, 0, 0, 0, 9)}
			_, _ = c.Write(garbage[n%len(garbage)])
			_ = c.Close()
		}
	}()
	cl := kgoClient(t, address, kgo.DefaultProduceTopic("t"), kgo.RecordRetries(0))
	for i := range 300 {
		if err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	close(stop)
	if n := <-hostile; n < 10 {
		t.Fatalf("only %d hostile connections", n)
	}
	if end := ts.replicas.log(fsm.PartitionID{Topic: uuid(byte(ts.image().NextOffset() - 2))}).end; end != 300 {
		t.Fatalf("%d records in the log", end)
	}
}
