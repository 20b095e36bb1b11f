package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// chooser is where a random history takes its choices from: a seeded generator or rapid, which shrinks them.
type chooser interface{ IntN(n int) int }

// history makes up what may happen to an image next. What it proposes is mostly legal.
type history struct {
	chooser
	w *world
	// next numbers what must be new: topics, incarnations.
	next int
	// elected is the election that the last change made without all replicas.
	elected *metadatav1.RecoveryElected
}

func newHistory(w *world, c chooser) *history { return &history{chooser: c, w: w, next: 100} }

// entry returns the next entry: a claim or what one decision would write.
func (h *history) entry() Entry {
	if h.w.img.ClaimOffset() < 0 || h.IntN(12) == 0 {
		return h.w.claimEntry(int32(101+h.IntN(3)), max(h.w.img.ControllerEpoch(), h.w.img.EpochBase())+int64(h.IntN(2))+1)
	}
	return h.w.entry(h.records()...)
}

func (h *history) records() []record {
	switch h.IntN(10) {
	case 0, 1:
		return h.brokerRecords()
	case 2:
		return h.createTopic()
	case 3:
		return h.removeOrGrow()
	case 4:
		return []record{h.configChange()}
	case 5:
		if h.IntN(3) == 0 {
			return []record{h.featureOrQuota()}
		}
		return h.rest()
	default:
		return h.changes()
	}
}

// featureOrQuota states one of the rarer kinds, of few, so that they meet again.
func (h *history) featureOrQuota() record {
	switch h.IntN(4) {
	case 3:
		h.next++
		return &metadatav1.Record{Kind: &metadatav1.Record_RequestAnswered{RequestAnswered: &metadatav1.RequestAnswered{
			RequestId: uuid(h.next).Bytes(), RequestKind: "k", Answer: []byte{byte(h.next)},
		}}}
	case 0:
		return &metadatav1.Record{Kind: &metadatav1.Record_ClearElr{ClearElr: &metadatav1.ClearElr{}}}
	case 1:
		return &metadatav1.Record{Kind: &metadatav1.Record_FeatureLevel{FeatureLevel: &metadatav1.FeatureLevel{
			Name: fmt.Sprint("feature", h.IntN(2)), Level: int32(h.IntN(3)),
		}}}
	}
	r := &metadatav1.ClientQuota{Key: fmt.Sprint("key", h.IntN(2)), Entity: []*metadatav1.QuotaEntity{{Type: []string{"user", "client-id", "ip"}[h.IntN(3)]}}}
	if h.flip() {
		r.Entity[0].Name = proto.String(fmt.Sprint("n", h.IntN(2)))
	}
	if h.flip() {
		r.Value = proto.Float64(float64(1 + h.IntN(3)))
	}
	return &metadatav1.Record{Kind: &metadatav1.Record_ClientQuota{ClientQuota: r}}
}

func (h *history) flip() bool { return h.IntN(2) == 0 }

func (h *history) fresh() UUID { h.next++; return uuid(h.next) }

// brokerRecords registers, unfences, fences or unregisters a broker.
func (h *history) brokerRecords() []record {
	id := int32(1 + h.IntN(6))
	b, ok := h.w.img.Broker(id)
	switch {
	case !ok:
		h.next++
		return []record{registerRecord(id, h.w.img.NextOffset(), h.next)}
	case b.Epoch == VoidEpoch:
		r := registerRecord(id, h.w.img.NextOffset(), 1)
		r.GetRegisterBroker().IncarnationId = b.IncarnationID.Bytes()
		return []record{r}
	case b.Fenced && h.IntN(4) > 0:
		return []record{unfenceRecord(id, b.Epoch)}
	case b.Fenced && h.flip():
		h.next++
		return []record{registerRecord(id, h.w.img.NextOffset(), h.next)}
	}
	records := h.leaveAll(id)
	switch h.IntN(3) {
	case 0:
		return append(records, fenceRecord(h.w, id, true))
	case 1:
		h.next++
		return append(records, registerRecord(id, h.w.img.NextOffset()+int64(len(records)), h.next))
	default:
		return append(records, &metadatav1.Record{Kind: &metadatav1.Record_UnregisterBroker{UnregisterBroker: &metadatav1.UnregisterBroker{BrokerId: id, BrokerEpoch: b.Epoch}}})
	}
}

