package metadata

import (
	"errors"
	"fmt"

	"github.com/skiffmq/skiff/fsm"
)

var (
	// ErrUnsupportedVersion is returned by Open when a file was written by a newer build.
	ErrUnsupportedVersion = errors.New("file version is not supported by this build")
	// ErrBehind is returned to a source whose metadata is older than ours. Another source may do.
	ErrBehind = errors.New("the source's metadata is behind the broker's")
	// ErrClosed is returned by Await after the follower stopped.
	ErrClosed = errors.New("the metadata follower has stopped")
)

// ForeignLineageError ends the process: the quorum's lineage does not continue the broker's, so that following it
// would go back in history.
type ForeignLineageError struct {
	// Ours is the lineage of the broker's metadata log, Theirs the quorum's.
	Ours, Theirs fsm.LineageID
	// Dir is where the broker's metadata log is.
	Dir string
}

// Error implements error.
func (e *ForeignLineageError) Error() string {
	return fmt.Sprintf("the quorum's lineage %s does not continue this broker's %s (%s)", e.Theirs, e.Ours, e.Dir)
}

// ClusterError ends the process: the quorum is another cluster's.
type ClusterError struct {
	// Ours is the cluster id that the broker is pinned to, Theirs the quorum's.
	Ours, Theirs string
}

// Error implements error.
func (e *ClusterError) Error() string {
	return fmt.Sprintf("the quorum's cluster id is %s, this broker belongs to %s", e.Theirs, e.Ours)
}
