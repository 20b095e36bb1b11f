package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/partlog/partlogtest"
	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// hosted is a partition that a broker holds: the real Partition, and who waits for news of it.
type hosted struct {
	b     *broker
	id    fsm.PartitionID
	topic string
	solo  *replica.Solo
	log   *partlog.Log
	// writes wait until they are replicated, reads until there is more.
	writes []*write
	reads  []*parkedFetch
	// high was the high watermark in the leader epoch highEpoch.
	high      int64
	highEpoch int32
	// known are the broker epochs of the followers' last fetches in the leader epoch knownIn.
	known   map[int32]int64
	knownIn int32
}

func (b *broker) settings(topic string) topicconfig.Settings {
	return topicconfig.Of(b.img, b.s.defaults.Topics, topic)
}

// apply turns news of the metadata into roles, in the order of replica.Manager.Apply.
func (b *broker) apply(d *fsm.Delta) {
	local := d.Local(b.id)
	for _, c := range local.Deleted {
		b.putAway(fsm.PartitionID{Topic: c.Topic, Partition: c.Partition})
	}
	for _, c := range local.Led {
		b.lead(c)
	}
	for _, c := range local.Followed {
		b.followPartition(c)
	}
	for _, leader := range sortedInts(b.fetchers) {
		if f := b.fetchers[leader]; f.grown {
			f.grown = false
			f.interrupt()
		}
	}
	if len(d.Brokers) > 0 {
		for _, id := range sortedKeys(b.replicas) {
			h := b.replicas[id]
			h.solo.Reconsider()
			h.changed()
		}
	}
}

func (b *broker) putAway(id fsm.PartitionID) {
	b.release(id)
	h := b.replicas[id]
	if h == nil {
		return
	}
	b.s.check.putAway(b, id)
	delete(b.replicas, id)
	delete(b.wishes, id)
	if err := h.solo.Close(); err != nil && !errors.Is(err, partlog.ErrClosed) {
		b.s.fail(17, "%s cannot close the log of %s: %v", b.name, b.s.check.name(id), err)
	}
	h.settle()
	delete(b.disks, id)
}

func (b *broker) lead(c fsm.LocalPartition) {
	h := b.hold(c)
	if h == nil {
		return
	}
	if c.NewLeaderEpoch {
		b.release(h.id)
	}
	if err := h.solo.Lead(*c.New, b.settings(h.topic), b.id); err != nil {
		b.s.fail(14, "%s cannot lead %s in epoch %d: %v", b.name, b.s.check.name(h.id), c.New.LeaderEpoch, err)
		return
	}
	if c.NewLeaderEpoch {
		b.s.tracef("%s leads %s in epoch %d, ISR %v, log end %d", b.name, b.s.check.name(h.id), c.New.LeaderEpoch, c.New.ISR, h.log.EndOffset())
	}
	h.changed()
}

func (b *broker) followPartition(c fsm.LocalPartition) {
	h := b.hold(c)
	if h == nil {
		return
	}
	fresh, err := h.solo.Follow(*c.New, b.settings(h.topic), b.id)
	if err != nil {
		b.s.fail(14, "%s cannot follow %s in epoch %d: %v", b.name, b.s.check.name(h.id), c.New.LeaderEpoch, err)
		return
	}
	if fresh {
		b.release(h.id)
		if c.New.Leader != -1 {
			b.assign(h.id, c.New.Leader, c.New.LeaderEpoch)
		}
	}
	h.changed()
}

// hold returns the partition, opening its log if it is not held yet.
func (b *broker) hold(c fsm.LocalPartition) *hosted {
	id := fsm.PartitionID{Topic: c.Topic, Partition: c.Partition}
	if h := b.replicas[id]; h != nil {
		return h
	}
	d := b.disks[id]
	if d == nil {
		d = &disk{fs: partlogtest.New()}
		b.disks[id] = d
	}
	log, err := b.open(id, d)
	if err != nil {
		b.s.fail(17, "%s cannot open the log of %s: %v", b.name, b.s.check.name(id), err)
		return nil
	}
	h := &hosted{b: b, id: id, topic: c.Name, log: log, highEpoch: -1}
	h.solo = replica.NewSolo(id, c.Name, log, d.high, func() replica.SoloWorld {
		return replica.SoloWorld{Now: b.s.agenda.time(), LagMax: b.s.opt.Lag, Image: b.img}
	})
	b.replicas[id] = h
	b.s.check.opened(h)
	return h
}