// leaveAll takes a broker out of every ISR, as fencing it does.
func (h *history) leaveAll(id int32) []record {
	var records []record
	for pid := range h.w.img.PartitionsOf(id) {
		p, _ := h.w.img.Partition(pid)
		isr := without(p.ISR, id)
		switch {
		case !slices.Contains(p.ISR, id):
		case len(isr) == 0:
			records = append(records, changeLeader(pid.Topic, pid.Partition, p.ISR, NoLeader))
			if len(p.ELR) > 0 {
				records[len(records)-1].GetPartitionChange().EligibleLeaderReplicas = &metadatav1.BrokerIDs{}
			}
		case p.Leader == id:
			records = append(records, changeLeader(pid.Topic, pid.Partition, isr, isr[h.IntN(len(isr))]))
		default:
			records = append(records, changeISR(pid.Topic, pid.Partition, isr))
		}
	}
	return records
}

// active returns the unfenced brokers among ids, in random order.
func (h *history) active(ids []int32) []int32 {
	var list []int32
	for _, id := range ids {
		if isUnfenced(h.w.img, id) {
			list = slices.Insert(list, h.IntN(len(list)+1), id)
		}
	}
	return list
}

func (h *history) createTopic() []record {
	id := h.fresh()
	// Few names, so that some collide and some are taken.
	name := fmt.Sprintf("%c%c%c", 'a'+h.IntN(3), "._-x"[h.IntN(4)], 'a'+h.IntN(3))
	records := []record{topicRecord(name, id)}
	if h.flip() {
		records = append(records, configRecord(TopicResource(name), "retention.ms", proto.String("1")))
	}
	// Now and then one that fills a chunk.
	n := 1 + h.IntN(3)
	if h.IntN(8) == 0 {
		n = chunkPartitions + h.IntN(3)
	}
	for i := range n {
		records = append(records, h.newPartition(id, int32(i)))
	}
	return records
}

func (h *history) newPartition(topic UUID, i int32) record {
	var replicas []int32
	for id := int32(1); id <= 6; id++ {
		if h.flip() {
			replicas = slices.Insert(replicas, h.IntN(len(replicas)+1), id)
		}
	}
	if len(replicas) == 0 {
		replicas = []int32{int32(1 + h.IntN(6))}
	}
	p := &metadatav1.Partition{TopicId: topic.Bytes(), PartitionId: i, Replicas: replicas, Isr: h.active(replicas), Leader: NoLeader}
	switch {
	case len(p.Isr) == 0:
		p.AwaitingInventory = true
	case h.IntN(5) > 0:
		p.Leader = p.Isr[0]
	}
	if h.IntN(6) == 0 {
		for range replicas {
			p.Directories = append(p.Directories, uuid(70+h.IntN(3)).Bytes())
		}
	}
	return &metadatav1.Record{Kind: &metadatav1.Record_Partition{Partition: p}}
}

// anyTopic returns a topic, nil if there is none.
func (h *history) anyTopic() *Topic {
	topics := slices.Collect(h.w.img.Topics())
	if len(topics) == 0 {
		return nil
	}
	return topics[h.IntN(len(topics))]
}

func (h *history) removeOrGrow() []record {
	t := h.anyTopic()
	if t == nil {
		return h.createTopic()
	}
	if h.IntN(3) == 0 {
		records := []record{removeTopicRecord(t.ID())}
		if h.flip() {
			id := h.fresh()
			records = append(records, topicRecord(t.Name(), id), h.newPartition(id, 0))
		}
		return records
	}
	return []record{h.newPartition(t.ID(), t.NumPartitions())}
}

func (h *history) configChange() record {
	r := BrokerResource([]string{"", "1", "2"}[h.IntN(3)])
	if t := h.anyTopic(); t != nil && h.flip() {
		r = TopicResource(t.Name())
	}
	var value *string
	if h.IntN(3) > 0 {
		value = proto.String([]string{"", "1", "2"}[h.IntN(3)])
	}
	return configRecord(r, []string{"a", "b", "retention.ms"}[h.IntN(3)], value)
}

func (h *history) rest() []record {
	var records []record
	if !h.w.img.Confirmed() && h.flip() {
		records = append(records, &metadatav1.Record{Kind: &metadatav1.Record_LineageConfirmed{LineageConfirmed: &metadatav1.LineageConfirmed{}}})
	}
	for b := range h.w.img.Brokers() {
		if b.Epoch == VoidEpoch {
			continue
		}
		records = append(records, &metadatav1.Record{Kind: &metadatav1.Record_ProducerIds{ProducerIds: &metadatav1.ProducerIDs{
			BrokerId: b.ID, BrokerEpoch: b.Epoch, NextProducerId: h.w.img.NextProducerID() + 1000,
		}}})
		break
	}
	node := int32(101 + h.IntN(3))
	return append(records, &metadatav1.Record{Kind: &metadatav1.Record_ControllerRegistered{ControllerRegistered: &metadatav1.ControllerRegistered{
		NodeId: node, DirectoryId: uuid(int(node)).Bytes(), IncarnationId: h.fresh().Bytes(),
	}}})
}

