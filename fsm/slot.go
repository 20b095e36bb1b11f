package fsm

import "slices"

const (
	// chunkPartitions is the number of partitions that are copied together when one of them changes.
	chunkPartitions = 64
	// inlineReplicas is the number of replicas that a slot holds itself.
	inlineReplicas = 4
)

// slot is a partition packed into 28 bytes without a pointer, so that a million of them cost the garbage
// collector nothing to scan. What it cannot express lives in the side table of its chunk.
//
//	replicas        4 x int32   broker ids, the first count of them used
//	leaderEpoch     int32
//	partitionEpoch  int32
//	isr             bits 0..2 the number of members, then two bits for each: its position in replicas, in ISR order
//	shape           bits 0..2 the number of replicas, then the flags below
//	leader          position in replicas, -1 for none
type slot struct {
	replicas       [inlineReplicas]int32
	leaderEpoch    int32
	partitionEpoch int32
	isr            uint16
	shape          uint8
	leader         int8
}

const (
	shapeCount      = 0b0000_0111
	shapeRecovering = 0b0000_1000
	shapeAwaiting   = 0b0001_0000
	// shapeRare says that the side table of the chunk has the partition and the slot says nothing else.
	shapeRare = 0b1000_0000

	isrCount    = 0b111
	isrCountLen = 3
	isrPosLen   = 2
)

// packSlot packs p, or reports that it does not fit.
func packSlot(p *Partition) (slot, bool) {
	if len(p.Replicas) > inlineReplicas || len(p.ISR) > inlineReplicas {
		return slot{}, false
	}
	if len(p.Adding)+len(p.Removing)+len(p.ELR)+len(p.LastKnownELR)+len(p.Directories) != 0 {
		return slot{}, false
	}
	s := slot{leaderEpoch: p.LeaderEpoch, partitionEpoch: p.PartitionEpoch, leader: -1}
	copy(s.replicas[:], p.Replicas)
	s.shape = uint8(len(p.Replicas))
	if p.Recovering {
		s.shape |= shapeRecovering
	}
	if p.AwaitingInventory {
		s.shape |= shapeAwaiting
	}
	s.isr = uint16(len(p.ISR))
	for i, id := range p.ISR {
		pos := slices.Index(p.Replicas, id)
		if pos < 0 {
			return slot{}, false
		}
		s.isr |= uint16(pos) << (isrCountLen + isrPosLen*i)
	}
	if p.Leader != NoLeader {
		pos := slices.Index(p.Replicas, p.Leader)
		if pos < 0 {
			return slot{}, false
		}
		s.leader = int8(pos)
	}
	return s, true
}

// unpack is the reverse of packSlot. Both lists share one allocation.
func (s *slot) unpack() Partition {
	replicas, members := int(s.shape&shapeCount), int(s.isr&isrCount)
	ids := make([]int32, replicas+members)
	copy(ids, s.replicas[:replicas])
	for i := range members {
		ids[replicas+i] = s.replicas[s.isrPosition(i)]
	}
	return Partition{
		Replicas:          ids[:replicas:replicas],
		ISR:               ids[replicas:],
		Leader:            s.leaderID(),
		LeaderEpoch:       s.leaderEpoch,
		PartitionEpoch:    s.partitionEpoch,
		Recovering:        s.shape&shapeRecovering != 0,
		AwaitingInventory: s.shape&shapeAwaiting != 0,
	}
}

// isrPosition returns where the i-th member of the ISR stands in replicas.
func (s *slot) isrPosition(i int) int {
	return int(s.isr>>(isrCountLen+isrPosLen*i)) & (1<<isrPosLen - 1)
}

func (s *slot) leaderID() int32 {
	if s.leader < 0 {
		return NoLeader
	}
	return s.replicas[s.leader]
}

// chunk is a run of partitions of one topic. It is immutable once its image is published.
type chunk struct {
	slots []slot
	// rare is the side table by place in the chunk, nil when every partition fits its slot.
	rare map[int]*Partition
}

