package partlog

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// rememberedBatches is how many batches of a producer can be told to be
// repeats: as many as a client may have in flight (Kafka's
// ProducerStateEntry.NUM_BATCHES_TO_RETAIN).
const rememberedBatches = 5

// sentBatch is one batch an idempotent producer has appended.
type sentBatch struct {
	firstSequence, lastSequence int32
	lastOffset                  int64
	offsetDelta                 int32
	maxTimestamp                int64
}

// producer is what the log knows of one producer id.
type producer struct {
	epoch int16
	// lastSeenMs is when it last appended: its newest timestamp or the
	// broker's clock, whichever is later.
	lastSeenMs int64
	// batches holds the last count batches of this epoch, oldest first.
	batches [rememberedBatches]sentBatch
	count   int
}

func (p *producer) sent() []sentBatch { return p.batches[:p.count] }

func (p *producer) remember(b sentBatch) {
	if p.count == rememberedBatches {
		copy(p.batches[:], p.batches[1:])
		p.count--
	}
	p.batches[p.count] = b
	p.count++
}

// producers is the state of the idempotent producers of a log, as of one
// offset.
type producers struct {
	byID map[int64]*producer
	// most bounds byID. When it is full those silent longest are forgotten,
	// which only means that their next sequence number is taken as it comes.
	most int
}

func newProducers(most int) *producers {
	return &producers{byID: make(map[int64]*producer), most: most}
}

// check judges a batch before it is appended (Kafka's ProducerAppendInfo). A
// repeat of a remembered batch returns what was appended then.
func (ps *producers) check(h header, origin Origin) (*sentBatch, error) {
	p, known := ps.byID[h.producerID]
	if h.producerID < 0 || !known {
		return nil, nil
	}
	if origin == OriginClient && h.idempotent() && h.producerEpoch == p.epoch {
		for _, b := range p.sent() {
			if b.firstSequence == h.baseSequence && b.lastSequence == h.lastSequence() {
				return &b, nil
			}
		}
	}
	if h.producerEpoch < p.epoch {
		return nil, fmt.Errorf("%w: producer %d sent epoch %d, the log has %d",
			ErrInvalidProducerEpoch, h.producerID, h.producerEpoch, p.epoch)
	}
	if origin != OriginClient || !h.idempotent() {
		return nil, nil
	}
	return nil, p.checkSequence(h)
}

func (p *producer) checkSequence(h header) error {
	want := int32(0)
	if h.producerEpoch == p.epoch && p.count > 0 {
		want = addSequence(p.batches[p.count-1].lastSequence, 1)
	}
	if h.baseSequence != want {
		return fmt.Errorf("%w: producer %d in epoch %d sent sequence %d, expected %d",
			ErrOutOfOrderSequence, h.producerID, h.producerEpoch, h.baseSequence, want)
	}
	return nil
}

// update takes note of a batch that was appended, at nowMs or, in a replay,
// at an unknown time (0).
func (ps *producers) update(h header, nowMs int64) {
	if h.producerID < 0 || h.producerEpoch < 0 {
		return
	}
	p := ps.byID[h.producerID]
	if p == nil {
		ps.makeRoom()
		p = &producer{epoch: h.producerEpoch}
		ps.byID[h.producerID] = p
	}
	if h.producerEpoch != p.epoch {
		p.epoch, p.count = h.producerEpoch, 0
	}
	p.lastSeenMs = max(p.lastSeenMs, h.maxTimestamp, nowMs)
	if h.idempotent() {
		p.remember(sentBatch{h.baseSequence, h.lastSequence(), h.lastOffset(), h.lastOffsetDelta, h.maxTimestamp})
	}
}

// makeRoom forgets an eighth of the producers when there is no room for one
// more, so that a stream of new ids pays for the search once in many.
func (ps *producers) makeRoom() {
	if len(ps.byID) < ps.most {
		return
	}
	type idle struct{ seenMs, id int64 }
	all := make([]idle, 0, len(ps.byID))
	for id, p := range ps.byID {
		all = append(all, idle{p.lastSeenMs, id})
	}
	slices.SortFunc(all, func(a, b idle) int {
		return cmp.Or(cmp.Compare(a.seenMs, b.seenMs), cmp.Compare(a.id, b.id))
	})
	for _, one := range all[:len(all)/8+1] {
		delete(ps.byID, one.id)
	}
}

// expire forgets producers that were silent for longer than age.
func (ps *producers) expire(now time.Time, age time.Duration) {
	oldest := now.Add(-age).UnixMilli()
	for id, p := range ps.byID {
		if p.lastSeenMs < oldest {
			delete(ps.byID, id)
		}
	}
}

// addSequence adds to a sequence number; they wrap at the largest int32.
func addSequence(sequence, delta int32) int32 {
	if sequence > math.MaxInt32-delta {
		return delta - (math.MaxInt32 - sequence) - 1
	}
	return sequence + delta
}
