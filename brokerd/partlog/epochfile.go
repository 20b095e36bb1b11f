package partlog

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
)

const (
	epochsName      = "leader-epochs"
	epochsMagic     = "SKLE"
	epochEntryBytes = 12
)

func (h epochHistory) encode() []byte {
	out := make([]byte, 0, len(h)*epochEntryBytes)
	for _, entry := range h {
		out = binary.BigEndian.AppendUint32(out, uint32(entry.epoch))
		out = binary.BigEndian.AppendUint64(out, uint64(entry.startOffset))
	}
	return out
}

func decodeEpochs(b []byte) (epochHistory, error) {
	if len(b)%epochEntryBytes != 0 {
		return nil, fmt.Errorf("%w: %d bytes are no whole entries", errDamaged, len(b))
	}
	history := make(epochHistory, 0, len(b)/epochEntryBytes)
	for ; len(b) > 0; b = b[epochEntryBytes:] {
		entry := epochEntry{int32(binary.BigEndian.Uint32(b)), int64(binary.BigEndian.Uint64(b[4:]))}
		last, ok := history.latest()
		if entry.epoch < 0 || entry.startOffset < 0 || ok && (entry.epoch <= last.epoch || entry.startOffset <= last.startOffset) {
			return nil, fmt.Errorf("%w: epoch %d from %d after epoch %d from %d", errDamaged,
				entry.epoch, entry.startOffset, last.epoch, last.startOffset)
		}
		history = append(history, entry)
	}
	return history, nil
}

func readEpochs(fsys FS, dir string) (epochHistory, error) {
	body, err := readSmallFile(fsys, filepath.Join(dir, epochsName), epochsMagic)
	if err != nil {
		return nil, err
	}
	return decodeEpochs(body)
}

func writeEpochs(fsys FS, dir string, history epochHistory) error {
	return writeSmallFile(fsys, filepath.Join(dir, epochsName), epochsMagic, history.encode(), true)
}
