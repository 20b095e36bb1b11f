package partlog

import (
	"encoding/binary"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

const (
	snapshotSuffix    = ".snapshot"
	snapshotMagic     = "SKPS"
	snapshotHeadBytes = 12
	producerHeadBytes = 19
	sentBatchBytes    = 28
	// keptSnapshots is how many snapshots of producers a log keeps: the newest
	// spares a restart the replay, older ones a truncation.
	keptSnapshots = 3
)

func snapshotName(dir string, offset int64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", offset, snapshotSuffix))
}

// encode writes the producers as of offset, by rising id.
func (ps *producers) encode(offset int64) []byte {
	be := binary.BigEndian
	out := be.AppendUint64(nil, uint64(offset))
	out = be.AppendUint32(out, uint32(len(ps.byID)))
	for _, id := range slices.Sorted(maps.Keys(ps.byID)) {
		p := ps.byID[id]
		out = be.AppendUint64(out, uint64(id))
		out = be.AppendUint16(out, uint16(p.epoch))
		out = be.AppendUint64(out, uint64(p.lastSeenMs))
		out = append(out, byte(p.count))
		for _, b := range p.sent() {
			out = be.AppendUint32(out, uint32(b.firstSequence))
			out = be.AppendUint32(out, uint32(b.lastSequence))
			out = be.AppendUint64(out, uint64(b.lastOffset))
			out = be.AppendUint32(out, uint32(b.offsetDelta))
			out = be.AppendUint64(out, uint64(b.maxTimestamp))
		}
	}
	return out
}

// keepProducers lets the next housekeeping save the producers as they are at
// offset: before it deletes the batches from which they could be found again.
// Holds Log.writer.
func (l *Log) keepProducers(offset int64) {
	l.snapshot = &pendingSnapshot{offset, l.producers.encode(offset)}
}

func decodeProducers(b []byte, offset int64, most int) (*producers, error) {
	be := binary.BigEndian
	if len(b) < snapshotHeadBytes || int64(be.Uint64(b)) != offset {
		return nil, fmt.Errorf("%w: not the snapshot at offset %d", errDamaged, offset)
	}
	ps := newProducers(most)
	count := be.Uint32(b[8:])
	b = b[snapshotHeadBytes:]
	for range count {
		if len(b) < producerHeadBytes {
			return nil, fmt.Errorf("%w: ends within a producer", errDamaged)
		}
		id, batches := int64(be.Uint64(b)), int(b[18])
		p := &producer{epoch: int16(be.Uint16(b[8:])), lastSeenMs: int64(be.Uint64(b[10:]))}
		b = b[producerHeadBytes:]
		if batches > rememberedBatches || len(b) < batches*sentBatchBytes || id < 0 {
			return nil, fmt.Errorf("%w: producer %d with %d batches", errDamaged, id, batches)
		}
		for range batches {
			p.remember(decodeSentBatch(b))
			b = b[sentBatchBytes:]
		}
		ps.makeRoom()
		ps.byID[id] = p
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes too many", errDamaged, len(b))
	}
	return ps, nil
}

func decodeSentBatch(b []byte) sentBatch {
	be := binary.BigEndian
	return sentBatch{
		firstSequence: int32(be.Uint32(b)),
		lastSequence:  int32(be.Uint32(b[4:])),
		lastOffset:    int64(be.Uint64(b[8:])),
		offsetDelta:   int32(be.Uint32(b[16:])),
		maxTimestamp:  int64(be.Uint64(b[20:])),
	}
}

func readSnapshot(fsys FS, dir string, offset int64, most int) (*producers, error) {
	body, err := readSmallFile(fsys, snapshotName(dir, offset), snapshotMagic)
	if err != nil {
		return nil, err
	}
	return decodeProducers(body, offset, most)
}
