package replica

import "slices"

// effectiveMinISR is min.insync.replicas, but never more than there are replicas (KIP-966).
func (l *leader) effectiveMinISR(v view) int { return max(1, min(v.minISR, len(l.replicas))) }

// underMinISR tells whether the committed ISR is too small for acks=all.
func (l *leader) underMinISR(v view) bool { return len(l.isr.committed) < l.effectiveMinISR(v) }

// advance raises the high watermark to the smallest end offset that it must wait for, and tells whether it
// moved. It waits for this broker, for the maximal ISR (I12, I15), and for a follower outside it that is in
// time and may join: if the watermark ran ahead of that one, it could never catch up with it.
//
// It does not move at all while the committed ISR is under min ISR (KIP-966): what is below the watermark is
// then on enough replicas for an eligible leader to be found among them.
func (l *leader) advance(v view) bool {
	if l.underMinISR(v) {
		return false
	}
	high := l.end
	maximal := l.isr.maximal()
	for id, p := range l.followers {
		if p.end >= high {
			continue
		}
		if slices.Contains(maximal, id) || (p.inTime(l.end, v) && l.eligible(id, v)) {
			high = p.end
		}
	}
	if high <= l.high {
		return false
	}
	l.high = high
	return true
}

// localEnd tells how far this broker's own log counts now.
func (l *leader) localEnd(end int64) { l.end = end }
