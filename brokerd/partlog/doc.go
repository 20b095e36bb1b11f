// Package partlog stores one partition's record batches on disk.
//
// It keeps Kafka's record batches (v2) byte for byte as they are sent and
// fetched, in segments, beside the small files that make them quick to find
// and safe to reopen: sparse offset and time indexes, the history of leader
// epochs, the state of idempotent producers. docs/formats/partition-log.md
// describes every file.
//
// # What it is not told
//
// Nothing about replication: no roles, no ISR, no high watermark. Whoever
// holds a Log (package replica) decides who may append and what may be read,
// and passes that in as a leader epoch and an upper bound.
//
// # Who calls it
//
// Any goroutine. Writers (append, truncate, retain, close) take turns at one
// gate; readers take none: they work on an immutable list of segments and
// positional reads, so a reader never waits for a writer's disk.
//
// # Invariants
//
// I16: start offset <= end offset; offsets only grow and are dense.
// I17: what was written survives a kill, what was flushed survives a power
// cut; nothing below the point of a requested truncation changes.
package partlog
