package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ProducerOptions says how one Producer works.
type ProducerOptions struct {
	// Seeds are the brokers to begin with, host:port.
	Seeds []string
	// Topic to produce to.
	Topic string
	// Producer is the number that its records carry; two Producers of one history must differ.
	Producer uint32
	// InFlight bounds the records sent and not yet answered.
	InFlight int
	// PerSecond bounds the records that Run sends in a second; 0 means as many as are answered.
	PerSecond int
	// ValueBytes is the size of each value, at least 16.
	ValueBytes int
	// Client holds further options of the client, for example a compression.
	Client []kgo.Opt
}

// Producer sends numbered records with acks=all and idempotence, and remembers which were acknowledged.
type Producer struct {
	options ProducerOptions
	client  *kgo.Client

	// mu guards what follows.
	mu    sync.Mutex
	acked []Acked
	errs  []error
	sent  uint64
	// reached counts what was acknowledged in each partition.
	reached map[int32]int
}

// NewProducer connects lazily; it errs only on options that the client refuses.
func NewProducer(o ProducerOptions) (*Producer, error) {
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(o.Seeds...),
		kgo.DefaultProduceTopic(o.Topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MaxBufferedRecords(o.InFlight),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	}, o.Client...)
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("producer %d: %w", o.Producer, err)
	}
	return &Producer{options: o, client: client, reached: map[int32]int{}}, nil
}

// Run sends until ctx ends, then waits for the answers that are still out, as long as drain lives.
func (p *Producer) Run(ctx, drain context.Context) error {
	began := time.Now()
	for ctx.Err() == nil {
		p.sendOne(drain)
		p.pace(ctx, began)
	}
	return p.flush(drain)
}

// pace waits while more was sent since began than PerSecond allows. It looks every 100 records: a timer for each would
// cost more than the record.
func (p *Producer) pace(ctx context.Context, began time.Time) {
	sent := p.Sent()
	if p.options.PerSecond <= 0 || sent%100 != 0 {
		return
	}
	due := began.Add(time.Duration(sent) * time.Second / time.Duration(p.options.PerSecond))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Send sends n records and waits for their answers.
func (p *Producer) Send(ctx context.Context, n int) error {
	for range n {
		if ctx.Err() != nil {
			break
		}
		p.sendOne(ctx)
	}
	return p.flush(ctx)
}

func (p *Producer) flush(ctx context.Context) error {
	if err := p.client.Flush(ctx); err != nil {
		return fmt.Errorf("producer %d: wait for answers: %w", p.options.Producer, err)
	}
	return p.Err()
}

// sendOne blocks while InFlight records are out. The record lives on drain: a record given up on is one that may yet appear.
func (p *Producer) sendOne(drain context.Context) {
	p.mu.Lock()
	id := ID{Producer: p.options.Producer, Sequence: p.sent}
	p.sent++
	p.mu.Unlock()
	key := binary.BigEndian.AppendUint64(nil, id.Sequence%64) // 64 keys: every partition of a usual topic gets some
	record := &kgo.Record{Key: key, Value: encodeValue(id, p.options.ValueBytes)}
	p.client.Produce(drain, record, func(r *kgo.Record, err error) { p.answered(id, r, err) })
}

func (p *Producer) answered(id ID, r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.errs = append(p.errs, fmt.Errorf("record %v: %w", id, err))
		return
	}
	p.acked = append(p.acked, Acked{ID: id, Partition: r.Partition, Offset: r.Offset})
	p.reached[r.Partition]++
}

// Acked gives what was acknowledged so far.
func (p *Producer) Acked() []Acked {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Acked(nil), p.acked...)
}

// Reached gives, for each partition, how many records were acknowledged so far.
func (p *Producer) Reached() map[int32]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.reached)
}

// Sent gives the number of records sent so far.
func (p *Producer) Sent() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// Err gives the errors that records were answered with.
func (p *Producer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.errs...)
}

// Close ends the client. Records that are still out are given up on.
func (p *Producer) Close() { p.client.Close() }