// open opens the log in a directory.
func (b *broker) open(id fsm.PartitionID, d *disk) (*partlog.Log, error) {
	return partlog.Open("/p", partlog.Options{
		FS: d.fs, TopicID: id.Topic, Partition: id.Partition, Now: b.s.agenda.time, Files: b.s.files, SegmentBytes: b.s.opt.SegmentBytes,
	})
}

// changed is called after everything that may have changed the partition: it checks it, and tells who waits.
func (h *hosted) changed() {
	if h.b.s.violation != nil {
		return
	}
	h.b.s.check.partition(h)
	h.settle()
}

// shrinkAll looks for late members of the ISRs.
func (b *broker) shrinkAll() {
	for _, id := range sortedKeys(b.replicas) {
		h := b.replicas[id]
		if w := h.solo.Shrink(); w != nil {
			b.wish(h, w, false)
		}
	}
}

// checkpoint notes the high watermarks on disk.
func (b *broker) checkpoint() {
	for id, h := range b.replicas {
		b.disks[id].high = h.solo.State().High
	}
}

// wish lets the controller hear of an ISR that a leader wishes for.
func (b *broker) wish(h *hosted, w *replica.Wish, grows bool) {
	if b.s.plant.alone(h, w, grows) {
		return
	}
	b.wishes[h.id] = w
	b.propose()
}

// propose asks for all that is wished for: one request at a time, again until each wish is settled.
func (b *broker) propose() {
	if b.asking || len(b.wishes) == 0 || b.life.Epoch < 0 {
		if !b.asking && len(b.wishes) > 0 {
			b.retryWishes()
		}
		return
	}
	var ids []fsm.PartitionID
	req := &controllerv1.AlterPartitionsRequest{BrokerId: b.id, BrokerEpoch: b.life.Epoch}
	asked := map[fsm.PartitionID]*replica.Wish{}
	for _, id := range sortedKeys(b.wishes) {
		h, w := b.replicas[id], b.wishes[id]
		if h == nil || !h.solo.Wished(w) {
			delete(b.wishes, id)
			continue
		}
		ids = append(ids, id)
		asked[id] = w
		req.Partitions = append(req.Partitions, w.Item(id, b.id, b.life.Epoch))
	}
	if len(ids) == 0 {
		return
	}
	b.asking = true
	ask(b, controller.AlterPartitions, req, "AlterPartitions", func(resp *controllerv1.AlterPartitionsResponse, err error) {
		b.asking = false
		if err != nil || len(resp.GetPartitions()) != len(ids) {
			b.retryWishes()
			return
		}
		settled := true
		for i, r := range resp.GetPartitions() {
			settled = b.takeGrant(ids[i], asked[ids[i]], r) && settled
		}
		if settled {
			b.propose()
		} else {
			b.retryWishes()
		}
	})
}

func (b *broker) retryWishes() {
	b.asking = true
	b.s.agenda.after(50*time.Millisecond, &b.proc, func() {
		b.asking = false
		b.propose()
	})
}

// takeGrant takes the controller's answer for one partition, as the proposer of brokerd/replica does; false asks again.
func (b *broker) takeGrant(id fsm.PartitionID, w *replica.Wish, r *controllerv1.AlterPartitionResult) bool {
	h := b.replicas[id]
	switch r.GetError().GetCode() {
	case controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED:
		if h != nil {
			h.solo.Granted(w, r)
		}
	case controllerv1.ErrorCode_ERROR_CODE_INELIGIBLE_REPLICA:
		if h != nil {
			h.solo.Denied(w)
		}
	case controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_ID, controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION,
		controllerv1.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH, controllerv1.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION,
		controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, controllerv1.ErrorCode_ERROR_CODE_NEW_LEADER_ELECTED:
	default:
		return false
	}
	if b.wishes[id] == w {
		delete(b.wishes, id)
	}
	if h != nil {
		h.changed()
	}
	return true
}

func comparePartitions(a, b fsm.PartitionID) int {
	if c := slices.Compare(a.Topic[:], b.Topic[:]); c != 0 {
		return c
	}
	return cmp.Compare(a.Partition, b.Partition)
}

func sortedKeys[V any](m map[fsm.PartitionID]V) []fsm.PartitionID {
	return slices.SortedFunc(maps.Keys(m), comparePartitions)
}

func sortedInts[V any](m map[int32]V) []int32 { return slices.Sorted(maps.Keys(m)) }

func (h *hosted) String() string { return fmt.Sprintf("%s of %s", h.b.s.check.name(h.id), h.b.name) }
