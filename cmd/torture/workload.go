package torture

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skiffmq/skiff/cmd/verify"
)

// What produces and reads.
const (
	producers  = 4
	consumers  = 2
	inFlight   = 256
	valueBytes = 64
)

// codecs are the compressions of the producers, in turn.
var codecs = []kgo.CompressionCodec{kgo.NoCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(), kgo.SnappyCompression()}

// workload is everybody who produces and reads.
type workload struct {
	partitions int
	producers  []*verify.Producer
	tails      []*verify.Tail

	running sync.WaitGroup
	// mu guards errs.
	mu   sync.Mutex
	errs []error
}

// newWorkload prepares producers that together send perSecond records a second, and consumers.
func newWorkload(seeds []string, topic string, partitions, perSecond int) (*workload, error) {
	w := &workload{partitions: partitions}
	for i := range producers {
		p, err := verify.NewProducer(verify.ProducerOptions{
			Seeds: seeds, Topic: topic, Producer: uint32(i), InFlight: inFlight, PerSecond: perSecond / producers, ValueBytes: valueBytes,
			Client: []kgo.Opt{kgo.ProducerBatchCompression(codecs[i%len(codecs)])},
		})
		if err != nil {
			return nil, err
		}
		w.producers = append(w.producers, p)
	}
	for range consumers {
		tail, err := verify.NewTail(seeds, topic)
		if err != nil {
			return nil, err
		}
		w.tails = append(w.tails, tail)
	}
	return w, nil
}

// start lets producers send until sending ends and everybody work until work ends.
func (w *workload) start(sending, work context.Context) {
	for _, p := range w.producers {
		w.running.Go(func() {
			if err := p.Run(sending, work); err != nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.errs = append(w.errs, err)
			}
		})
	}
	for _, t := range w.tails {
		go t.Run(work)
	}
}

// drained waits until every producer has its answers, which the end of start's work cuts short, and returns what they were told.
func (w *workload) drained() error {
	w.running.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.errs...)
}

func (w *workload) close() {
	for _, p := range w.producers {
		p.Close()
	}
	for _, t := range w.tails {
		t.Close()
	}
}

// reached counts what was acknowledged in each partition.
func (w *workload) reached() map[int32]int {
	sum := map[int32]int{}
	for _, p := range w.producers {
		for partition, n := range p.Reached() {
			sum[partition] += n
		}
	}
	return sum
}

// awaitProgress waits until every partition has acknowledged records that it had not when this was called.
func (w *workload) awaitProgress(ctx context.Context) error {
	before := w.reached()
	return await(ctx, "every partition takes records again", func(context.Context) error {
		now := w.reached()
		for partition := range int32(w.partitions) {
			if now[partition] <= before[partition] {
				return fmt.Errorf("partition %d has acknowledged %d records and no more", partition, now[partition])
			}
		}
		return nil
	})
}

// awaitAcked waits until so many records were acknowledged.
func (w *workload) awaitAcked(ctx context.Context, least int) error {
	return await(ctx, fmt.Sprintf("%d records are acknowledged", least), func(context.Context) error {
		sum := 0
		for _, n := range w.reached() {
			sum += n
		}
		if sum < least {
			return fmt.Errorf("%d are", sum)
		}
		return nil
	})
}

// awaitRead waits until every consumer was given so many records.
func (w *workload) awaitRead(ctx context.Context, records int) error {
	return await(ctx, "every consumer has read what there is", func(context.Context) error {
		for i, t := range w.tails {
			if n := t.Count(); n < records {
				return fmt.Errorf("consumer %d has read %d records of %d", i, n, records)
			}
		}
		return nil
	})
}

// acked is everything that was acknowledged.
func (w *workload) acked() []verify.Acked {
	var all []verify.Acked
	for _, p := range w.producers {
		all = append(all, p.Acked()...)
	}
	return all
}

// sent is the number of records that were sent.
func (w *workload) sent() uint64 {
	var sum uint64
	for _, p := range w.producers {
		sum += p.Sent()
	}
	return sum
}
