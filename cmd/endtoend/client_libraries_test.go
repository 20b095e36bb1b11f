package endtoend

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kgo"
)

var franz = client{name: "franz-go", produce: produceFranz, consume: consumeFranz}

var franzCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func produceFranz(ctx context.Context, t *testing.T, seeds []string, topic, compression string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.DefaultProduceTopic(topic),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(franzCodecs[compression]))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	records := make([]*kgo.Record, keyedMessages)
	for n := range records {
		m := messageAt(n)
		records[n] = &kgo.Record{Key: []byte(m.key), Value: []byte(m.value)}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func consumeFranz(ctx context.Context, t *testing.T, seeds []string, topic string, want int) []found {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var all []found
	for len(all) < want {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d messages: %v", len(all), err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			all = append(all, found{message{string(r.Key), string(r.Value)}, r.Partition, r.Offset})
		})
	}
	return all
}

var kafkaGo = client{name: "kafka-go", produce: produceKafkaGo, consume: consumeKafkaGo}

var kafkaGoCodecs = map[string]compress.Compression{
	"none": compress.None, "gzip": compress.Gzip, "snappy": compress.Snappy, "lz4": compress.Lz4, "zstd": compress.Zstd,
}

func produceKafkaGo(ctx context.Context, t *testing.T, seeds []string, topic, compression string) {
	transport := &kafka.Transport{} // the shared one would look the new topic up in what it learned before
	defer transport.CloseIdleConnections()
	writer := &kafka.Writer{
		Addr: kafka.TCP(seeds...), Topic: topic, Balancer: &kafka.Hash{}, RequiredAcks: kafka.RequireAll,
		Compression: kafkaGoCodecs[compression], BatchSize: 500,
		Transport: transport,
	}
	messages := make([]kafka.Message, keyedMessages)
	for n := range messages {
		m := messageAt(n)
		messages[n] = kafka.Message{Key: []byte(m.key), Value: []byte(m.value)}
	}
	if err := errors.Join(writer.WriteMessages(ctx, messages...), writer.Close()); err != nil {
		t.Fatal(err)
	}
}

func consumeKafkaGo(ctx context.Context, t *testing.T, seeds []string, topic string, _ int) []found {
	var all []found
	for partition := range topicPartitions {
		all = append(all, readKafkaGo(ctx, t, seeds, topic, partition)...)
	}
	return all
}

func readKafkaGo(ctx context.Context, t *testing.T, seeds []string, topic string, partition int) []found {
	conn, err := kafka.DialLeader(ctx, "tcp", seeds[0], topic, partition)
	if err != nil {
		t.Fatal(err)
	}
	first, last, err := conn.ReadOffsets()
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: seeds, Topic: topic, Partition: partition, MaxBytes: 1 << 20, MaxWait: 200 * time.Millisecond})
	defer func() {
		if err := reader.Close(); err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("close reader: %v", err)
		}
	}()
	var all []found
	for offset := first; offset < last; offset++ {
		m, err := reader.ReadMessage(ctx)
		if err != nil {
			t.Fatalf("partition %d after %d messages: %v", partition, len(all), err)
		}
		all = append(all, found{message{string(m.Key), string(m.Value)}, int32(m.Partition), m.Offset})
	}
	return all
}
