package partlog

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sort"
)

const (
	indexSuffix     = ".index"
	timeIndexSuffix = ".timeindex"
	indexMagic      = "SKOI"
	timeIndexMagic  = "SKTI"
	// indexHeadBytes is what both files open with: base offset, bytes of the
	// log file, newest timestamp, offset of the first batch that has it.
	indexHeadBytes      = 32
	indexEntryBytes     = 8
	timeIndexEntryBytes = 12
)

// indexEntry says where a batch of a segment begins. There is one about every
// Options.IndexIntervalBytes; the segment's first batch needs none.
type indexEntry struct {
	// relative is the batch's base offset less the segment's.
	relative uint32
	// position is where it stands in the file.
	position uint32
	// newestBefore is the newest timestamp of all batches before it in the
	// segment, so that a look-up by time knows what it may skip.
	newestBefore int64
}

// index is the sparse index of a segment in memory. One that was published is
// never changed; a longer one may share its entries.
type index struct{ entries []indexEntry }

// floorOffset returns the position of the last entry not above offset
// relative, 0 (the segment's first batch) if there is none.
func floorOffset(n int, at func(i int) (relative, position uint32), relative int64) int64 {
	above := sort.Search(n, func(i int) bool { r, _ := at(i); return int64(r) > relative })
	if above == 0 {
		return 0
	}
	_, position := at(above - 1)
	return int64(position)
}

func (x *index) seekOffset(relative int64) int64 {
	return floorOffset(len(x.entries), func(i int) (uint32, uint32) {
		return x.entries[i].relative, x.entries[i].position
	}, relative)
}

// seekTime returns the position of the last entry before which all is older
// than ts.
func (x *index) seekTime(ts int64) int64 {
	above := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].newestBefore >= ts })
	if above == 0 {
		return 0
	}
	return int64(x.entries[above-1].position)
}

// indexHead is what an index file says of its segment, besides the entries.
// An index whose base or size are not the segment's is of another time.
type indexHead struct {
	base, logBytes       int64
	newest, newestOffset int64
}

func (head indexHead) encode(capacity int) []byte {
	out := make([]byte, 0, indexHeadBytes+capacity)
	for _, v := range [...]int64{head.base, head.logBytes, head.newest, head.newestOffset} {
		out = binary.BigEndian.AppendUint64(out, uint64(v))
	}
	return out
}

func decodeIndexHead(b []byte) indexHead {
	be := binary.BigEndian
	return indexHead{int64(be.Uint64(b)), int64(be.Uint64(b[8:])), int64(be.Uint64(b[16:])), int64(be.Uint64(b[24:]))}
}

func (x *index) encodeOffsets(head indexHead) []byte {
	out := head.encode(len(x.entries) * indexEntryBytes)
	for _, e := range x.entries {
		out = binary.BigEndian.AppendUint32(out, e.relative)
		out = binary.BigEndian.AppendUint32(out, e.position)
	}
	return out
}

func (x *index) encodeTimes(head indexHead) []byte {
	out := head.encode(len(x.entries) * timeIndexEntryBytes)
	for _, e := range x.entries {
		out = binary.BigEndian.AppendUint64(out, uint64(e.newestBefore))
		out = binary.BigEndian.AppendUint32(out, e.relative)
	}
	return out
}

// decodeIndex reads both files' bodies back.
func decodeIndex(offsets, times []byte) (*index, indexHead, error) {
	if len(offsets) < indexHeadBytes || len(times) < indexHeadBytes || decodeIndexHead(offsets) != decodeIndexHead(times) {
		return nil, indexHead{}, fmt.Errorf("%w: the two indexes do not belong together", errDamaged)
	}
	head := decodeIndexHead(offsets)
	offsets, times = offsets[indexHeadBytes:], times[indexHeadBytes:]
	n := len(offsets) / indexEntryBytes
	if len(offsets) != n*indexEntryBytes || len(times) != n*timeIndexEntryBytes {
		return nil, indexHead{}, fmt.Errorf("%w: %d and %d bytes of entries", errDamaged, len(offsets), len(times))
	}
	entries := make([]indexEntry, n)
	be := binary.BigEndian
	for i := range entries {
		entries[i] = indexEntry{
			relative:     be.Uint32(offsets[i*indexEntryBytes:]),
			position:     be.Uint32(offsets[i*indexEntryBytes+4:]),
			newestBefore: int64(be.Uint64(times[i*timeIndexEntryBytes:])),
		}
		sorted := i == 0 || entries[i].relative > entries[i-1].relative && entries[i].position > entries[i-1].position &&
			entries[i].newestBefore >= entries[i-1].newestBefore
		if !sorted || int64(entries[i].position) >= head.logBytes || be.Uint32(times[i*timeIndexEntryBytes+8:]) != entries[i].relative {
			return nil, indexHead{}, fmt.Errorf("%w: entry %d is out of order", errDamaged, i)
		}
	}
	return &index{entries: entries}, head, nil
}