// changes changes a few partitions of one topic.
func (h *history) changes() []record {
	t := h.anyTopic()
	if t == nil {
		return h.createTopic()
	}
	var records []record
	for range 1 + h.IntN(4) {
		i := int32(h.IntN(int(t.NumPartitions())))
		p, _ := t.Partition(i)
		records = append(records, h.change(t.ID(), i, p))
		if e := h.elected; e != nil && len(e.GetMissing()) > 0 {
			records = append(records, recoveryRecord(e))
		}
		h.elected = nil
	}
	return append(records, h.late()...)
}

// late adds a report to an election that lacks one.
func (h *history) late() []record {
	for id, e := range h.w.img.RecoveryElections() {
		if len(e.Late) == 0 && h.flip() {
			r := e.Record(id)
			r.Late = []*metadatav1.LateInventory{{BrokerId: e.Missing[0], LogEndOffset: int64(h.IntN(20))}}
			return []record{recoveryRecord(r)}
		}
	}
	return nil
}

func recoveryRecord(e *metadatav1.RecoveryElected) record {
	return &metadatav1.Record{Kind: &metadatav1.Record_RecoveryElected{RecoveryElected: e}}
}

func (h *history) change(topic UUID, i int32, p Partition) record {
	c := &metadatav1.PartitionChange{TopicId: topic.Bytes(), PartitionId: i}
	isr := h.active(p.Replicas)
	if len(isr) > 1 {
		isr = isr[:1+h.IntN(len(isr))]
	}
	switch {
	case p.AwaitingInventory && len(isr) > 0:
		c.AwaitingInventory, c.Isr, c.Leader = proto.Bool(false), &metadatav1.BrokerIDs{Ids: isr[:1]}, proto.Int32(isr[0])
		c.LeaderEpoch = proto.Int32(p.LeaderEpoch + 1 + int32(h.IntN(5)))
		h.elected = &metadatav1.RecoveryElected{
			TopicId: topic.Bytes(), PartitionId: i, Leader: isr[0], LeaderEpoch: c.GetLeaderEpoch(), LogEndOffset: int64(h.IntN(9)),
			Missing: without(p.Replicas, isr[0]),
		}
	case len(isr) == 0:
		c.Leader = proto.Int32(NoLeader)
	case h.IntN(8) == 0:
		h.elr(c, p, isr)
	case h.IntN(8) == 0:
		h.reassign(c, p, isr)
	default:
		c.Isr, c.Leader = &metadatav1.BrokerIDs{Ids: isr}, proto.Int32(isr[h.IntN(len(isr))])
		c.EligibleLeaderReplicas, c.LastKnownElr = &metadatav1.BrokerIDs{}, &metadatav1.BrokerIDs{}
		c.Recovering = proto.Bool(len(isr) == 1 && h.flip())
	}
	return changeRecord(c)
}

// elr empties the ISR into the ELR.
func (h *history) elr(c *metadatav1.PartitionChange, p Partition, isr []int32) {
	c.Isr, c.Leader = &metadatav1.BrokerIDs{}, proto.Int32(NoLeader)
	c.EligibleLeaderReplicas = &metadatav1.BrokerIDs{Ids: isr}
	c.LastKnownElr = &metadatav1.BrokerIDs{Ids: p.Replicas[:1]}
}

// reassign adds a replica, or removes one that is not in the ISR.
func (h *history) reassign(c *metadatav1.PartitionChange, p Partition, isr []int32) {
	id := int32(1 + h.IntN(6))
	replicas := slices.Clone(p.Replicas)
	if slices.Contains(replicas, id) {
		replicas = without(replicas, id)
		isr = without(isr, id)
	} else {
		replicas = append(replicas, id)
		c.AddingReplicas = &metadatav1.BrokerIDs{Ids: []int32{id}}
	}
	c.Replicas, c.Isr = &metadatav1.BrokerIDs{Ids: replicas}, &metadatav1.BrokerIDs{Ids: isr}
	c.Leader = proto.Int32(NoLeader)
	c.EligibleLeaderReplicas, c.Directories = &metadatav1.BrokerIDs{}, &metadatav1.DirectoryIDs{}
}

// randomHistory applies n entries and returns those that took effect.
func randomHistory(w *world, seed uint64, n int) []Entry {
	h := newHistory(w, rand.New(rand.NewPCG(seed, seed)))
	var taken []Entry
	for range n {
		e := h.entry()
		if w.apply(e).Outcome == Applied {
			e.FirstOffset, e.ControllerEpoch = w.last.FirstOffset, w.last.ControllerEpoch
			taken = append(taken, e)
		}
	}
	return taken
}
