package replica

import "slices"

// isrPhase tells whether the leader waits for the controller.
type isrPhase uint8

const (
	isrCommitted     isrPhase = iota // nothing is wished for
	isrPendingExpand                 // one follower is to join
	isrPendingShrink                 // followers are to leave
)

// isrState is a leader's in-sync replicas: the set that the metadata committed, and what the leader wishes.
// It is a value; each method returns the next one. At most one wish is out at a time.
type isrState struct {
	phase     isrPhase
	committed []int32 // Invariant (I8): no duplicates; the leader is a member.
	wished    []int32 // the set asked for; nil in isrCommitted
	// partitionEpoch of the committed set; a wish is based on it and dies with it.
	partitionEpoch int32
}

func committedISR(isr []int32, partitionEpoch int32) isrState {
	return isrState{phase: isrCommitted, committed: slices.Clone(isr), partitionEpoch: partitionEpoch}
}

// pending tells whether a wish is out.
func (s isrState) pending() bool { return s.phase != isrCommitted }

// maximal is the set that the high watermark waits for (I15): a joiner counts as soon as it is wished for,
// because the controller may already have committed it; a leaver counts until its leaving is committed.
func (s isrState) maximal() []int32 {
	if s.phase == isrPendingExpand {
		return s.wished
	}
	return s.committed
}

// has tells whether the committed set contains id.
func (s isrState) has(id int32) bool { return slices.Contains(s.committed, id) }

// expand wishes for id to join. The order of the committed set is kept, the joiner comes last.
func (s isrState) expand(id int32) isrState {
	s.phase = isrPendingExpand
	s.wished = append(slices.Clone(s.committed), id)
	return s
}

// shrink wishes for the members in out to leave.
func (s isrState) shrink(out []int32) isrState {
	s.phase = isrPendingShrink
	s.wished = slices.DeleteFunc(slices.Clone(s.committed), func(id int32) bool { return slices.Contains(out, id) })
	return s
}

// revert drops the wish: the controller refused it and nothing changed.
func (s isrState) revert() isrState { return committedISR(s.committed, s.partitionEpoch) }
