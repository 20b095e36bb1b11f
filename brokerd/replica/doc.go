// Package replica holds the replicas of one broker: their roles, the in-sync replicas and the high watermark of
// those it leads, and the fetching of those it follows.
//
// The rules are in a pure core that takes time and metadata as arguments: leader and follower (role.go), the
// ISR's three phases (isr.go) and the high watermark (watermark.go). Partition is the shell around one role and
// one log; Manager holds the partitions and turns metadata deltas into roles. The package never asks the
// controller on the path of a request: wishes for another ISR go out through the proposer and come back as
// metadata, like everybody's news.
//
// Who calls: Manager.Apply, Confirm on the goroutine of the metadata follower, one delta after another; Append,
// AwaitReplicated, Fetch, ListOffset, EpochEnd on any goroutine. Goroutines of its own: one fetcher for each
// broker that leads something we follow, one proposer, one housekeeper (ISR shrinking, high watermark
// checkpoint, retention).
//
// Locks: Manager.mu guards the map of partitions only; Partition.mu guards role, high watermark and waiters, and
// covers the append. They never nest with each other, and neither is held across a wait, an fsync or the network.
// Partition.mu is held while the log's own lock is taken, never the other way round.
//
// Invariants (numbers as in ARCHITECTURE.md):
//
//	I12  high watermark <= end offset of every member of the maximal ISR; within a leader epoch it never falls
//	I13  acks=all answered => the record is on every ISR member of that moment, and there were min.insync.replicas
//	I14  only the leader of the current leader epoch appends; a follower truncates before it fetches
//	I15  a joiner counts for the high watermark as soon as it is wished for, a leaver until its leaving is committed
//	I16  start <= high watermark <= end
//	I17  nothing below the high watermark changes while one ISR member keeps its bytes
//	I22  nothing is put away on the strength of metadata that the quorum has not confirmed
package replica
