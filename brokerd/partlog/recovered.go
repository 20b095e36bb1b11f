package partlog

import (
	"fmt"
	"slices"
	"strings"
)

// Recovered says what Open found and repaired.
type Recovered struct {
	// Unclean says that the log had not been closed.
	Unclean bool
	// CheckedFrom is the offset from which batches were read and their
	// checksums compared; CheckedBytes is how much that was.
	CheckedFrom, CheckedBytes int64
	// CutAt is the offset at which the log was cut and now ends, NoOffset if
	// it was whole. CutBytes were removed, CutSegments whole segments among
	// them, for Reason.
	CutAt, CutBytes int64
	CutSegments     int
	Reason          string
	// LostTo is the last offset that could be made out in what was cut, or
	// NoOffset. With it records from CutAt to LostTo are lost; without it
	// only the tail was torn, as a crash in the middle of a write leaves it.
	LostTo int64
	// Repaired names the small files that were missing or damaged and made
	// again from the batches.
	Repaired []string
}

func (r *Recovered) repaired(name string) {
	if !slices.Contains(r.Repaired, name) {
		r.Repaired = append(r.Repaired, name)
	}
}

// String says it in a line fit for an operator.
func (r Recovered) String() string {
	if !r.Unclean {
		return "closed cleanly"
	}
	parts := []string{fmt.Sprintf("not closed cleanly, checked %d bytes from offset %d", r.CheckedBytes, r.CheckedFrom)}
	if r.CutAt != NoOffset {
		parts = append(parts, fmt.Sprintf("cut at offset %d (%d bytes, %d whole segments: %s)", r.CutAt, r.CutBytes, r.CutSegments, r.Reason))
		if r.LostTo != NoOffset {
			parts = append(parts, fmt.Sprintf("offsets %d to %d are lost", r.CutAt, r.LostTo))
		} else {
			parts = append(parts, "a torn tail, no whole record batch in it")
		}
	}
	if len(r.Repaired) > 0 {
		parts = append(parts, "made again: "+strings.Join(r.Repaired, ", "))
	}
	return strings.Join(parts, "; ")
}
