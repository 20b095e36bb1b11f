package partlog

import (
	"math"
	"time"
)

// Defaults of Options, those of Kafka where Kafka has the setting.
const (
	defaultSegmentBytes       = 1 << 30
	defaultSegmentAge         = 7 * 24 * time.Hour
	defaultIndexIntervalBytes = 4096
	defaultMaxBatchBytes      = 64 << 20
	defaultProducerExpiration = 24 * time.Hour
	defaultMaxProducers       = 1 << 16
)

// FlushPolicy says when an append is followed by an fsync.
type FlushPolicy int

const (
	// FlushNone leaves flushing to the operating system, as Kafka does: an
	// appended batch survives a kill of the process but not a power cut.
	FlushNone FlushPolicy = iota
	// FlushBatch makes an append return, and the end offset move, only once
	// the batch is on disk. Appends that wait at the same time share an fsync.
	FlushBatch
)

// Options of a log. The zero value of each field means its default.
type Options struct {
	// FS is the disk; nil is the operating system's.
	FS FS
	// TopicID and Partition are written into a new directory and compared
	// with those of an existing one (ErrIdentity).
	TopicID   [16]byte
	Partition int32
	// SegmentBytes is the size at which a segment is sealed (segment.bytes).
	SegmentBytes int64
	// SegmentAge is the age of its first batch at which a segment is sealed
	// (segment.ms).
	SegmentAge time.Duration
	// IndexIntervalBytes is how many bytes of log one index entry stands for.
	IndexIntervalBytes int
	// MaxBatchBytes bounds one record batch, written or read.
	MaxBatchBytes int
	// Flush says when an append reaches the disk.
	Flush FlushPolicy
	// ProducerExpiration is how long an idle idempotent producer is
	// remembered; MaxProducers bounds how many are.
	ProducerExpiration time.Duration
	MaxProducers       int
	// Timestamps visits offset and timestamp of each record of a batch in
	// order until visit returns false. It may decompress. Nil makes look-ups
	// by time answer with whole batches.
	Timestamps func(batch []byte, visit func(offset, timestampMs int64) bool) error
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Files bounds open files over all logs that share it; nil is a private
	// budget.
	Files *FileBudget
}

func (o Options) withDefaults() Options {
	setDefault(&o.SegmentBytes, defaultSegmentBytes)
	o.SegmentBytes = min(o.SegmentBytes, math.MaxInt32) // an index has 32 bits for a position
	setDefault(&o.SegmentAge, defaultSegmentAge)
	setDefault(&o.IndexIntervalBytes, defaultIndexIntervalBytes)
	setDefault(&o.MaxBatchBytes, defaultMaxBatchBytes)
	setDefault(&o.ProducerExpiration, defaultProducerExpiration)
	setDefault(&o.MaxProducers, defaultMaxProducers)
	if o.FS == nil {
		o.FS = OSFS{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Files == nil {
		o.Files = sharedFiles()
	}
	return o
}

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Origin says who made a batch; it decides which checks apply.
type Origin int

const (
	// OriginClient is a producer: sequence numbers are checked.
	OriginClient Origin = iota
	// OriginCoordinator is this broker's own group or transaction
	// coordinator: control batches are allowed, sequences are not checked.
	OriginCoordinator
)

// AppendOptions of one leader append.
type AppendOptions struct {
	// LogAppendTimeMs, when above 0, is stamped on the batch as its
	// timestamp (message.timestamp.type=LogAppendTime); otherwise (-1) the
	// producer's timestamps stay.
	LogAppendTimeMs int64
	Origin          Origin
}

// AppendInfo says what became of an append.
type AppendInfo struct {
	// BaseOffset and LastOffset are the first and last offset appended, or,
	// with Duplicate, those the batch got when it first came.
	BaseOffset, LastOffset int64
	// MaxTimestamp is the newest timestamp appended, in milliseconds.
	MaxTimestamp int64
	// LogStartOffset is the log's start offset at that moment.
	LogStartOffset int64
	// Duplicate says that nothing was written: the batch was there already.
	Duplicate bool
}

// ReadInfo is what Read found.
type ReadInfo struct {
	// Records are whole record batches as stored; empty when there is
	// nothing to read yet. The caller owns them.
	Records []byte
	// FirstOffset is the base offset of the first batch (it may lie below
	// the offset asked for); NextOffset is where the next Read goes on.
	FirstOffset, NextOffset int64
}

// RetentionPolicy says what Retain may delete.
type RetentionPolicy struct {
	// Bytes is the size above which the oldest segments go; below 0: no limit.
	Bytes int64
	// Age is how old a segment's newest record may be; 0 or below: no limit.
	Age time.Duration
	// UpTo keeps every record at or above it (the high watermark).
	UpTo int64
}
