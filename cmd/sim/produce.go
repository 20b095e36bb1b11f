package main

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
)

const (
	produceTimeout = 10 * time.Second
	valueBytes     = 8
)

// producer writes records with numbers of its own to one topic, with acks=all and one request at a time. It is
// idempotent: a batch that was not acknowledged is sent again, to whoever leads by then, until it is.
type producer struct {
	proc
	s     *Sim
	topic string
	// pid is its producer id; sequence is that of its next record, by partition.
	pid      int64
	sequence map[fsm.PartitionID]int32
	// epoch is the newest leader epoch that it heard of, by partition: metadata never takes a client back to an older
	// leader (KIP-320).
	epoch map[fsm.PartitionID]int32
	// last is the offset of the last acknowledged record by partition: the next must come behind it.
	last map[fsm.PartitionID]int64
	// batch waits for its acknowledgement, nil if none does.
	batch *sending
	// topicID is the topic that it writes to, left are those that had the name before: metadata that is older than what
	// it has seen does not take it back to them.
	topicID fsm.UUID
	left    map[fsm.UUID]bool
}

// sending is a batch on its way.
type sending struct {
	id       fsm.PartitionID
	values   []uint64
	producer recordbatch.Producer
}

// write is a produce request at the leader.
type write struct {
	appended replica.Appended
	values   []uint64
	done     bool
	answer   func(err error)
}

// loop writes for ever.
func (p *producer) loop() {
	if p.s.quiet {
		return
	}
	p.s.agenda.after(p.s.between(p.s.opt.Think/10, 2*p.s.opt.Think), &p.proc, func() {
		if !p.write() {
			p.loop()
		}
	})
}

// write sends a batch; false when there is nobody to send it to.
func (p *producer) write() bool {
	s := p.s
	pick := s.rnd.IntN(64)
	if p.batch != nil {
		pick = int(p.batch.id.Partition)
	}
	id, leader, epoch, ok := s.route(p.topic, pick)
	if !ok || epoch < p.epoch[id] || p.left[id.Topic] {
		return false
	}
	if p.topicID != id.Topic {
		p.left[p.topicID], p.topicID = true, id.Topic
	}
	p.epoch[id] = epoch
	if p.batch == nil || p.batch.id != id {
		p.batch = p.next(id)
	}
	b := p.batch
	s.net.call(&p.proc, &leader.proc, produceTimeout+time.Second, func(answer func(func())) {
		leader.produce(b, func(base int64, err error) {
			answer(func() {
				p.answered(b, base, err)
				p.loop()
			})
		})
	}, p.loop)
	return true
}

// next makes a batch of records that were never sent.
func (p *producer) next(id fsm.PartitionID) *sending {
	s := p.s
	b := &sending{id: id, values: make([]uint64, 1+s.rnd.IntN(3)), producer: recordbatch.Producer{ID: p.pid, BaseSequence: p.sequence[id]}}
	for i := range b.values {
		s.values++
		b.values[i] = s.values
	}
	p.sequence[id] += int32(len(b.values))
	s.stats.produced += len(b.values)
	return b
}

// answered takes the leader's answer. A gap in the sequence means that an acknowledged batch is not there (I17).
func (p *producer) answered(b *sending, base int64, err error) {
	s := p.s
	if err != nil {
		if errors.Is(err, partlog.ErrOutOfOrderSequence) && !s.check.excused(b.id) {
			s.fail(17, "%s cannot go on with %s: %v", p.name, s.check.name(b.id), err)
		}
		return
	}
	p.batch = nil
	if was, ok := p.last[b.id]; ok && base <= was && !s.check.excused(b.id) {
		s.fail(17, "%s wrote to %s at %d after %d was acknowledged", p.name, s.check.name(b.id), base, was)
	}
	p.last[b.id] = base
}

// route finds a partition of a topic and its leader in its leader epoch, as some broker's metadata has it.
func (s *Sim) route(topic string, pick int) (id fsm.PartitionID, leader *broker, epoch int32, ok bool) {
	b := s.brokers[s.rnd.IntN(len(s.brokers))]
	if !b.up || b.img == nil {
		return id, nil, 0, false
	}
	t, ok := b.img.TopicByName(topic)
	if !ok {
		return id, nil, 0, false
	}
	i := int32(pick) % t.NumPartitions()
	p, _ := t.Partition(i)
	if p.Leader < 0 {
		return id, nil, 0, false
	}
	return fsm.PartitionID{Topic: t.ID(), Partition: i}, s.brokerByID(p.Leader), p.LeaderEpoch, true
}

