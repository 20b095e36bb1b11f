package partlog

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
)

const (
	metaName      = "partition.meta"
	metaMagic     = "SKPM"
	metaBodyBytes = 62
)

// meta is the file that says whose log the directory is and what of it needs
// no checking.
type meta struct {
	topicID   [16]byte
	partition int32
	// start is the first offset that may be read.
	start int64
	// recoveryPoint is an offset below which all is on disk and was checked:
	// recovery begins there.
	recoveryPoint int64
	// clean says that the log was closed when it ended at end, in the segment
	// activeBase of activeSize bytes. It stays on disk while the log is
	// appended to: a segment that grew or a new one gives it the lie, and one
	// that did neither is as it was.
	clean                       bool
	end, activeBase, activeSize int64
}

func (m meta) encode() []byte {
	be := binary.BigEndian
	out := make([]byte, 0, metaBodyBytes)
	out = append(out, m.topicID[:]...)
	out = be.AppendUint32(out, uint32(m.partition))
	out = be.AppendUint64(out, uint64(m.start))
	out = be.AppendUint64(out, uint64(m.recoveryPoint))
	clean := uint16(0)
	if m.clean {
		clean = 1
	}
	out = be.AppendUint16(out, clean)
	out = be.AppendUint64(out, uint64(m.end))
	out = be.AppendUint64(out, uint64(m.activeBase))
	return be.AppendUint64(out, uint64(m.activeSize))
}

func decodeMeta(b []byte) (meta, error) {
	if len(b) != metaBodyBytes {
		return meta{}, fmt.Errorf("%w: %d bytes, want %d", errDamaged, len(b), metaBodyBytes)
	}
	be := binary.BigEndian
	m := meta{
		topicID:       [16]byte(b[:16]),
		partition:     int32(be.Uint32(b[16:])),
		start:         int64(be.Uint64(b[20:])),
		recoveryPoint: int64(be.Uint64(b[28:])),
		clean:         be.Uint16(b[36:]) == 1,
		end:           int64(be.Uint64(b[38:])),
		activeBase:    int64(be.Uint64(b[46:])),
		activeSize:    int64(be.Uint64(b[54:])),
	}
	if m.start < 0 || m.recoveryPoint < 0 || (m.clean && (m.end < m.start || m.activeBase > m.end || m.activeSize < 0)) {
		return meta{}, fmt.Errorf("%w: impossible offsets %+v", errDamaged, m)
	}
	return m, nil
}

func readMeta(fsys FS, dir string) (meta, error) {
	body, err := readSmallFile(fsys, filepath.Join(dir, metaName), metaMagic)
	if err != nil {
		return meta{}, err
	}
	return decodeMeta(body)
}

func writeMeta(fsys FS, dir string, m meta, durable bool) error {
	return writeSmallFile(fsys, filepath.Join(dir, metaName), metaMagic, m.encode(), durable)
}