// clone copies the chunk for one entry to write to.
func (c *chunk) clone() *chunk {
	d := &chunk{slots: slices.Clone(c.slots)}
	if c.rare != nil {
		d.rare = make(map[int]*Partition, len(c.rare))
		for i, p := range c.rare {
			d.rare[i] = p
		}
	}
	return d
}

// compact gives back what growing has reserved, in a chunk that is not published yet.
func (c *chunk) compact() {
	if cap(c.slots) > len(c.slots) {
		c.slots = append(make([]slot, 0, len(c.slots)), c.slots...)
	}
	if len(c.rare) == 0 {
		c.rare = nil
	}
}

func (c *chunk) get(i int) Partition {
	if c.slots[i].shape&shapeRare != 0 {
		return c.rare[i].clone()
	}
	return c.slots[i].unpack()
}

// set writes partition i of a chunk that is not published yet.
func (c *chunk) set(i int, p *Partition) {
	if i == len(c.slots) {
		c.slots = append(c.slots, slot{})
	}
	s, fits := packSlot(p)
	if fits {
		c.slots[i] = s
		delete(c.rare, i)
		return
	}
	if c.rare == nil {
		c.rare = make(map[int]*Partition)
	}
	q := p.clone()
	c.rare[i] = &q
	c.slots[i] = slot{shape: shapeRare, leader: -1}
}

// leader returns the leader of partition i without unpacking it.
func (c *chunk) leader(i int) int32 {
	if c.slots[i].shape&shapeRare != 0 {
		return c.rare[i].Leader
	}
	return c.slots[i].leaderID()
}

// awaits reports whether partition i awaits inventories without unpacking it.
func (c *chunk) awaits(i int) bool {
	if c.slots[i].shape&shapeRare != 0 {
		return c.rare[i].AwaitingInventory
	}
	return c.slots[i].shape&shapeAwaiting != 0
}

// preferred returns the first replica of partition i without unpacking it.
func (c *chunk) preferred(i int) int32 {
	if c.slots[i].shape&shapeRare != 0 {
		if len(c.rare[i].Replicas) == 0 {
			return NoLeader
		}
		return c.rare[i].Replicas[0]
	}
	return c.slots[i].replicas[0]
}

// hasReplica reports whether broker is a replica of partition i without unpacking it.
func (c *chunk) hasReplica(i int, broker int32) bool {
	s := &c.slots[i]
	if s.shape&shapeRare != 0 {
		return slices.Contains(c.rare[i].Replicas, broker)
	}
	return slices.Contains(s.replicas[:s.shape&shapeCount], broker)
}

// hasISR reports whether broker is in the ISR of partition i without unpacking it.
func (c *chunk) hasISR(i int, broker int32) bool {
	s := &c.slots[i]
	if s.shape&shapeRare != 0 {
		return slices.Contains(c.rare[i].ISR, broker)
	}
	for m := range int(s.isr & isrCount) {
		if s.replicas[s.isrPosition(m)] == broker {
			return true
		}
	}
	return false
}

// clone copies p with its lists, so that nobody can write to what an image holds.
func (p *Partition) clone() Partition {
	q := *p
	q.Replicas = slices.Clone(p.Replicas)
	q.ISR = slices.Clone(p.ISR)
	q.Adding = slices.Clone(p.Adding)
	q.Removing = slices.Clone(p.Removing)
	q.ELR = slices.Clone(p.ELR)
	q.LastKnownELR = slices.Clone(p.LastKnownELR)
	q.Directories = slices.Clone(p.Directories)
	return q
}

// eachReplica calls f for every replica of partition i without unpacking it.
func (c *chunk) eachReplica(i int, f func(broker int32)) {
	s := &c.slots[i]
	list := s.replicas[:s.shape&shapeCount]
	if s.shape&shapeRare != 0 {
		list = c.rare[i].Replicas
	}
	for _, id := range list {
		f(id)
	}
}
