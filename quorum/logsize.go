package quorum

import (
	"cmp"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

const (
	// entryOverheadBytes is what an entry takes in the store beside its data: keys, times, framing.
	entryOverheadBytes = 64
	// markBytes and markEntries bound the piece of log between two marks, and so the error of every answer.
	markBytes   = 1 << 20
	markEntries = 4096
)

// logSize knows how many bytes of log lie behind an index. It keeps one mark for each piece of the log, not one for
// each entry: with 320 MiB of log there are some hundred marks.
type logSize struct {
	mu    sync.Mutex
	marks []logMark // ascending; guarded by mu
	last  uint64    // index of the last entry; guarded by mu
	total uint64    // bytes ever appended; guarded by mu
}

// logMark says how many bytes were appended before the entry at index.
type logMark struct{ index, before uint64 }

func entryBytes(log *raft.Log) uint64 {
	return uint64(len(log.Data)+len(log.Extensions)) + entryOverheadBytes
}

// append counts entries and gives their bytes.
func (s *logSize) append(logs []*raft.Log) (bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.total
	for _, log := range logs {
		s.mark(log.Index)
		s.total += entryBytes(log)
		s.last = log.Index
	}
	return int(s.total - before)
}

// mark opens a piece at index when the last one is full, or when the log has a gap there.
func (s *logSize) mark(index uint64) {
	if n := len(s.marks); n > 0 {
		last := s.marks[n-1]
		if s.total-last.before < markBytes && index-last.index < markEntries && index == s.last+1 {
			return
		}
	}
	s.marks = append(s.marks, logMark{index: index, before: s.total})
}

// deleteRange forgets a prefix or a suffix.
func (s *logSize) deleteRange(first, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last >= s.last {
		s.deleteSuffix(first)
		return
	}
	keep, found := slices.BinarySearchFunc(s.marks, last+1, func(m logMark, i uint64) int { return cmp.Compare(m.index, i) })
	if !found && keep > 0 {
		keep-- // the piece that last+1 lies in stays
	}
	s.marks = slices.Delete(s.marks, 0, keep)
}

func (s *logSize) deleteSuffix(first uint64) {
	keep, _ := slices.BinarySearchFunc(s.marks, first, func(m logMark, i uint64) int { return cmp.Compare(m.index, i) })
	if keep < len(s.marks) {
		s.total = s.marks[keep].before
	}
	s.marks = s.marks[:keep]
	s.last = first - 1
}

// since gives the bytes of the entries after index, and up to one piece more.
func (s *logSize) since(index uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index >= s.last || len(s.marks) == 0 {
		return 0
	}
	at, found := slices.BinarySearchFunc(s.marks, index+1, func(m logMark, i uint64) int { return cmp.Compare(m.index, i) })
	if !found {
		at = max(at-1, 0)
	}
	return s.total - s.marks[at].before
}

// trailing gives how many of the last entries fit in limit bytes.
func (s *logSize) trailing(limit uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.marks {
		if s.total-m.before <= limit {
			return s.last + 1 - m.index
		}
	}
	return 0
}
