package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ReadAll reads every partition of the topic from its start to the high watermark of this moment.
func ReadAll(ctx context.Context, seeds []string, topic string) ([]Read, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", topic, err)
	}
	defer client.Close()
	left, total, err := distances(ctx, client, topic)
	if err != nil {
		return nil, err
	}
	read := make([]Read, 0, total)
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, fmt.Errorf("read %s: %d of %d records read, partitions left %v: %w", topic, len(read), total, left, err)
		}
		for _, e := range fetches.Errors() {
			return nil, fmt.Errorf("read %s partition %d: %w", topic, e.Partition, e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			read = append(read, toRead(r))
			if end, wanted := left[r.Partition]; wanted && r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		})
	}
	return read, nil
}

// distances gives, for each partition that holds records, the end to read up to.
func distances(ctx context.Context, client *kgo.Client, topic string) (map[int32]int64, int64, error) {
	admin := kadm.NewClient(client)
	starts, err := listOffsets(ctx, admin.ListStartOffsets, topic)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: list start offsets: %w", topic, err)
	}
	ends, err := listOffsets(ctx, admin.ListEndOffsets, topic)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: list end offsets: %w", topic, err)
	}
	left, total := map[int32]int64{}, int64(0)
	ends.Each(func(end kadm.ListedOffset) {
		start, _ := starts.Lookup(topic, end.Partition)
		if end.Offset > start.Offset {
			left[end.Partition] = end.Offset
			total += end.Offset - start.Offset
		}
	})
	return left, total, nil
}

// listPause is how long to wait before offsets are asked for again.
const listPause = 100 * time.Millisecond

// listOffsets repeats, until ctx ends, what a broker refuses while leaders move. A client does the same when it consumes;
// kadm leaves it to its caller.
func listOffsets(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error), topic string) (kadm.ListedOffsets, error) {
	for {
		offsets, err := list(ctx, topic)
		if err == nil {
			err = offsets.Error()
		}
		if err == nil || !kerr.IsRetriable(err) {
			return offsets, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, last answer: %w", ctx.Err(), err)
		case <-time.After(listPause):
		}
	}
}

func toRead(r *kgo.Record) Read {
	id, err := decodeValue(r.Value)
	read := Read{ID: id, Partition: r.Partition, Offset: r.Offset}
	if err != nil {
		read.Damage = err.Error()
	}
	return read
}
