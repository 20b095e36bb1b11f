package replica

import (
	"time"

	"github.com/skiffmq/skiff/fsm"
)

// Acks of a produce request, as Kafka numbers them.
const (
	AcksNone   int16 = 0
	AcksLeader int16 = 1
	AcksAll    int16 = -1
)

// ConsumerReplicaID is the replica id in the fetch of a client.
const ConsumerReplicaID int32 = -1

// AppendOptions of Manager.Append.
type AppendOptions struct {
	// Acks decides whether min.insync.replicas is checked before the append (AcksAll).
	Acks int16
	// LeaderEpoch that the caller believes in, -1 not to check.
	LeaderEpoch int32
}

// Appended tells where an append landed.
type Appended struct {
	ID fsm.PartitionID
	// LeaderEpoch in which the records were appended.
	LeaderEpoch int32
	// BaseOffset and LastOffset of the records; of a duplicate, those of the first time.
	BaseOffset, LastOffset int64
	// LogAppendTimeMs is the broker's time if the topic stamps it, else -1.
	LogAppendTimeMs int64
	// LogStartOffset of the partition.
	LogStartOffset int64
}

// FetchRequest reads partitions for a consumer or for a follower.
type FetchRequest struct {
	// ReplicaID is the follower's broker id, ConsumerReplicaID for a client.
	ReplicaID int32
	// ReplicaEpoch is the follower's broker epoch, -1 if it sends none.
	ReplicaEpoch int64
	// MaxWait is how long to wait for MinBytes.
	MaxWait time.Duration
	// MinBytes and MaxBytes bound all partitions together. The first record batch is returned even if it is larger.
	MinBytes, MaxBytes int
	// ReadCommitted reads up to the last stable offset.
	ReadCommitted bool
	// Partitions in the order in which they are filled.
	Partitions []FetchPartition
}

// FetchPartition is one partition of a fetch.
type FetchPartition struct {
	ID fsm.PartitionID
	// Offset to read from: of a follower, its log end offset.
	Offset int64
	// LogStartOffset of a follower's log.
	LogStartOffset int64
	// CurrentLeaderEpoch that the caller believes in, -1 not to check.
	CurrentLeaderEpoch int32
	// LastFetchedEpoch is the leader epoch of the record before Offset, -1 if there is none or the caller does not
	// tell. With it the leader recognises a log that is not a prefix of its own (KIP-595).
	LastFetchedEpoch int32
	// MaxBytes for this partition.
	MaxBytes int
}

// FetchResult is what was read of one partition.
type FetchResult struct {
	ID  fsm.PartitionID
	Err error
	// HighWatermark, LastStableOffset and LogStartOffset of the partition; -1 if they are not known. They are also
	// set beside ErrOffsetOutOfRange, so that a follower learns where the log is.
	HighWatermark, LastStableOffset, LogStartOffset int64
	// Records are whole record batches; never nil, and owned by the caller.
	Records []byte
	// Diverging is set when the caller's log parts from the leader's; Records is then empty.
	Diverging *EpochEnd
	// LeaderID and LeaderEpoch as this broker knows them, -1 if it does not.
	LeaderID, LeaderEpoch int32
}

// EpochEnd says that the records of Epoch, or of the greatest leader epoch below it, end before EndOffset. Both are
// -1 when the log has no such leader epoch.
type EpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// Timestamps with a meaning in ListOffsetQuery, as Kafka numbers them.
const (
	TimestampLatest   int64 = -1
	TimestampEarliest int64 = -2
	TimestampMax      int64 = -3
)

// ListOffsetQuery asks for an offset by time.
type ListOffsetQuery struct {
	// CurrentLeaderEpoch that the caller believes in, -1 not to check.
	CurrentLeaderEpoch int32
	// Timestamp in milliseconds since 1970, or one of the Timestamp constants.
	Timestamp int64
	// ReadCommitted answers TimestampLatest with the last stable offset.
	ReadCommitted bool
}

// ListOffsetResult is the first record at or after the time: -1 in all fields if there is none.
type ListOffsetResult struct {
	Offset, Timestamp int64
	LeaderEpoch       int32
}
