package endtoend

import (
	"context"
	"fmt"
	"testing"

	"github.com/skiffmq/skiff/cmd/proctest"
)

const (
	// keyedMessages that go in and must come out again, for each client and compression.
	keyedMessages = 10_000
	// keys that they are spread over.
	keys = 64
	// topicPartitions of each topic in these tests.
	topicPartitions = 6
)

// message is what a client sends and finds: the n-th message has key n mod keys and value n.
type message struct {
	key, value string
}

// found is a message with the place it was found at.
type found struct {
	message
	partition int32
	offset    int64
}

func messageAt(n int) message {
	return message{key: fmt.Sprintf("key-%02d", n%keys), value: fmt.Sprintf("value-%06d", n)}
}

// client is one Kafka client library or tool.
type client struct {
	name string
	// produce sends all messages with acks=all in the order of their numbers, compressed as named.
	produce func(ctx context.Context, t *testing.T, seeds []string, topic, compression string)
	// consume reads the whole topic: want messages.
	consume func(ctx context.Context, t *testing.T, seeds []string, topic string, want int) []found
}

func TestEveryClientReadsBackTenThousandKeyedMessagesInOrder(t *testing.T) {
	cluster := proctest.Start(t, proctest.Options{})
	for _, c := range []client{kcat, franz, saramaClient, kafkaGo} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == kcat.name {
				requireKcat(t)
			}
			for _, compression := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
				t.Run(compression, func(t *testing.T) {
					topic := c.name + "-" + compression
					createTopic(t, cluster, topic, topicPartitions, 3)
					awaitVisible(t, cluster, topic)
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					c.produce(ctx, t, cluster.BootstrapServers(), topic, compression)
					checkMessages(t, c.consume(ctx, t, cluster.BootstrapServers(), topic, keyedMessages))
				})
			}
		})
	}
}

// checkMessages: all are there, once; a key lives in one partition; in each partition numbers and offsets grow.
func checkMessages(t *testing.T, all []found) {
	t.Helper()
	if len(all) != keyedMessages {
		t.Fatalf("read %d messages, want %d", len(all), keyedMessages)
	}
	if err := judgeMessages(all); err != nil {
		t.Fatal(err)
	}
}

func judgeMessages(all []found) error {
	sent := make(map[message]bool, keyedMessages)
	for n := range keyedMessages {
		sent[messageAt(n)] = true
	}
	partitionOf := map[string]int32{}
	last := map[int32]found{}
	for _, f := range all {
		if !sent[f.message] {
			return fmt.Errorf("%+v was not sent, or was read before", f)
		}
		delete(sent, f.message)
		if p, seen := partitionOf[f.key]; seen && p != f.partition {
			return fmt.Errorf("%s is in partitions %d and %d", f.key, p, f.partition)
		}
		partitionOf[f.key] = f.partition
		if before, seen := last[f.partition]; seen && (before.offset >= f.offset || before.value >= f.value) {
			return fmt.Errorf("partition %d: %+v after %+v", f.partition, f, before)
		}
		last[f.partition] = f
	}
	if len(sent) > 0 {
		return fmt.Errorf("%d of %d messages are missing", len(sent), keyedMessages)
	}
	if len(last) != topicPartitions {
		return fmt.Errorf("%d partitions hold messages, want %d", len(last), topicPartitions)
	}
	return nil
}

// TestTheJudgeOfMessagesFindsWhatIsWrong doctors a right answer: the check above must not be one that cannot fail.
func TestTheJudgeOfMessagesFindsWhatIsWrong(t *testing.T) {
	right := func() []found {
		next := map[int32]int64{}
		var all []found
		for n := range keyedMessages {
			p := int32(n % keys % topicPartitions)
			all = append(all, found{messageAt(n), p, next[p]})
			next[p]++
		}
		return all
	}
	if err := judgeMessages(right()); err != nil {
		t.Fatalf("a right answer: %v", err)
	}
	for name, doctor := range map[string]func([]found) []found{
		"lost":         func(a []found) []found { return a[:len(a)-1] },
		"doubled":      func(a []found) []found { return append(a, a[len(a)-1]) },
		"changed":      func(a []found) []found { a[5].value = "value-x"; return a },
		"swapped":      func(a []found) []found { a[0], a[keys] = a[keys], a[0]; return a },
		"key strayed":  func(a []found) []found { a[70].partition, a[70].offset = 5, 1<<40; return a },
		"same offsets": func(a []found) []found { a[keys].offset = a[0].offset; return a },
	} {
		if judgeMessages(doctor(right())) == nil {
			t.Errorf("%s: not found", name)
		}
	}
}
