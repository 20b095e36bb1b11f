package recordbatch

import (
	"fmt"
	"hash/crc32"
	"math"
)

// Limits of Validate.
type Limits struct {
	// MaxBytes bounds the batch (max.message.bytes); 0 is no limit.
	MaxBytes int
	// NowMs with MaxAfterMs bounds how far the newest timestamp may lie in
	// the future (message.timestamp.after.max.ms), with MaxBeforeMs how far
	// in the past; a bound of 0 is no limit.
	NowMs, MaxAfterMs, MaxBeforeMs int64
}

// Validate checks that b is exactly one batch a client may produce, by its
// header and checksum. It does not look at the records.
func Validate(b []byte, limits Limits) (Header, error) {
	h, err := Parse(b)
	if err != nil {
		return h, err
	}
	if h.Size() != int64(len(b)) {
		return h, fmt.Errorf("%w: length says %d bytes, got %d", ErrCorrupt, h.Size(), len(b))
	}
	if limits.MaxBytes > 0 && len(b) > limits.MaxBytes {
		return h, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(b), limits.MaxBytes)
	}
	if got := crc32.Checksum(b[21:], castagnoli); got != h.CRC {
		return h, fmt.Errorf("%w: checksum %08x, header says %08x", ErrCorrupt, got, h.CRC)
	}
	if err := h.checkFields(); err != nil {
		return h, err
	}
	return h, h.checkTimestamps(limits)
}

// Contents is what ValidateRecords learned from a batch's records.
type Contents struct {
	// MaxTimestampMs is the newest timestamp of a record. It differs from the
	// header's where a client lied or did not know; see SetMaxTimestamp.
	MaxTimestampMs int64
	// NullKeys says that a record has no key, which a compacted topic refuses.
	NullKeys bool
	// PlainBytes is the size of the records decompressed.
	PlainBytes int
}

// ValidateRecords reads the records of a batch that Validate let pass: they
// must parse, count as many as the header says, and carry the offset deltas
// 0, 1, 2, ... At most maxBytes are decompressed (ErrExpansion).
func ValidateRecords(b []byte, h Header, maxBytes int) (Contents, error) {
	if h.Size() != int64(len(b)) || len(b) < HeaderBytes {
		return Contents{}, fmt.Errorf("%w: length says %d bytes, got %d", ErrCorrupt, h.Size(), len(b))
	}
	plain, err := decompress(h.Codec(), b[HeaderBytes:], maxBytes)
	if err != nil {
		return Contents{}, err
	}
	contents := Contents{MaxTimestampMs: -1, PlainBytes: len(plain)}
	next := h.BaseOffset
	err = iteratePlain(h, plain, func(r Record) bool {
		contents.MaxTimestampMs = max(contents.MaxTimestampMs, r.TimestampMs)
		contents.NullKeys = contents.NullKeys || r.Key == nil
		if r.Offset != next {
			return false
		}
		next++
		return true
	})
	if err != nil {
		return Contents{}, err
	}
	if n := next - h.BaseOffset; n != int64(h.RecordCount) {
		return Contents{}, fmt.Errorf("%w: record %d of %d does not carry offset delta %d", ErrInvalidRecord, n, h.RecordCount, n)
	}
	return contents, nil
}

func (h Header) checkFields() error {
	switch {
	case !h.Codec().known():
		return fmt.Errorf("%w: %d", ErrUnsupportedCodec, h.Codec())
	case h.IsControl():
		return fmt.Errorf("%w: control batch from a client", ErrInvalidRecord)
	case h.RecordCount <= 0:
		return fmt.Errorf("%w: %d records", ErrInvalidRecord, h.RecordCount)
	case int64(h.LastOffsetDelta) != int64(h.RecordCount)-1:
		return fmt.Errorf("%w: last offset delta %d with %d records", ErrInvalidRecord, h.LastOffsetDelta, h.RecordCount)
	case h.BaseOffset < 0 || h.BaseOffset > math.MaxInt64-int64(h.RecordCount):
		return fmt.Errorf("%w: base offset %d", ErrInvalidRecord, h.BaseOffset)
	case h.IsTransactional() && h.ProducerID < 0:
		return fmt.Errorf("%w: transactional without a producer id", ErrInvalidRecord)
	case h.ProducerID >= 0 && (h.ProducerEpoch < 0 || h.BaseSequence < 0):
		return fmt.Errorf("%w: producer %d with epoch %d and sequence %d", ErrInvalidRecord, h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	case h.ProducerID < -1:
		return fmt.Errorf("%w: producer id %d", ErrInvalidRecord, h.ProducerID)
	}
	return nil
}

func (h Header) checkTimestamps(limits Limits) error {
	after, before := limits.MaxAfterMs, limits.MaxBeforeMs
	switch {
	case h.Attributes&AttrLogAppendTime != 0:
		return fmt.Errorf("%w: only a broker may stamp the append time", ErrInvalidTimestamp)
	case h.MaxTimestamp < -1 || h.BaseTimestamp < -1:
		return fmt.Errorf("%w: timestamps %d to %d", ErrInvalidTimestamp, h.BaseTimestamp, h.MaxTimestamp)
	case after > 0 && h.MaxTimestamp > limits.NowMs && h.MaxTimestamp-limits.NowMs > after:
		return fmt.Errorf("%w: newest is %d ms in the future, at most %d", ErrInvalidTimestamp, h.MaxTimestamp-limits.NowMs, after)
	case before > 0 && h.MaxTimestamp >= 0 && limits.NowMs-h.MaxTimestamp > before:
		return fmt.Errorf("%w: newest is %d ms in the past, at most %d", ErrInvalidTimestamp, limits.NowMs-h.MaxTimestamp, before)
	}
	return nil
}