// produce appends with acks=all and answers when the record is replicated, refused, or too late.
func (b *broker) produce(p *sending, answer func(base int64, err error)) {
	h := b.replicas[p.id]
	if h == nil {
		answer(0, replica.ErrUnknownPartition)
		return
	}
	records := make([]recordbatch.Record, len(p.values))
	for i, v := range p.values {
		records[i] = recordbatch.Record{TimestampMs: b.s.agenda.now / int64(time.Millisecond), Value: binary.BigEndian.AppendUint64(nil, v)}
	}
	batch, err := recordbatch.Build(records, recordbatch.BuildOptions{Producer: &p.producer})
	if err != nil {
		b.s.fail(0, "a batch cannot be built: %v", err)
		return
	}
	a, err := h.solo.Append(batch, replica.AppendOptions{Acks: replica.AcksAll, LeaderEpoch: -1})
	if err != nil {
		answer(0, err)
		return
	}
	b.s.check.appended(h, a)
	w := &write{appended: a, values: p.values}
	w.answer = func(err error) {
		if err == nil {
			b.s.check.acknowledged(h, w)
		}
		answer(a.BaseOffset, err)
	}
	h.writes = append(h.writes, w)
	b.s.agenda.after(produceTimeout, &b.proc, func() { w.finish(replica.ErrRequestTimedOut) })
	b.s.plant.hasty(w)
	h.changed()
}

func (w *write) finish(err error) {
	if !w.done {
		w.done = true
		w.answer(err)
	}
}

// look answers if the append is decided.
func (w *write) look(h *hosted) {
	if w.done {
		return
	}
	if decided, err := h.solo.Replicated(w.appended); decided {
		w.finish(err)
	}
}

// consumer reads one topic's partitions from the beginning, over and over.
type consumer struct {
	proc
	s      *Sim
	topic  string
	offset map[fsm.PartitionID]int64
}

func (c *consumer) loop() {
	if c.s.quiet {
		return
	}
	c.s.agenda.after(c.s.between(c.s.opt.Think/5, 4*c.s.opt.Think), &c.proc, func() {
		if !c.read() {
			c.loop()
		}
	})
}

func (c *consumer) read() bool {
	s := c.s
	id, leader, _, ok := s.route(c.topic, s.rnd.IntN(64))
	if !ok {
		return false
	}
	offset := c.offset[id]
	s.net.call(&c.proc, &leader.proc, 2*time.Second, func(answer func(func())) {
		records, next, err := leader.consume(id, offset)
		answer(func() {
			if err == nil {
				s.check.consumed(id, records)
				c.offset[id] = next
				if len(records) == 0 && s.rnd.IntN(4) == 0 {
					c.offset[id] = max(0, next-int64(s.rnd.IntN(200))) // read the last ones again
				}
			}
			c.loop()
		})
	}, c.loop)
	return true
}

// at is a record with its offset.
type at struct {
	offset int64
	record
}

// consume reads for a client, up to the high watermark.
func (b *broker) consume(id fsm.PartitionID, offset int64) ([]at, int64, error) {
	h := b.replicas[id]
	if h == nil {
		return nil, 0, replica.ErrUnknownPartition
	}
	res, _ := h.solo.Read(replica.FetchPartition{ID: id, Offset: offset, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 4096}, replica.ConsumerReplicaID, -1, true)
	if res.Err != nil {
		return nil, 0, res.Err
	}
	records, err := parse(res.Records)
	if err != nil {
		b.s.fail(16, "%s serves what cannot be read: %v", h, err)
		return nil, 0, err
	}
	records = slices.DeleteFunc(records, func(r at) bool { return r.offset < offset })
	next := offset
	if len(records) > 0 {
		next = records[len(records)-1].offset + 1
	}
	if len(records) > 0 && next > res.HighWatermark {
		b.s.fail(16, "%s serves offset %d with high watermark %d", h, next-1, res.HighWatermark)
	}
	return records, next, nil
}

// parse takes record batches apart.
func parse(batches []byte) ([]at, error) {
	var out []at
	for batch, err := range recordbatch.Split(batches) {
		if err != nil {
			return out, err
		}
		h, err := recordbatch.Parse(batch)
		if err != nil {
			return out, err
		}
		err = recordbatch.Iterate(batch, 1<<20, func(r recordbatch.Record) bool {
			if len(r.Value) == valueBytes {
				out = append(out, at{r.Offset, record{h.LeaderEpoch, binary.BigEndian.Uint64(r.Value)}})
			}
			return true
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
