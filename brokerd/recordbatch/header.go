package recordbatch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// HeaderBytes is the size of a batch without its records.
const HeaderBytes = 61

const (
	// prefixBytes is what a batch's length does not count: base offset and
	// the length itself.
	prefixBytes = 12
	magicV2     = 2
)

// Bits of Header.Attributes above the codec.
const (
	AttrCodecMask     int16 = 0x07
	AttrLogAppendTime int16 = 1 << 3
	AttrTransactional int16 = 1 << 4
	AttrControl       int16 = 1 << 5
	AttrDeleteHorizon int16 = 1 << 6
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the fixed part of a batch, as Kafka's DefaultRecordBatch lays it
// out. Times are milliseconds since 1970; -1 in a producer field is "none".
type Header struct {
	BaseOffset int64
	// Length is the size of the batch in bytes without the first 12.
	Length          int32
	LeaderEpoch     int32
	Magic           int8
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	RecordCount     int32
}

// Size is the size of the whole batch in bytes.
func (h Header) Size() int64 { return int64(h.Length) + prefixBytes }

// LastOffset is the offset of the batch's last record.
func (h Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// Codec is how the records are compressed.
func (h Header) Codec() Codec { return Codec(h.Attributes & AttrCodecMask) }

// IsControl says whether the batch holds a transaction marker.
func (h Header) IsControl() bool { return h.Attributes&AttrControl != 0 }

// IsTransactional says whether the batch belongs to a transaction.
func (h Header) IsTransactional() bool { return h.Attributes&AttrTransactional != 0 }

// Parse reads the header of the batch at the start of b. It checks that a
// header is there, of this format, and that its length is possible; b may hold
// less or more than the batch.
func Parse(b []byte) (Header, error) {
	if len(b) < prefixBytes+5 {
		return Header{}, fmt.Errorf("%w: %d bytes hold no header", ErrCorrupt, len(b))
	}
	if magic := int8(b[16]); magic != magicV2 {
		if magic == 0 || magic == 1 {
			return Header{}, fmt.Errorf("%w: magic %d", ErrUnsupportedMagic, magic)
		}
		return Header{}, fmt.Errorf("%w: magic %d", ErrCorrupt, magic)
	}
	if len(b) < HeaderBytes {
		return Header{}, fmt.Errorf("%w: %d bytes, a header has %d", ErrCorrupt, len(b), HeaderBytes)
	}
	h := decode(b)
	if h.Size() < HeaderBytes {
		return Header{}, fmt.Errorf("%w: length %d, a header alone has %d", ErrCorrupt, h.Length, HeaderBytes-prefixBytes)
	}
	return h, nil
}

func decode(b []byte) Header {
	be := binary.BigEndian
	return Header{
		BaseOffset:      int64(be.Uint64(b)),
		Length:          int32(be.Uint32(b[8:])),
		LeaderEpoch:     int32(be.Uint32(b[12:])),
		Magic:           int8(b[16]),
		CRC:             be.Uint32(b[17:]),
		Attributes:      int16(be.Uint16(b[21:])),
		LastOffsetDelta: int32(be.Uint32(b[23:])),
		BaseTimestamp:   int64(be.Uint64(b[27:])),
		MaxTimestamp:    int64(be.Uint64(b[35:])),
		ProducerID:      int64(be.Uint64(b[43:])),
		ProducerEpoch:   int16(be.Uint16(b[51:])),
		BaseSequence:    int32(be.Uint32(b[53:])),
		RecordCount:     int32(be.Uint32(b[57:])),
	}
}
