package verify

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// castagnoli is the table of the checksum that each value carries, so that a changed byte is found without its history.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// valueHeaderBytes is the fixed part of a value: producer (4), sequence (8), checksum of the whole value but itself (4).
const valueHeaderBytes = 16

// ID names one record that a producer of this package sent.
type ID struct {
	// Producer is the number of the producer, from 0.
	Producer uint32
	// Sequence counts the producer's records, from 0.
	Sequence uint64
}

// String gives the ID as producer/sequence.
func (id ID) String() string { return fmt.Sprintf("%d/%d", id.Producer, id.Sequence) }

// encodeValue gives a value of at least size bytes that carries the ID and a checksum.
func encodeValue(id ID, size int) []byte {
	value := make([]byte, max(size, valueHeaderBytes))
	binary.BigEndian.PutUint32(value[0:], id.Producer)
	binary.BigEndian.PutUint64(value[4:], id.Sequence)
	for i := valueHeaderBytes; i < len(value); i++ {
		value[i] = byte(id.Sequence + uint64(i))
	}
	binary.BigEndian.PutUint32(value[12:], checksum(value))
	return value
}

// decodeValue reads what encodeValue wrote; it errs when a byte differs.
func decodeValue(value []byte) (ID, error) {
	if len(value) < valueHeaderBytes {
		return ID{}, fmt.Errorf("value of %d bytes, want at least %d", len(value), valueHeaderBytes)
	}
	if got, want := checksum(value), binary.BigEndian.Uint32(value[12:]); got != want {
		return ID{}, fmt.Errorf("value checksum %08x, want %08x", got, want)
	}
	return ID{Producer: binary.BigEndian.Uint32(value[0:]), Sequence: binary.BigEndian.Uint64(value[4:])}, nil
}

func checksum(value []byte) uint32 {
	sum := crc32.Update(0, castagnoli, value[:12])
	return crc32.Update(sum, castagnoli, value[valueHeaderBytes:])
}
