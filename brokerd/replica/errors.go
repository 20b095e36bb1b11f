package replica

import "errors"

// What a partition refuses, as sentinels for errors.Is. The Kafka edge maps each to Kafka's code in one table;
// errors of partlog and recordbatch pass through unmapped. Unless said otherwise nothing was done.
var (
	// ErrUnknownPartition is returned when this broker holds no replica of the partition.
	ErrUnknownPartition = errors.New("this broker holds no replica of the partition")
	// ErrNotLeaderOrFollower is returned when this broker is not the leader, or is no longer. After an append
	// the outcome is unknown: the next leader may or may not have the records.
	ErrNotLeaderOrFollower = errors.New("this broker is not the leader of the partition")
	// ErrFencedLeaderEpoch is returned when the caller's leader epoch is older than ours.
	ErrFencedLeaderEpoch = errors.New("the caller's leader epoch is older than the broker's")
	// ErrUnknownLeaderEpoch is returned when the caller's leader epoch is newer than ours.
	ErrUnknownLeaderEpoch = errors.New("the caller's leader epoch is newer than the broker's")
	// ErrNotEnoughReplicas is returned to acks=all when the committed ISR is smaller than min.insync.replicas.
	ErrNotEnoughReplicas = errors.New("fewer in-sync replicas than min.insync.replicas")
	// ErrNotEnoughReplicasAfterAppend is returned when the ISR shrank below min.insync.replicas after the
	// append. The records stay in the log.
	ErrNotEnoughReplicasAfterAppend = errors.New("fewer in-sync replicas than min.insync.replicas after the append")
	// ErrRequestTimedOut is returned when the deadline passed before the ISR had the records. They stay in the log.
	ErrRequestTimedOut = errors.New("the in-sync replicas did not confirm in time")
	// ErrOffsetOutOfRange is returned when an offset is below the log's start or beyond what the caller may read.
	ErrOffsetOutOfRange = errors.New("offset is out of the range of the log")
	// ErrOffsetNotAvailable is returned by a new leader whose high watermark has not yet reached the start of
	// its leader epoch (KIP-207), so that it cannot tell the latest offset.
	ErrOffsetNotAvailable = errors.New("the new leader does not know the high watermark yet")
	// ErrLeaderEpochNotAbove is reported when the metadata gives this broker a leader epoch that is not above
	// every leader epoch in its log. The role is refused: the log knows a later leader than the metadata does.
	ErrLeaderEpochNotAbove = errors.New("the leader epoch is not above every leader epoch in the log")
	// ErrStorage is returned when the partition's log failed. It stays so until the broker starts again.
	ErrStorage = errors.New("the partition's log failed")
	// ErrClosed is returned by a manager that has stopped.
	ErrClosed = errors.New("the replica manager has stopped")
)
