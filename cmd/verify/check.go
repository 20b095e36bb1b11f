package verify

import (
	"cmp"
	"fmt"
	"slices"
)

// Acked is a record whose producer was told that it is kept.
type Acked struct {
	ID        ID
	Partition int32
	// Offset that the acknowledgement named.
	Offset int64
}

// Read is a record as a consumer found it.
type Read struct {
	ID        ID
	Partition int32
	Offset    int64
	// Damage tells why the value is not one of ours; empty if it is intact.
	Damage string
}

// Kind is the way in which the cluster broke its word.
type Kind string

// The kinds of violation.
const (
	// Lost: an acknowledged record is nowhere in the log.
	Lost Kind = "lost"
	// Moved: an acknowledged record is in the log, at another place than the acknowledgement named.
	Moved Kind = "moved"
	// Doubled: one record stands in the log more than once.
	Doubled Kind = "doubled"
	// Swapped: a producer's records stand in another order than they were sent in.
	Swapped Kind = "swapped"
	// Changed: a record's bytes are not those that were sent.
	Changed Kind = "changed"
	// Gap: an offset is missing between two that were read.
	Gap Kind = "gap"
)

// Violation is one broken promise.
type Violation struct {
	Kind   Kind
	Detail string
}

// String gives the violation as one line.
func (v Violation) String() string { return string(v.Kind) + ": " + v.Detail }

// place is where a record stands.
type place struct {
	partition int32
	offset    int64
}

// Check compares what was acknowledged with all that was read of the topic, from offset 0 of each partition.
// Records that were sent and never acknowledged may or may not be in the log; they count for Doubled and Swapped.
// It expects idempotent producers: without idempotence a retry may double a record legally.
func Check(acked []Acked, read []Read) []Violation {
	byPlace := slices.Clone(read)
	slices.SortStableFunc(byPlace, func(a, b Read) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	found, violations := index(byPlace)
	violations = append(violations, checkOrder(byPlace)...)
	for _, a := range acked {
		if v, broken := checkAcked(a, found); broken {
			violations = append(violations, v)
		}
	}
	return violations
}

// index maps each record to where it stands, and reports what is damaged or doubled.
func index(byPlace []Read) (map[ID]place, []Violation) {
	var violations []Violation
	found := make(map[ID]place, len(byPlace))
	for _, r := range byPlace {
		if r.Damage != "" {
			violations = append(violations, Violation{Changed, fmt.Sprintf("partition %d offset %d: %s", r.Partition, r.Offset, r.Damage)})
			continue
		}
		if first, twice := found[r.ID]; twice {
			violations = append(violations, Violation{Doubled, fmt.Sprintf("record %v at partition %d offset %d and at partition %d offset %d",
				r.ID, first.partition, first.offset, r.Partition, r.Offset)})
			continue
		}
		found[r.ID] = place{r.Partition, r.Offset}
	}
	return found, violations
}

// checkOrder walks each partition in offset order: offsets are dense, and each producer's sequences grow.
func checkOrder(byPlace []Read) []Violation {
	type stream struct {
		partition int32
		producer  uint32
	}
	var violations []Violation
	last := map[stream]ID{}
	for i, r := range byPlace {
		if i > 0 && byPlace[i-1].Partition == r.Partition && byPlace[i-1].Offset+1 != r.Offset {
			violations = append(violations, Violation{Gap, fmt.Sprintf("partition %d: offset %d follows %d", r.Partition, r.Offset, byPlace[i-1].Offset)})
		}
		if r.Damage != "" {
			continue
		}
		s := stream{r.Partition, r.ID.Producer}
		if before, seen := last[s]; seen && before.Sequence > r.ID.Sequence {
			violations = append(violations, Violation{Swapped, fmt.Sprintf("partition %d offset %d: record %v after %v", r.Partition, r.Offset, r.ID, before)})
		}
		last[s] = r.ID
	}
	return violations
}

// checkAcked looks for one acknowledged record at the place that its acknowledgement named.
func checkAcked(a Acked, found map[ID]place) (Violation, bool) {
	at, kept := found[a.ID]
	switch {
	case !kept:
		return Violation{Lost, fmt.Sprintf("record %v, acknowledged at partition %d offset %d", a.ID, a.Partition, a.Offset)}, true
	case at != place{a.Partition, a.Offset}:
		return Violation{Moved, fmt.Sprintf("record %v, acknowledged at partition %d offset %d, stands at partition %d offset %d",
			a.ID, a.Partition, a.Offset, at.partition, at.offset)}, true
	default:
		return Violation{}, false
	}
}
