package fsm

import "fmt"

// NewerSnapshotError is returned when a snapshot was written by a build that is newer than this one. Nothing of it was
// taken in.
type NewerSnapshotError struct {
	// What has the number: "snapshot version", "snapshot format" or "feature level".
	What string
	// Needs is the number that the snapshot has, Knows the greatest that this build reads.
	Needs, Knows int64
}

// Error returns for example "it needs snapshot format >= 2 and this build reads up to 1; nothing was touched".
func (e *NewerSnapshotError) Error() string {
	return fmt.Sprintf("it needs %s >= %d and this build reads up to %d; nothing was touched", e.What, e.Needs, e.Knows)
}
