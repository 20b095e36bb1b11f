package main

import (
	"slices"

	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// truth is what is so of one partition: the metadata as committed, and every record that anybody was told is safe.
type truth struct {
	replicas, isr                       []int32
	leader, leaderEpoch, partitionEpoch int32
	gone                                bool
	// isrAt is the ISR by partition epoch, leaderAt the leader by leader epoch.
	isrAt    map[int32][]int32
	leaderAt map[int32]int32
	// promised is the value by offset that was acknowledged or read; 0 where nothing was. offsets finds it again.
	promised []uint64
	offsets  map[uint64]int64
	// damaged brokers lost bytes of this partition in a power cut and are still in the ISR.
	damaged map[int32]bool
	// excused is set for good when no ISR member had kept its bytes: I17 promises nothing then.
	excused bool
}

func newTruth(replicas, isr []int32, leader int32) *truth {
	return &truth{
		replicas: replicas, isr: isr, leader: leader, isrAt: map[int32][]int32{0: isr}, leaderAt: map[int32]int32{0: leader},
		offsets: map[uint64]int64{}, damaged: map[int32]bool{},
	}
}

// change folds a record, and returns who joined the ISR.
func (t *truth) change(p *metadatav1.PartitionChange) (joined []int32) {
	t.partitionEpoch++
	if p.Leader != nil {
		t.leader = p.GetLeader()
		t.leaderEpoch++
		t.leaderAt[t.leaderEpoch] = t.leader
	}
	if p.Isr != nil {
		for _, id := range p.GetIsr().GetIds() {
			if !slices.Contains(t.isr, id) {
				joined = append(joined, id)
			}
		}
		t.isr = p.GetIsr().GetIds()
	}
	t.isrAt[t.partitionEpoch] = t.isr
	for id := range t.damaged {
		if !slices.Contains(t.isr, id) {
			delete(t.damaged, id)
		}
	}
	return joined
}

// keeps tells whether a broker's disk holds a promise.
func (t *truth) safe(shadow []record, offset int64) bool {
	return offset < int64(len(shadow)) && shadow[offset].value == t.promised[offset]
}

// shadow is what a broker's disk holds of a partition.
func (c *checker) shadow(broker int32, id fsm.PartitionID) []record {
	if d := c.s.brokerByID(broker).disks[id]; d != nil {
		return d.shadow
	}
	return nil
}

// changedISR checks that who joined has everything that was promised, and so does who was elected (I17).
func (c *checker) changedISR(id fsm.PartitionID, t *truth, joined []int32) {
	for _, broker := range joined { // one that lost its power since its leader asked for it
		if d := c.s.brokerByID(broker).disks[id]; d != nil && d.short {
			t.damaged[broker] = true
		}
	}
	c.excuse(t)
	if t.excused {
		return
	}
	for _, broker := range joined {
		if t.damaged[broker] {
			continue
		}
		shadow := c.shadow(broker, id)
		for offset, value := range t.promised {
			if value != 0 && !t.safe(shadow, int64(offset)) {
				c.s.fail(17, "broker %d joined the ISR of %s without the record at %d; its log ends at %d", broker, c.name(id), offset, len(shadow))
				return
			}
		}
	}
}

// excuse gives up on a partition of whose ISR nobody kept all bytes.
func (c *checker) excuse(t *truth) {
	if t.excused || len(t.isr) == 0 {
		return
	}
	for _, id := range t.isr {
		if !t.damaged[id] {
			return
		}
	}
	t.excused = true
	c.s.stats.excused++
}

func (c *checker) excused(id fsm.PartitionID) bool {
	t := c.parts[id]
	return t == nil || t.excused
}

// powerLost looks at what a power cut left of a log, as the next start will.
func (c *checker) powerLost(b *broker, id fsm.PartitionID) {
	d, t := b.disks[id], c.parts[id]
	if t == nil {
		return
	}
	log, err := b.open(id, d)
	if err != nil {
		c.s.fail(17, "%s cannot open the log of %s after a power cut: %v", b.name, c.name(id), err)
		return
	}
	end := log.EndOffset()
	d.fs = d.fs.Kill()
	d.short = end < int64(len(d.shadow))
	if d.short && slices.Contains(t.isr, b.id) {
		t.damaged[b.id] = true
		c.excuse(t)
	}
}

// opened reads a log that was opened: a kill took nothing away, a power cut only from the end (I17).
func (c *checker) opened(h *hosted) {
	d, t := h.b.disks[h.id], c.parts[h.id]
	end := h.log.EndOffset()
	d.short = false
	lost := int64(len(d.shadow)) - end
	if lost > 0 && t != nil && !t.damaged[h.b.id] && !t.excused && slices.Contains(t.isr, h.b.id) {
		c.s.fail(17, "%s lost %d records in a restart without a power cut", h, lost)
		return
	}
	if lost < 0 {
		c.s.fail(17, "%s grew by %d records in a restart", h, -lost)
		return
	}
	before := d.shadow
	d.shadow = nil
	c.catchUp(h)
	for i, r := range d.shadow {
		if before[i] != r {
			c.s.fail(17, "%s had %v at %d before the restart and has %v", h, before[i], i, r)
			return
		}
	}
}

// catchUp reads what came into a log since it was last looked at, or notes that it was cut.
func (c *checker) catchUp(h *hosted) {
	d := h.b.disks[h.id]
	end := h.log.EndOffset()
	if end < int64(len(d.shadow)) {
		c.cut(h, end)
		d.shadow = d.shadow[:end:end]
	}
	for int64(len(d.shadow)) < end {
		info, err := h.log.Read(int64(len(d.shadow)), fetchBytes, end, true)
		if err != nil {
			c.s.fail(16, "%s cannot be read at %d: %v", h, len(d.shadow), err)
			return
		}
		records, err := parse(info.Records)
		if err != nil || len(records) == 0 {
			c.s.fail(16, "%s: %d records at %d: %v", h, len(records), len(d.shadow), err)
			return
		}
		for _, r := range records {
			if r.offset < int64(len(d.shadow)) {
				continue
			}
			if r.offset > int64(len(d.shadow)) {
				c.s.fail(16, "%s: offset %d follows %d", h, r.offset, len(d.shadow)-1)
				return
			}
			d.shadow = append(d.shadow, r.record)
		}
	}
}

// cut checks a truncation: an ISR member loses nothing that was promised (I17).
func (c *checker) cut(h *hosted, to int64) {
	c.s.stats.truncations++
	t := c.parts[h.id]
	if t == nil || t.excused || t.damaged[h.b.id] || !slices.Contains(t.isr, h.b.id) {
		return
	}
	for offset := to; offset < int64(len(t.promised)); offset++ {
		if t.promised[offset] != 0 {
			c.s.fail(17, "%s is in the ISR and cut the record at %d", h, offset)
			return
		}
	}
}

// cutBelowHigh is called when a follower cut below its high watermark: only an unclean election may lead to that.
func (c *checker) cutBelowHigh(h *hosted) {
	if t := c.parts[h.id]; t != nil && !t.excused && !t.damaged[h.b.id] {
		c.s.fail(17, "%s was cut below its high watermark", h)
	}
}

// partition checks a partition after something happened to it.
func (c *checker) partition(h *hosted) {
	c.catchUp(h)
	st := h.solo.State()
	if st.Start > st.High || st.High > st.End {
		c.s.fail(16, "%s: start %d, high watermark %d, end %d", h, st.Start, st.High, st.End)
		return
	}
	t := c.parts[h.id]
	if t == nil || t.excused {
		return
	}
	if h.highEpoch == st.LeaderEpoch && st.High < h.high && st.Leader {
		c.s.fail(12, "%s: high watermark fell from %d to %d in leader epoch %d", h, h.high, st.High, st.LeaderEpoch)
		return
	}
	if h.highEpoch == st.LeaderEpoch && st.Leader && st.High > h.high && !st.EnoughInSync {
		c.s.fail(13, "%s: high watermark rose from %d to %d with ISR %v, fewer than min.insync.replicas", h, h.high, st.High, st.ISR)
		return
	}
	h.high, h.highEpoch = st.High, st.LeaderEpoch
	if st.Leader {
		c.believes(h, st)
		c.leader(h, t, st)
	}
}

// leader checks what a leader believes (I12, I15).
func (c *checker) leader(h *hosted, t *truth, st replica.SoloState) {
	if t.leaderAt[st.LeaderEpoch] != h.b.id || st.LeaderEpoch > t.leaderEpoch {
		c.s.fail(14, "%s leads in leader epoch %d, which is broker %d's", h, st.LeaderEpoch, t.leaderAt[st.LeaderEpoch])
		return
	}
	isr, known := t.isrAt[st.PartitionEpoch]
	if !known || !slices.Equal(isr, st.ISR) {
		c.s.fail(15, "%s believes in ISR %v at partition epoch %d; committed is %v", h, st.ISR, st.PartitionEpoch, isr)
		return
	}
	if st.LeaderEpoch != t.leaderEpoch {
		return
	}
	for _, id := range t.isr {
		if id != h.b.id && !t.damaged[id] && int64(len(c.shadow(id, h.id))) < st.High {
			c.s.fail(12, "%s has high watermark %d; broker %d of ISR %v ends at %d", h, st.High, id, t.isr, len(c.shadow(id, h.id)))
			return
		}
	}
}

// appended checks that one broker appends in one leader epoch (I14).
func (c *checker) appended(h *hosted, a replica.Appended) {
	if t := c.parts[h.id]; t != nil && t.leaderAt[a.LeaderEpoch] != h.b.id {
		c.s.fail(14, "%s appended in leader epoch %d, which is broker %d's", h, a.LeaderEpoch, t.leaderAt[a.LeaderEpoch])
	}
}

// acknowledged checks an acknowledgement: the records are on every ISR member, and there are enough of them (I13).
func (c *checker) acknowledged(h *hosted, w *write) {
	t := c.parts[h.id]
	if t == nil {
		return
	}
	c.s.stats.acked += len(w.values)
	st := h.solo.State()
	if want := min(c.s.minISR(), len(t.replicas)); len(st.ISR) < want {
		c.s.fail(13, "%s acknowledges with ISR %v; min.insync.replicas is %d", h, st.ISR, want)
		return
	}
	for i, value := range w.values {
		c.promise(h.id, t, w.appended.BaseOffset+int64(i), value)
	}
}

// consumed checks what a client was given.
func (c *checker) consumed(id fsm.PartitionID, records []at) {
	t := c.parts[id]
	if t == nil {
		return
	}
	c.s.stats.consumed += len(records)
	for _, r := range records {
		c.promise(id, t, r.offset, r.value)
	}
}

// promise notes that somebody was told of a record: from then on it is there, at this offset and no other (I13, I17).
func (c *checker) promise(id fsm.PartitionID, t *truth, offset int64, value uint64) {
	for int64(len(t.promised)) <= offset {
		t.promised = append(t.promised, 0)
	}
	if t.excused || c.s.violation != nil {
		return
	}
	switch was := t.promised[offset]; {
	case was == value:
		return
	case was != 0:
		c.s.fail(17, "%s: the record at %d was %d and is %d", c.name(id), offset, was, value)
		return
	}
	if was, twice := t.offsets[value]; twice {
		c.s.fail(17, "%s: record %d is at %d and at %d", c.name(id), value, was, offset)
		return
	}
	t.promised[offset], t.offsets[value] = value, offset
	for _, broker := range t.isr {
		if !t.damaged[broker] && !t.safe(c.shadow(broker, id), offset) {
			c.s.fail(13, "%s: a client was told of record %d at %d, and broker %d of ISR %v does not have it", c.name(id), value, offset, broker, t.isr)
			return
		}
	}
}
