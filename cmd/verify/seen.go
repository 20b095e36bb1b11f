package verify

import "fmt"

// The kinds of violation that only somebody who reads along can see.
const (
	// Vanished: a record that a consumer was given is no longer at its place in the log.
	Vanished Kind = "vanished"
	// StepBack: a consumer that reads on was given an offset that it had been given before.
	StepBack Kind = "step back"
	// Told: a client was told of an error that the cluster may not give.
	Told Kind = "told of an error"
)

// CheckSeen compares what one consumer was given, in that order, with all that was read of the topic at the end.
// A consumer is given records below the high watermark alone, and those stay (I17).
func CheckSeen(consumer string, seen, kept []Read) []Violation {
	at := make(map[place]ID, len(kept))
	for _, r := range kept {
		if r.Damage == "" {
			at[place{r.Partition, r.Offset}] = r.ID
		}
	}
	violations := checkReadOrder(consumer, seen)
	for _, r := range seen {
		id, there := at[place{r.Partition, r.Offset}]
		switch where := fmt.Sprintf("%s read record %v at partition %d offset %d", consumer, r.ID, r.Partition, r.Offset); {
		case r.Damage != "":
			violations = append(violations, Violation{Changed, where + ": " + r.Damage})
		case !there:
			violations = append(violations, Violation{Vanished, where + ", where nothing is now"})
		case id != r.ID:
			violations = append(violations, Violation{Vanished, fmt.Sprintf("%s, where %v is now", where, id)})
		}
	}
	return violations
}

// checkReadOrder walks what a consumer was given: in each partition the offsets follow one another.
func checkReadOrder(consumer string, seen []Read) []Violation {
	var violations []Violation
	next := map[int32]int64{}
	for _, r := range seen {
		want, begun := next[r.Partition]
		switch {
		case begun && r.Offset < want:
			violations = append(violations, Violation{StepBack, fmt.Sprintf("%s: partition %d: offset %d after %d", consumer, r.Partition, r.Offset, want-1)})
		case begun && r.Offset > want:
			violations = append(violations, Violation{Gap, fmt.Sprintf("%s: partition %d: offset %d after %d", consumer, r.Partition, r.Offset, want-1)})
		}
		next[r.Partition] = r.Offset + 1
	}
	return violations
}
