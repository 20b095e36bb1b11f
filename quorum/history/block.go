package history

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// blockHeadBytes are the first and the next metadata offset and the time of a block, readable without decompression.
const blockHeadBytes = 3 * 8

// entriesMax bounds what a block may hold once it is decompressed (I20).
const entriesMax = 4 << 20

// block is a run of entries on its way to a file.
type block struct {
	first, next int64
	timeMs      int64 // of the last batch
	entries     []byte
}

// add appends an entry that ends before the metadata offset next.
func (b *block) add(e *controllerv1.EntryApplied, next, timeMs int64) error {
	if len(b.entries) == 0 {
		b.first = e.GetFirstMetadataOffset()
	}
	encoded, err := proto.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode the entry at metadata offset %d: %w", e.GetFirstMetadataOffset(), err)
	}
	b.entries = append(binary.AppendUvarint(b.entries, uint64(len(encoded))), encoded...)
	b.next, b.timeMs = next, timeMs
	return nil
}

// payload is the block as a frame holds it.
func (b *block) payload(encoder *zstd.Encoder) []byte {
	p := make([]byte, 0, blockHeadBytes+len(b.entries)/2)
	for _, v := range []int64{b.first, b.next, b.timeMs} {
		p = binary.BigEndian.AppendUint64(p, uint64(v)) //nolint:gosec // the bits are kept
	}
	return encoder.EncodeAll(b.entries, p)
}

// blockHead reads the head of a block.
func blockHead(payload []byte) (b block, compressed []byte, err error) {
	if len(payload) < blockHeadBytes {
		return block{}, nil, fmt.Errorf("a block of %d bytes, want at least %d", len(payload), blockHeadBytes)
	}
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(payload[8*i:])) } //nolint:gosec // the bits are kept
	b = block{first: at(0), next: at(1), timeMs: at(2)}
	if b.first < 0 || b.next <= b.first {
		return block{}, nil, fmt.Errorf("a block from metadata offset %d to %d", b.first, b.next)
	}
	return b, payload[blockHeadBytes:], nil
}

// decodeBlock reads the entries of a block.
func decodeBlock(payload []byte, decoder *zstd.Decoder) ([]*controllerv1.EntryApplied, error) {
	b, compressed, err := blockHead(payload)
	if err != nil {
		return nil, err
	}
	raw, err := decoder.DecodeAll(compressed, nil)
	if err != nil {
		return nil, fmt.Errorf("block at metadata offset %d: %w", b.first, err)
	}
	var entries []*controllerv1.EntryApplied
	for len(raw) > 0 {
		size, n := binary.Uvarint(raw)
		if n <= 0 || size > uint64(len(raw)-n) {
			return nil, fmt.Errorf("block at metadata offset %d: an entry is cut off", b.first)
		}
		e := &controllerv1.EntryApplied{}
		if err := proto.Unmarshal(raw[n:n+int(size)], e); err != nil { //nolint:gosec // at most len(raw)
			return nil, fmt.Errorf("block at metadata offset %d: %w", b.first, err)
		}
		entries, raw = append(entries, e), raw[n+int(size):] //nolint:gosec // at most len(raw)
	}
	if len(entries) == 0 || entries[0].GetFirstMetadataOffset() != b.first {
		return nil, fmt.Errorf("block at metadata offset %d does not begin with the entry there", b.first)
	}
	return entries, nil
}

// newDecoder makes a decoder whose output is bounded.
func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(entriesMax))
}
