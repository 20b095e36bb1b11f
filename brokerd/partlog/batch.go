package partlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// Where the fields of a record batch of version 2 stand (Kafka's
// DefaultRecordBatch). The checksum covers everything from attributes on, so
// base offset and leader epoch can be stamped without touching it.
const (
	atBaseOffset      = 0
	atBatchLength     = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atRecordCount     = 57
	batchHeaderBytes  = 61

	// batchPrefixBytes is what batchLength does not count: itself and the
	// base offset.
	batchPrefixBytes = 12
	batchMagic       = 2

	attrLogAppendTime = 1 << 3
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the fixed part of a record batch.
type header struct {
	baseOffset      int64
	size            int64 // of the whole batch, prefix included
	leaderEpoch     int32
	crc             uint32
	attributes      int16
	lastOffsetDelta int32
	maxTimestamp    int64
	producerID      int64
	producerEpoch   int16
	baseSequence    int32
	recordCount     int32
}

func (h header) lastOffset() int64 { return h.baseOffset + int64(h.lastOffsetDelta) }
func (h header) nextOffset() int64 { return h.lastOffset() + 1 }
func (h header) control() bool     { return h.attributes&attrControl != 0 }

// idempotent says whether the batch carries a producer's sequence numbers:
// control batches and what a coordinator writes for a transaction do not.
func (h header) idempotent() bool {
	return h.producerID >= 0 && h.producerEpoch >= 0 && h.baseSequence >= 0 && !h.control()
}

// lastSequence is the sequence number of the last record; sequences wrap at
// the largest int32.
func (h header) lastSequence() int32 { return addSequence(h.baseSequence, h.lastOffsetDelta) }

// parseHeader reads the fixed part of the batch at the start of b and checks
// what can be checked without the rest: magic, the bounds of the length, that
// counts and offsets are possible. It does not ask that b holds the whole.
func parseHeader(b []byte) (header, error) {
	if len(b) < batchHeaderBytes {
		return header{}, fmt.Errorf("%w: %d bytes, a header has %d", ErrCorruptBatch, len(b), batchHeaderBytes)
	}
	be := binary.BigEndian
	h := header{
		baseOffset:      int64(be.Uint64(b[atBaseOffset:])),
		size:            int64(int32(be.Uint32(b[atBatchLength:]))) + batchPrefixBytes,
		leaderEpoch:     int32(be.Uint32(b[atLeaderEpoch:])),
		crc:             be.Uint32(b[atCRC:]),
		attributes:      int16(be.Uint16(b[atAttributes:])),
		lastOffsetDelta: int32(be.Uint32(b[atLastOffsetDelta:])),
		maxTimestamp:    int64(be.Uint64(b[atMaxTimestamp:])),
		producerID:      int64(be.Uint64(b[atProducerID:])),
		producerEpoch:   int16(be.Uint16(b[atProducerEpoch:])),
		baseSequence:    int32(be.Uint32(b[atBaseSequence:])),
		recordCount:     int32(be.Uint32(b[atRecordCount:])),
	}
	return h, h.check(b[atMagic])
}

func (h header) check(magic byte) error {
	switch {
	case magic != batchMagic:
		return fmt.Errorf("%w: magic %d, want %d", ErrCorruptBatch, magic, batchMagic)
	case h.size < batchHeaderBytes:
		return fmt.Errorf("%w: length of %d bytes, a header alone has %d", ErrCorruptBatch, h.size, batchHeaderBytes)
	case h.baseOffset < 0 || h.lastOffsetDelta < 0 || h.baseOffset > math.MaxInt64-int64(h.lastOffsetDelta)-1:
		return fmt.Errorf("%w: base offset %d, last offset delta %d", ErrCorruptBatch, h.baseOffset, h.lastOffsetDelta)
	case h.recordCount < 0 || int64(h.recordCount) > int64(h.lastOffsetDelta)+1:
		return fmt.Errorf("%w: %d records in %d offsets", ErrCorruptBatch, h.recordCount, int64(h.lastOffsetDelta)+1)
	}
	return nil
}

// checkCRC compares the checksum of one whole batch.
func (h header) checkCRC(batch []byte) error {
	if got := crc32.Checksum(batch[atAttributes:h.size], castagnoli); got != h.crc {
		return fmt.Errorf("%w: checksum %08x, header says %08x", ErrCorruptBatch, got, h.crc)
	}
	return nil
}

// stamp writes the fields the leader decides into the batch in place.
func stamp(batch []byte, baseOffset int64, leaderEpoch int32) {
	binary.BigEndian.PutUint64(batch[atBaseOffset:], uint64(baseOffset))
	binary.BigEndian.PutUint32(batch[atLeaderEpoch:], uint32(leaderEpoch))
}

// stampAppendTime makes the batch carry the broker's time and computes its
// checksum again.
func stampAppendTime(batch []byte, timestampMs int64) {
	be := binary.BigEndian
	be.PutUint16(batch[atAttributes:], be.Uint16(batch[atAttributes:])|attrLogAppendTime)
	be.PutUint64(batch[atMaxTimestamp:], uint64(timestampMs))
	be.PutUint32(batch[atCRC:], crc32.Checksum(batch[atAttributes:], castagnoli))
}
