package recordbatch

import (
	"encoding/binary"
	"fmt"
	"math"
)

// RecordHeader is one header of a record. A nil Value is Kafka's null.
type RecordHeader struct {
	Key   []byte
	Value []byte
}

// Record is one record of a batch. A nil Key or Value is Kafka's null.
type Record struct {
	Offset, TimestampMs int64
	Key, Value          []byte
	Headers             []RecordHeader
}

// rawRecord is a record as the batch holds it, relative to the batch.
type rawRecord struct {
	timestampDelta int64
	offsetDelta    int32
	key, value     []byte
	headers        []RecordHeader
}

// minHeaderBytes is the smallest encoding of a record header: two lengths.
const minHeaderBytes = 2

// scanner takes a record apart. The first fault sticks; after it everything
// reads as zero, and err says what was wrong.
type scanner struct {
	rest []byte
	err  error
}

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: "+format, append([]any{ErrInvalidRecord}, args...)...)
	}
	s.rest = nil
}

func (s *scanner) byte() byte {
	if len(s.rest) == 0 {
		s.fail("record ends early")
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b
}

// varlong reads a zigzag varint of up to 64 bits.
func (s *scanner) varlong() int64 {
	v, n := binary.Varint(s.rest)
	if n <= 0 {
		s.fail("bad varint")
		return 0
	}
	s.rest = s.rest[n:]
	return v
}

// varint reads a zigzag varint of up to 32 bits.
func (s *scanner) varint() int32 {
	v := s.varlong()
	if v < math.MinInt32 || v > math.MaxInt32 {
		s.fail("varint %d does not fit 32 bits", v)
		return 0
	}
	return int32(v)
}

// bytes reads a length and as many bytes; -1 is null where null may be.
func (s *scanner) bytes(nullable bool) []byte {
	n := s.varint()
	switch {
	case n == -1 && nullable, s.err != nil:
		return nil
	case n < 0 || int64(n) > int64(len(s.rest)):
		s.fail("length %d with %d bytes left", n, len(s.rest))
		return nil
	}
	b := s.rest[:n:n]
	s.rest = s.rest[n:]
	return b
}

// record reads one record; its slices point into the scanned bytes, headers
// is used again for those of the next.
func (s *scanner) record(headers []RecordHeader) rawRecord {
	body := scanner{rest: s.bytes(false), err: s.err}
	body.byte() // attributes: none are defined
	r := rawRecord{timestampDelta: body.varlong(), offsetDelta: body.varint(), key: body.bytes(true), value: body.bytes(true)}
	n := body.varint()
	if n < 0 || int64(n)*minHeaderBytes > int64(len(body.rest)) {
		body.fail("%d headers in %d bytes", n, len(body.rest))
		n = 0
	}
	for range n {
		headers = append(headers, RecordHeader{Key: body.bytes(false), Value: body.bytes(true)})
	}
	if len(body.rest) > 0 {
		body.fail("%d bytes too many in a record", len(body.rest))
	}
	r.headers = headers
	s.err = body.err
	return r
}

func appendRecord(out []byte, r rawRecord) []byte {
	body := []byte{0}
	body = binary.AppendVarint(body, r.timestampDelta)
	body = binary.AppendVarint(body, int64(r.offsetDelta))
	body = appendBytes(body, r.key)
	body = appendBytes(body, r.value)
	body = binary.AppendVarint(body, int64(len(r.headers)))
	for _, h := range r.headers {
		body = binary.AppendVarint(body, int64(len(h.Key)))
		body = append(body, h.Key...)
		body = appendBytes(body, h.Value)
	}
	out = binary.AppendVarint(out, int64(len(body)))
	return append(out, body...)
}

func appendBytes(out, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(out, -1)
	}
	out = binary.AppendVarint(out, int64(len(b)))
	return append(out, b...)
}
