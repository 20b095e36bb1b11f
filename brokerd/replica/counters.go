package replica

import "sync/atomic"

// counters count since the start of the process.
type counters struct {
	batches, bytesIn, appendErrors    atomic.Int64
	bytesCopied, truncations          atomic.Int64
	isrExpands, isrShrinks, fetchFail atomic.Int64
}

func (c *counters) appended(bytes int, err error) {
	if err != nil {
		c.appendErrors.Add(1)
		return
	}
	c.batches.Add(1)
	c.bytesIn.Add(int64(bytes))
}

// altered counts a granted wish by whether the ISR has grown or shrunk in it.
func (c *counters) altered(w wish) {
	if w.grows {
		c.isrExpands.Add(1)
	} else {
		c.isrShrinks.Add(1)
	}
}

// Stats are the manager's figures of this moment. Counters count since the start of the process.
type Stats struct {
	// Partitions held here, of which Led and Followed have that role; Failed serve nothing.
	Partitions, Led, Followed, Failed int
	// UnderReplicated are led here with an ISR smaller than the replicas, UnderMinISR with one smaller than
	// min.insync.replicas.
	UnderReplicated, UnderMinISR int
	// Batches and BytesIn were appended as leader, BytesCopied as follower.
	Batches, BytesIn, BytesCopied int64
	// AppendErrors, Truncations, FetchErrors, ISRExpands and ISRShrinks count events.
	AppendErrors, Truncations, FetchErrors, ISRExpands, ISRShrinks int64
}

// Stats counts.
func (m *Manager) Stats() Stats {
	c := &m.counters
	s := Stats{
		Batches: c.batches.Load(), BytesIn: c.bytesIn.Load(), BytesCopied: c.bytesCopied.Load(),
		AppendErrors: c.appendErrors.Load(), Truncations: c.truncations.Load(), FetchErrors: c.fetchFail.Load(),
		ISRExpands: c.isrExpands.Load(), ISRShrinks: c.isrShrinks.Load(),
	}
	for _, p := range m.held() {
		s.Partitions++
		p.count(&s)
	}
	return s
}

func (p *Partition) count(s *Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failed != nil:
		s.Failed++
	case p.leader != nil:
		s.Led++
		if len(p.leader.isr.committed) < len(p.leader.replicas) {
			s.UnderReplicated++
		}
		if p.leader.underMinISR(p.view()) {
			s.UnderMinISR++
		}
	case p.follower != nil:
		s.Followed++
	}
}
