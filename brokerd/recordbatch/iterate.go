package recordbatch

import (
	"fmt"
	"iter"
)

// Iterate visits the records of one batch in order until visit returns false.
// b may be longer than the batch. At most maxBytes are decompressed
// (ErrExpansion). The slices of a record point into b or a buffer of the call
// and its Headers are overwritten by the next: copy what is to be kept.
func Iterate(b []byte, maxBytes int, visit func(Record) bool) error {
	h, err := Parse(b)
	if err != nil {
		return err
	}
	if h.Size() > int64(len(b)) {
		return fmt.Errorf("%w: %d bytes of %d", ErrCorrupt, len(b), h.Size())
	}
	plain, err := decompress(h.Codec(), b[HeaderBytes:h.Size()], maxBytes)
	if err != nil {
		return err
	}
	return iteratePlain(h, plain, visit)
}

func iteratePlain(h Header, plain []byte, visit func(Record) bool) error {
	s := scanner{rest: plain}
	var headers []RecordHeader
	before := int32(-1)
	for i := range h.RecordCount {
		raw := s.record(headers[:0])
		if s.err != nil {
			return fmt.Errorf("record %d of %d: %w", i, h.RecordCount, s.err)
		}
		if raw.offsetDelta <= before || raw.offsetDelta > h.LastOffsetDelta {
			return fmt.Errorf("%w: record %d has offset delta %d, after %d and up to %d may be",
				ErrInvalidRecord, i, raw.offsetDelta, before, h.LastOffsetDelta)
		}
		before, headers = raw.offsetDelta, raw.headers
		if !visit(h.resolve(raw)) {
			return nil
		}
	}
	if len(s.rest) > 0 {
		return fmt.Errorf("%w: %d bytes after the last record", ErrInvalidRecord, len(s.rest))
	}
	return nil
}

// resolve makes a record's offset and time absolute. Under LogAppendTime all
// records carry the batch's.
func (h Header) resolve(raw rawRecord) Record {
	timestamp := h.BaseTimestamp + raw.timestampDelta
	if h.Attributes&AttrLogAppendTime != 0 {
		timestamp = h.MaxTimestamp
	}
	return Record{
		Offset:      h.BaseOffset + int64(raw.offsetDelta),
		TimestampMs: timestamp,
		Key:         raw.key,
		Value:       raw.value,
		Headers:     raw.headers,
	}
}

// Timestamps adapts Iterate to what a partition log asks for when it looks
// up a time: offset and timestamp of each record.
func Timestamps(maxBytes int) func(batch []byte, visit func(offset, timestampMs int64) bool) error {
	return func(batch []byte, visit func(offset, timestampMs int64) bool) error {
		return Iterate(batch, maxBytes, func(r Record) bool { return visit(r.Offset, r.TimestampMs) })
	}
}

// Split yields the whole batches that stand one after the other in b, as a
// fetch answers them. A batch cut off at the end is Kafka's way of saying that
// there is more, and ends the sequence; anything else that does not parse is
// yielded as an error, once.
func Split(b []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for len(b) >= HeaderBytes {
			h, err := Parse(b)
			if err != nil {
				yield(nil, err)
				return
			}
			if h.Size() > int64(len(b)) || !yield(b[:h.Size():h.Size()], nil) {
				return
			}
			b = b[h.Size():]
		}
	}
}
