package recordbatch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// BuildOptions of a batch. The zero value makes an uncompressed batch of no
// producer at offset 0.
type BuildOptions struct {
	Codec Codec
	// Xerial frames snappy as Java's clients do.
	Xerial      bool
	BaseOffset  int64
	LeaderEpoch int32
	// Producer, when given, makes the batch idempotent.
	Producer *Producer
	// Attributes are set besides the codec's bits.
	Attributes int16
}

// Producer is what an idempotent batch says of its maker.
type Producer struct {
	ID           int64
	Epoch        int16
	BaseSequence int32
}

// Build makes one batch of records, whose offsets it counts up from
// BaseOffset whatever they say. Brokers keep what clients built; this is for
// tests, tools and the records a broker writes itself.
func Build(records []Record, o BuildOptions) ([]byte, error) {
	if len(records) == 0 || len(records) > math.MaxInt32 {
		return nil, fmt.Errorf("%w: a batch of %d records", ErrInvalidRecord, len(records))
	}
	if !o.Codec.known() {
		return nil, fmt.Errorf("%w: %d", ErrUnsupportedCodec, o.Codec)
	}
	var plain []byte
	base, newest := records[0].TimestampMs, records[0].TimestampMs
	for i, r := range records {
		newest = max(newest, r.TimestampMs)
		plain = appendRecord(plain, rawRecord{r.TimestampMs - base, int32(i), r.Key, r.Value, r.Headers})
	}
	body, err := compress(o.Codec, plain, o.Xerial)
	if err != nil {
		return nil, fmt.Errorf("compress %s: %w", o.Codec, err)
	}
	if len(body) > math.MaxInt32-HeaderBytes {
		return nil, fmt.Errorf("%w: %d bytes of records", ErrTooLarge, len(body))
	}
	h := Header{
		BaseOffset: o.BaseOffset, Length: int32(HeaderBytes - prefixBytes + len(body)),
		LeaderEpoch: o.LeaderEpoch, Magic: magicV2,
		Attributes:      o.Attributes&^AttrCodecMask | int16(o.Codec),
		LastOffsetDelta: int32(len(records) - 1), BaseTimestamp: base, MaxTimestamp: newest,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, RecordCount: int32(len(records)),
	}
	if o.Producer != nil {
		h.ProducerID, h.ProducerEpoch, h.BaseSequence = o.Producer.ID, o.Producer.Epoch, o.Producer.BaseSequence
	}
	batch := append(h.append(make([]byte, 0, HeaderBytes+len(body))), body...)
	Seal(batch)
	return batch, nil
}

// append encodes the header; its CRC is written as it stands.
func (h Header) append(out []byte) []byte {
	be := binary.BigEndian
	out = be.AppendUint64(out, uint64(h.BaseOffset))
	out = be.AppendUint32(out, uint32(h.Length))
	out = be.AppendUint32(out, uint32(h.LeaderEpoch))
	out = append(out, byte(h.Magic))
	out = be.AppendUint32(out, h.CRC)
	out = be.AppendUint16(out, uint16(h.Attributes))
	out = be.AppendUint32(out, uint32(h.LastOffsetDelta))
	out = be.AppendUint64(out, uint64(h.BaseTimestamp))
	out = be.AppendUint64(out, uint64(h.MaxTimestamp))
	out = be.AppendUint64(out, uint64(h.ProducerID))
	out = be.AppendUint16(out, uint16(h.ProducerEpoch))
	out = be.AppendUint32(out, uint32(h.BaseSequence))
	return be.AppendUint32(out, uint32(h.RecordCount))
}

// Seal computes the checksum of one whole batch again, after a field that it
// covers was changed. A batch shorter than a header is left alone.
func Seal(batch []byte) {
	if len(batch) >= HeaderBytes {
		binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], castagnoli))
	}
}

// SetMaxTimestamp corrects the newest timestamp in a batch's header, which
// some clients leave wrong, and its checksum.
func SetMaxTimestamp(batch []byte, timestampMs int64) {
	if len(batch) >= HeaderBytes {
		binary.BigEndian.PutUint64(batch[35:], uint64(timestampMs))
		Seal(batch)
	}
}
