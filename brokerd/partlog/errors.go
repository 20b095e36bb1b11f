package partlog

import "errors"

var (
	// ErrCorruptBatch is returned when bytes are not what a record batch of
	// version 2 may be: length, magic, checksum or counts.
	ErrCorruptBatch = errors.New("partlog: corrupt record batch")
	// ErrBatchTooLarge is returned when a record batch exceeds
	// Options.MaxBatchBytes or could never fit in a segment.
	ErrBatchTooLarge = errors.New("partlog: record batch too large")
	// ErrOutOfOrderSequence is returned when an idempotent producer's batch
	// neither continues its last one nor repeats one of its last five.
	ErrOutOfOrderSequence = errors.New("partlog: out of order sequence number")
	// ErrInvalidProducerEpoch is returned when a batch carries a producer
	// epoch older than one the log has seen of that producer id.
	ErrInvalidProducerEpoch = errors.New("partlog: invalid producer epoch")
	// ErrOffsetOutOfRange is returned when an offset lies outside what the
	// log holds.
	ErrOffsetOutOfRange = errors.New("partlog: offset out of range")
	// ErrNonContiguous is returned when a follower's batch does not start at
	// the log's end offset.
	ErrNonContiguous = errors.New("partlog: offsets do not continue the log")
	// ErrLeaderEpoch is returned when a leader epoch is older than one the
	// log holds, or a batch's is newer than the epoch it was fetched in.
	ErrLeaderEpoch = errors.New("partlog: leader epoch out of order")
	// ErrStorage is returned when the disk refused. If what was begun could
	// be taken back the log goes on; if not, or if an fsync failed, every
	// later change returns ErrStorage until the log is opened again.
	ErrStorage = errors.New("partlog: storage failed")
	// ErrClosed is returned by every call on a closed or deleted log.
	ErrClosed = errors.New("partlog: log is closed")
	// ErrIdentity is returned by Open when the directory belongs to another
	// partition than the one asked for.
	ErrIdentity = errors.New("partlog: directory belongs to another partition")
	// ErrUnsupportedVersion is returned by Open when a file was written by a
	// newer version of this package.
	ErrUnsupportedVersion = errors.New("partlog: file version not supported")
)
