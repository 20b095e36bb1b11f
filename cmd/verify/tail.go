package verify

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// toldMax bounds the errors that a Tail remembers; the first ones tell the story.
const toldMax = 100

// Tail reads a topic from its start and goes on reading as it grows, and remembers all it was given, in order.
type Tail struct {
	client *kgo.Client

	// mu guards what follows.
	mu   sync.Mutex
	seen []Read
	told []error
}

// NewTail connects lazily; it errs only on options that the client refuses.
func NewTail(seeds []string, topic string) (*Tail, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, fmt.Errorf("tail %s: %w", topic, err)
	}
	return &Tail{client: client}, nil
}

// Run reads until ctx ends. The client itself repeats what passes; an error that it hands on is kept (see Told).
func (t *Tail) Run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := t.client.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		t.keep(fetches)
	}
}

func (t *Tail) keep(fetches kgo.Fetches) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fetches.EachError(func(_ string, partition int32, err error) {
		if len(t.told) < toldMax {
			t.told = append(t.told, fmt.Errorf("partition %d: %w", partition, err))
		}
	})
	fetches.EachRecord(func(r *kgo.Record) { t.seen = append(t.seen, toRead(r)) })
}

// Seen gives all it was given so far, in that order.
func (t *Tail) Seen() []Read {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.seen)
}

// Count gives how many records it was given so far.
func (t *Tail) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.seen)
}

// Told gives the errors that the client handed on, for example that records which it had given were gone.
func (t *Tail) Told() []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.told)
}

// Close ends the client.
func (t *Tail) Close() { t.client.Close() }
