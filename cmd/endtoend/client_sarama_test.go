package endtoend

import (
	"context"
	"testing"

	"github.com/IBM/sarama"
)

var saramaClient = client{name: "sarama", produce: produceSarama, consume: consumeSarama}

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func produceSarama(_ context.Context, t *testing.T, seeds []string, topic, compression string) {
	config := sarama.NewConfig()
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Compression = saramaCodecs[compression]
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1 // what sarama asks of an idempotent producer
	producer, err := sarama.NewSyncProducer(seeds, config)
	if err != nil {
		t.Fatal(err)
	}
	messages := make([]*sarama.ProducerMessage, keyedMessages)
	for n := range messages {
		m := messageAt(n)
		messages[n] = &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(m.key), Value: sarama.StringEncoder(m.value)}
	}
	if err := producer.SendMessages(messages); err != nil {
		t.Fatal(err)
	}
	if err := producer.Close(); err != nil {
		t.Fatal(err)
	}
}

func consumeSarama(ctx context.Context, t *testing.T, seeds []string, topic string, want int) []found {
	config := sarama.NewConfig()
	config.Consumer.Return.Errors = true
	consumer, err := sarama.NewConsumer(seeds, config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := consumer.Close(); err != nil {
			t.Errorf("close consumer: %v", err)
		}
	}()
	arrived := make(chan *sarama.ConsumerMessage)
	failed := make(chan error)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for partition := range int32(topicPartitions) {
		pc, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		if err != nil {
			t.Fatal(err)
		}
		defer pc.AsyncClose()
		go forwardSarama(ctx, pc, arrived, failed)
	}
	var all []found
	for len(all) < want {
		select {
		case m := <-arrived:
			all = append(all, found{message{string(m.Key), string(m.Value)}, m.Partition, m.Offset})
		case err := <-failed:
			t.Fatalf("after %d messages: %v", len(all), err)
		case <-ctx.Done():
			t.Fatalf("after %d messages: %v", len(all), ctx.Err())
		}
	}
	return all
}

// forwardSarama joins one partition's messages with the others', until ctx ends.
func forwardSarama(ctx context.Context, pc sarama.PartitionConsumer, arrived chan<- *sarama.ConsumerMessage, failed chan<- error) {
	for {
		select {
		case m, open := <-pc.Messages():
			if !open {
				return
			}
			select {
			case arrived <- m:
			case <-ctx.Done():
				return
			}
		case err, open := <-pc.Errors():
			if !open {
				return
			}
			select {
			case failed <- err:
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
