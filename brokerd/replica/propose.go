package replica

import (
	"context"
	"sync"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

const (
	// wishesMax bounds the partitions in one request (I20).
	wishesMax = 1000
	// alterTimeout ends a request whose answer does not come; the wishes are then asked again.
	alterTimeout = 5 * time.Second
	// alterRetry is the pause after a request that failed as a whole.
	alterRetry = 50 * time.Millisecond
)

// proposer carries ISR wishes to the active controller: batched, one request in flight. A wish stays in the queue
// until it is granted, refused for good, or overtaken by metadata; there is no deadline, since a wish that may
// have been committed must count until its fate is known (I15). At most one wish a partition is in the queue.
type proposer struct {
	m    *Manager
	wake chan struct{}

	mu sync.Mutex
	// mu guards the following.
	queue map[fsm.PartitionID]proposal
}

type proposal struct {
	p *Partition
	w wish
}

func newProposer(m *Manager) *proposer {
	return &proposer{m: m, wake: make(chan struct{}, 1), queue: map[fsm.PartitionID]proposal{}}
}

// propose queues a wish; an older one of the partition is dead by then. It never blocks.
func (o *proposer) propose(p *Partition, w wish) {
	o.mu.Lock()
	o.queue[p.id] = proposal{p, w}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *proposer) run(ctx context.Context) {
	for {
		select {
		case <-o.wake:
		case <-ctx.Done():
			return
		}
		for batch := o.take(); len(batch) > 0; batch = o.take() {
			if !o.ask(ctx, batch) && !pause(ctx, alterRetry) {
				return
			}
		}
	}
}

// pause waits and returns false when ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// take lists the wishes that are still wished for; the others leave the queue.
func (o *proposer) take() []proposal {
	o.mu.Lock()
	queued := make([]proposal, 0, len(o.queue))
	for _, q := range o.queue {
		queued = append(queued, q)
	}
	o.mu.Unlock()
	var batch []proposal
	for _, q := range queued {
		if !q.p.wished(q.w) {
			o.drop(q)
		} else if len(batch) < wishesMax {
			batch = append(batch, q)
		}
	}
	return batch
}

// drop takes a wish out of the queue unless a newer one is in its place.
func (o *proposer) drop(q proposal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now, ok := o.queue[q.p.id]; ok && now.w.leaderEpoch == q.w.leaderEpoch && now.w.partitionEpoch == q.w.partitionEpoch {
		delete(o.queue, q.p.id)
	}
}

// ask sends one request and handles its answer; false asks for a pause.
func (o *proposer) ask(ctx context.Context, batch []proposal) bool {
	ctx, cancel := context.WithTimeout(ctx, alterTimeout)
	defer cancel()
	resp, err := o.m.cfg.Alter(ctx, o.request(batch))
	if err != nil {
		o.m.logger.Warn("the controller did not take an ISR change; it will be asked again", "partitions", len(batch), "error", err)
		return false
	}
	if len(resp.GetPartitions()) != len(batch) {
		o.m.logger.Error("the controller answered for another number of partitions", "asked", len(batch), "answered", len(resp.GetPartitions()))
		return false
	}
	settled := true
	for i, r := range resp.GetPartitions() {
		settled = o.handle(batch[i], r) && settled
	}
	return settled
}

func (o *proposer) request(batch []proposal) *controllerv1.AlterPartitionsRequest {
	epoch := o.m.cfg.BrokerEpoch()
	req := &controllerv1.AlterPartitionsRequest{BrokerId: o.m.cfg.NodeID, BrokerEpoch: epoch}
	for _, q := range batch {
		a := &controllerv1.AlterPartition{
			TopicId: q.p.id.Topic.Bytes(), PartitionId: q.p.id.Partition,
			LeaderEpoch: q.w.leaderEpoch, PartitionEpoch: q.w.partitionEpoch,
		}
		for _, member := range q.w.isr {
			brokerEpoch := member.brokerEpoch
			if member.broker == o.m.cfg.NodeID {
				brokerEpoch = epoch
			}
			a.NewIsr = append(a.NewIsr, &controllerv1.ISRMember{BrokerId: member.broker, BrokerEpoch: brokerEpoch})
		}
		req.Partitions = append(req.Partitions, a)
	}
	return req
}

// handle takes one partition's answer and tells whether the wish is settled; the others are asked again.
func (o *proposer) handle(q proposal, r *controllerv1.AlterPartitionResult) bool {
	switch code := r.GetError().GetCode(); code {
	case controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED:
		o.m.counters.altered(q.w)
		q.p.granted(q.w, r.GetIsr(), r.GetLeaderEpoch(), r.GetPartitionEpoch())
		o.m.logger.Info("ISR changed", "partition", q.p.name(), "isr", r.GetIsr(), "partition_epoch", r.GetPartitionEpoch())
	case controllerv1.ErrorCode_ERROR_CODE_INELIGIBLE_REPLICA:
		o.m.logger.Info("an ISR change was refused", "partition", q.p.name(), "error", r.GetError().GetMessage())
		q.p.denied(q.w)
	case controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_ID, controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION,
		controllerv1.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH, controllerv1.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION,
		controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, controllerv1.ErrorCode_ERROR_CODE_NEW_LEADER_ELECTED:
		// Our metadata is behind: what is true now is on its way, and ends the wish.
		o.m.logger.Info("an ISR change waits for newer metadata", "partition", q.p.name(), "code", code, "error", r.GetError().GetMessage())
	default:
		o.m.logger.Warn("an ISR change was not decided; it will be asked again", "partition", q.p.name(), "code", code, "error", r.GetError().GetMessage())
		return false
	}
	o.drop(q)
	return true
}
