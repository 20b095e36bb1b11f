package partlog

import (
	"slices"
	"sort"
)

// epochEntry says that the records from startOffset on were appended in
// leader epoch epoch, up to the next entry's start.
type epochEntry struct {
	epoch       int32
	startOffset int64
}

// NoEpoch and NoOffset are the answers of EndOffsetForEpoch when the log
// cannot tell (Kafka's UNDEFINED_EPOCH and UNDEFINED_EPOCH_OFFSET).
const (
	NoEpoch  int32 = -1
	NoOffset int64 = -1
)

// epochHistory is the list of leader epochs of a log, oldest first.
//
// Invariant: both epoch and startOffset rise from entry to entry.
// A published history is never changed; each method returns a new one.
type epochHistory []epochEntry

func (h epochHistory) latest() (epochEntry, bool) {
	if len(h) == 0 {
		return epochEntry{}, false
	}
	return h[len(h)-1], true
}

// assign adds an entry, first dropping later ones that contradict it: those
// of a deposed leader that never counted. It reports whether anything changed.
func (h epochHistory) assign(entry epochEntry) (epochHistory, bool) {
	keep := len(h)
	// Newer epochs that begin no earlier have no record: their leaders were deposed before they appended anything.
	for keep > 0 && h[keep-1].startOffset >= entry.startOffset && h[keep-1].epoch > entry.epoch {
		keep--
	}
	if last, ok := h[:keep].latest(); ok && last.epoch == entry.epoch && last.startOffset <= entry.startOffset {
		return h[:keep:keep], keep < len(h)
	}
	for keep > 0 && (h[keep-1].epoch >= entry.epoch || h[keep-1].startOffset >= entry.startOffset) {
		keep--
	}
	return append(slices.Clone(h[:keep]), entry), true
}

// truncateEnd drops the entries that begin at or above end.
func (h epochHistory) truncateEnd(end int64) epochHistory {
	keep := len(h)
	for keep > 0 && h[keep-1].startOffset >= end {
		keep--
	}
	return h[:keep:keep]
}

// truncateStart drops what lies wholly below start; the entry that start
// falls into then begins there.
func (h epochHistory) truncateStart(start int64) epochHistory {
	first := sort.Search(len(h), func(i int) bool { return h[i].startOffset > start }) - 1
	if first < 0 || (first == 0 && h[0].startOffset == start) {
		return h
	}
	kept := slices.Clone(h[first:])
	kept[0].startOffset = start
	return kept
}

// endOffsetFor answers up to where this log and one that was last written in
// the given epoch can agree (Kafka's LeaderEpochFileCache.endOffsetFor): the
// largest known epoch not above the one asked for, and where it ends.
func (h epochHistory) endOffsetFor(epoch int32, logEnd int64) (int32, int64) {
	last, ok := h.latest()
	if epoch < 0 || !ok || epoch > last.epoch {
		return NoEpoch, NoOffset
	}
	if epoch == last.epoch {
		return epoch, logEnd
	}
	next := sort.Search(len(h), func(i int) bool { return h[i].epoch > epoch })
	if next == 0 {
		return epoch, h[0].startOffset
	}
	return h[next-1].epoch, h[next].startOffset
}