func segmentFile(dir string, base int64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", base, suffix))
}

func readIndexFiles(fsys FS, dir string, base int64) (*index, indexHead, error) {
	offsets, err := readSmallFile(fsys, segmentFile(dir, base, indexSuffix), indexMagic)
	if err != nil {
		return nil, indexHead{}, err
	}
	times, err := readSmallFile(fsys, segmentFile(dir, base, timeIndexSuffix), timeIndexMagic)
	if err != nil {
		return nil, indexHead{}, err
	}
	return decodeIndex(offsets, times)
}

// writeIndexFiles writes both files. They are not made durable: one that a
// crash tears is told by its checksum and built again.
func writeIndexFiles(fsys FS, dir string, head indexHead, x *index) error {
	offsets := segmentFile(dir, head.base, indexSuffix)
	if err := writeSmallFile(fsys, offsets, indexMagic, x.encodeOffsets(head), false); err != nil {
		return err
	}
	return writeSmallFile(fsys, segmentFile(dir, head.base, timeIndexSuffix), timeIndexMagic, x.encodeTimes(head), false)
}

// indexBuilder makes an index as batches come, in order.
type indexBuilder struct {
	base, interval int64
	entries        []indexEntry
	// indexedAt is the position of the last entry.
	indexedAt            int64
	newest, newestOffset int64
}

func newIndexBuilder(base int64, interval int) indexBuilder {
	return indexBuilder{base: base, interval: int64(interval), newest: noTimestamp, newestOffset: NoOffset}
}

func (b *indexBuilder) add(h header, position int64) {
	if position-b.indexedAt >= b.interval {
		b.entries = append(b.entries, indexEntry{uint32(h.baseOffset - b.base), uint32(position), b.newest})
		b.indexedAt = position
	}
	if h.maxTimestamp > b.newest {
		b.newest, b.newestOffset = h.maxTimestamp, h.baseOffset
	}
}

// seekOffset is index.seekOffset by reads of the file.
func (f *indexFiles) seekOffset(relative int64) (position int64, err error) {
	file, err := f.offsets.acquire()
	if err != nil {
		return 0, err
	}
	defer f.offsets.release()
	var b [indexEntryBytes]byte
	position = floorOffset(f.entries, func(i int) (uint32, uint32) {
		if e := readFull(file, b[:], envelopeBytes+indexHeadBytes+int64(i)*indexEntryBytes); e != nil {
			err = e
		}
		return binary.BigEndian.Uint32(b[:]), binary.BigEndian.Uint32(b[4:])
	}, relative)
	return position, err
}

// seekTime returns the relative offset of the last entry before which all is
// older than ts, 0 if there is none.
func (f *indexFiles) seekTime(ts int64) (relative int64, err error) {
	file, err := f.times.acquire()
	if err != nil {
		return 0, err
	}
	defer f.times.release()
	var b [timeIndexEntryBytes]byte
	at := func(i int) (newestBefore, relative int64) {
		if e := readFull(file, b[:], envelopeBytes+indexHeadBytes+int64(i)*timeIndexEntryBytes); e != nil {
			err = e
		}
		return int64(binary.BigEndian.Uint64(b[:])), int64(binary.BigEndian.Uint32(b[8:]))
	}
	above := sort.Search(f.entries, func(i int) bool { newest, _ := at(i); return newest >= ts })
	if above == 0 || err != nil {
		return 0, err
	}
	_, relative = at(above - 1)
	return relative, err
}
