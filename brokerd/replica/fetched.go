package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skiffmq/skiff/fsm"
)

// bring takes a whole answer: each partition stands alone, and one that failed rests for a moment.
func (f *fetcher) bring(sent []fetchItem, resp *kmsg.FetchResponse) error {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fmt.Errorf("fetch from broker %d: %w", f.leader, err)
	}
	items := make(map[fsm.PartitionID]fetchItem, len(sent))
	for _, item := range sent {
		items[item.sent.ID] = item
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			q := &t.Partitions[j]
			if item, ok := items[fsm.PartitionID{Topic: t.TopicID, Partition: q.Partition}]; ok {
				f.bringOne(item, q)
			}
		}
	}
	return nil
}

func (f *fetcher) bringOne(item fetchItem, q *kmsg.FetchResponseTopicPartition) {
	c, err := answered(item, q)
	var t truncation
	if err == nil {
		t, err = item.p.copy(c)
	}
	switch {
	case errors.Is(err, errNotFollowing):
		return // the next assignment knows better
	case errors.Is(err, ErrStorage):
		f.m.report("a log failed while copying", err)
	case err != nil:
		f.m.logger.Debug("the leader refused a fetch", "partition", item.p.name(), "leader", f.leader, "error", err)
		item.notBefore = time.Now().Add(partitionBackoff)
		return
	}
	f.m.counters.bytesCopied.Add(int64(len(c.records)))
	f.reportTruncation(item, t)
}

// answered reads the leader's answer for one partition, or the error that it is.
func answered(item fetchItem, q *kmsg.FetchResponseTopicPartition) (copied, error) {
	c := copied{leaderEpoch: item.leaderEpoch, records: q.RecordBatches, high: q.HighWatermark, logStart: q.LogStartOffset}
	err := kerr.ErrorForCode(q.ErrorCode)
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange) && q.LogStartOffset >= 0:
		c.outOfRange = true
	case err != nil:
		return c, fmt.Errorf("leader answers: %w", err)
	case q.DivergingEpoch.EndOffset >= 0:
		c.diverging = &EpochEnd{Epoch: q.DivergingEpoch.Epoch, EndOffset: q.DivergingEpoch.EndOffset}
	}
	return c, nil
}

// reportTruncation says what was cut; records that were below the high watermark only go after an unclean
// election, and never in silence (I17).
func (f *fetcher) reportTruncation(item fetchItem, t truncation) {
	if t.none() {
		return
	}
	f.m.counters.truncations.Add(1)
	fields := []any{"partition", item.p.name(), "leader", f.leader, "leader_epoch", item.leaderEpoch, "from", t.from, "to", t.to, "high_watermark", t.high}
	if t.belowHigh() {
		f.m.logger.Warn("truncated below the high watermark to follow the leader", fields...)
		return
	}
	f.m.logger.Info("truncated to follow the leader", fields...)
}
