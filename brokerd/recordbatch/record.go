package recordbatch

import (
	"encoding/binary"
	"fmt"
)

// HeaderField is one header of a record.
type HeaderField struct {
	Key   string
	Value []byte
}

// Record is one record of a batch. Nil Key and Value are Kafka's nulls.
type Record struct {
	Offset, TimestampMs int64
	Key, Value          []byte
	Headers             []HeaderField
}

func validateRecords(b []byte, h Header, limits Limits) error {
	n := int32(0)
	err := Iterate(b, limits.MaxDecompressedBytes, func(r Record) bool {
		n++
		return true
	})
	if err != nil {
		return err
	}
	if n != h.RecordCount {
		return fmt.Errorf("%w: %d records, header says %d", ErrInvalidRecord, n, h.RecordCount)
	}
	return nil
}

// Iterate visits the records of one batch in order until visit returns false.
// At most maxBytes are decompressed. What it passes is valid only during visit.
func Iterate(b []byte, maxBytes int, visit func(Record) bool) error {
	h, err := Parse(b)
	if err != nil {
		return err
	}
	if h.Size() > int64(len(b)) {
		return fmt.Errorf("%w: %d bytes of %d", ErrCorrupt, len(b), h.Size())
	}
	if h.Codec() != CodecNone {
		return fmt.Errorf("%w: %s", ErrUnsupportedCodec, h.Codec())
	}
	body := b[HeaderBytes:h.Size()]
	for i := int32(0); i < h.RecordCount; i++ {
		length, n := binary.Varint(body)
		if n <= 0 || length < 0 || length > int64(len(body)-n) {
			return fmt.Errorf("%w: record %d has a length of %d", ErrInvalidRecord, i, length)
		}
		r := Record{Offset: h.BaseOffset + int64(i)}
		body = body[n+int(length):]
		if !visit(r) {
			return nil
		}
	}
	return nil
}
