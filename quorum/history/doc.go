// Package history keeps every entry that took effect on a quorum node, beyond what Raft keeps, so that what was so at an
// earlier metadata offset, and why it changed, can be told later.
//
// A Log is a row of segments. Each begins with the image before its first entry and holds the entries that follow
// without a gap; between two segments there may be a gap, when the node was given a snapshot instead of the entries.
// Readers see what has been flushed, and read files without a lock. One goroutine writes.
//
// A Recorder is that goroutine: it follows the node's feed.
//
// The files are described in docs/formats/history.md. They are evidence and not state: a node whose history is damaged or
// gone goes on, and says what it cannot tell.
package history
