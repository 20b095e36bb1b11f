package fsm

// checkBatchEnd verifies what holds at the end of a batch only. Inside a batch a partition may for an instant be
// led by a broker that a later record unfences, or keep one that a later record fences. The cost follows what the
// batch changed.
func (f *fold) checkBatchEnd() error {
	for _, id := range f.touched.topics {
		if e := f.edits[id]; e.after != nil && e.after.count == 0 {
			return violation(0, "topic "+e.after.name, "has no partition")
		}
	}
	for _, id := range f.touched.partitions {
		e := f.edits[id.Topic]
		if e.after == nil {
			continue
		}
		p := e.after.get(id.Partition)
		if b := checkFencing(f.img, &p, partitionName{e.after.name, id.Partition}); b != nil {
			return b
		}
	}
	for _, id := range f.touched.fenced {
		if err := f.checkFenced(id); err != nil {
			return err
		}
	}
	return nil
}

// checkFenced verifies I7 for every partition of a broker that the batch fenced or removed.
func (f *fold) checkFenced(broker int32) error {
	if isUnfenced(f.img, broker) {
		return nil
	}
	if host, ok := f.base.index.hosts.Get(broker); ok {
		for it := host.topics.Iterator(); !it.Done(); {
			id, _, _ := it.Next()
			if _, edited := f.edits[id]; edited {
				continue
			}
			t, _ := f.base.topics.Get(id)
			if err := f.checkFencedIn(broker, t); err != nil {
				return err
			}
		}
	}
	for _, id := range f.order {
		if err := f.checkFencedIn(broker, f.edits[id].after); err != nil {
			return err
		}
	}
	return nil
}

func (f *fold) checkFencedIn(broker int32, t *Topic) error {
	if t == nil {
		return nil
	}
	for i := range t.count {
		c, at := t.at(i)
		if !c.hasISR(at, broker) {
			continue
		}
		p := c.get(at)
		if b := checkFencing(f.img, &p, partitionName{t.name, i}); b != nil {
			return b
		}
	}
	return nil
}

// checkFencing verifies I7 for one partition. A broker that is not registered counts as fenced.
func checkFencing(img *Image, p *Partition, object partitionName) *Violation {
	if p.Leader != NoLeader && !isUnfenced(img, p.Leader) {
		return violation(7, object.String(), "leader %d is fenced", p.Leader)
	}
	for _, id := range p.ISR {
		if isUnfenced(img, id) {
			continue
		}
		if len(p.ISR) > 1 || p.Leader != NoLeader || len(p.ELR) > 0 {
			return violation(7, object.String(), "fenced broker %d is in ISR %v with leader %d and ELR %v", id, p.ISR, p.Leader, p.ELR)
		}
	}
	return nil
}

func isUnfenced(img *Image, broker int32) bool {
	b, ok := img.brokers.Get(broker)
	return ok && !b.Fenced
}
