package kafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
	kafkago "github.com/segmentio/kafka-go"
)

// TestSaramaProducesAndConsumes: sarama negotiates with ApiVersions 4, or, set to an old version, sends old requests.
func TestSaramaProducesAndConsumes(t *testing.T) {
	for _, version := range []sarama.KafkaVersion{sarama.V1_0_0_0, sarama.V2_1_0_0, sarama.V3_6_0_0} {
		t.Run(version.String(), func(t *testing.T) {
			_, address := singleBroker(t, nil)
			config := sarama.NewConfig()
			config.Version = version
			config.Producer.Return.Successes = true
			config.Producer.RequiredAcks = sarama.WaitForAll
			if version.IsAtLeast(sarama.V2_1_0_0) {
				config.Producer.Compression = sarama.CompressionZSTD
				config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
			}
			admin, err := sarama.NewClusterAdmin([]string{address}, config)
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close()
			if err := admin.CreateTopic("made", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false); err != nil {
				t.Fatal(err)
			}
			sendBySarama(t, address, config)
			readBySarama(t, address, config)
			if err := admin.DeleteTopic("made"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// foreignRecords is how many records the clients write.
const foreignRecords = 100

// sendBySarama writes records to made-0.
func sendBySarama(t *testing.T, address string, config *sarama.Config) {
	t.Helper()
	producer, err := sarama.NewSyncProducer([]string{address}, config)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for i := range foreignRecords {
		_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: "made", Value: sarama.StringEncoder(fmt.Sprint(i))})
		if err != nil || offset != int64(i) {
			t.Fatalf("record %d at offset %d: %v", i, offset, err)
		}
	}
}

// readBySarama reads them back.
func readBySarama(t *testing.T, address string, config *sarama.Config) {
	t.Helper()
	consumer, err := sarama.NewConsumer([]string{address}, config)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition("made", 0, sarama.OffsetOldest)
	if err != nil {
		t.Fatal(err)
	}
	defer partition.Close()
	deadline := time.After(30 * time.Second)
	for i := range foreignRecords {
		select {
		case m := <-partition.Messages():
			if string(m.Value) != fmt.Sprint(i) || m.Offset != int64(i) {
				t.Fatalf("record %d is %q at %d", i, m.Value, m.Offset)
			}
		case err := <-partition.Errors():
			t.Fatal(err)
		case <-deadline:
			t.Fatalf("%d records in 30 s", i)
		}
	}
}

// TestKafkaGoProducesAndConsumes: kafka-go sends fixed, old versions.
func TestKafkaGoProducesAndConsumes(t *testing.T) {
	_, address := singleBroker(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := kafkago.DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if controller, err := conn.Controller(); err != nil || controller.ID != 1 {
		t.Fatalf("controller %+v, %v", controller, err)
	}
	if err := conn.CreateTopics(kafkago.TopicConfig{Topic: "made", NumPartitions: 1, ReplicationFactor: 1}); err != nil {
		t.Fatal(err)
	}
	w := &kafkago.Writer{Addr: kafkago.TCP(address), Topic: "made", RequiredAcks: kafkago.RequireAll, Compression: kafkago.Snappy, BatchTimeout: 5 * time.Millisecond}
	defer w.Close()
	var messages []kafkago.Message
	for i := range foreignRecords {
		messages = append(messages, kafkago.Message{Value: []byte(fmt.Sprint(i))})
	}
	if err := w.WriteMessages(ctx, messages...); err != nil {
		t.Fatal(err)
	}
	r := kafkago.NewReader(kafkago.ReaderConfig{Brokers: []string{address}, Topic: "made", MaxWait: 100 * time.Millisecond})
	defer r.Close()
	for i := range foreignRecords {
		m, err := r.ReadMessage(ctx)
		if err != nil || string(m.Value) != fmt.Sprint(i) || m.Offset != int64(i) {
			t.Fatalf("record %d is %q at %d: %v", i, m.Value, m.Offset, err)
		}
	}
	if err := conn.DeleteTopics("made"); err != nil {
		t.Fatal(err)
	}
}
