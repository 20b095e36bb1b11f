package partlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
)

// Every file of ours but the segments is one envelope:
//
//	magic 4 | version 4 | body bytes 4 | CRC-32C 4 | body
//
// The checksum covers all the rest. Files are replaced, never changed: written
// beside as .tmp and renamed.
const (
	envelopeBytes   = 16
	envelopeVersion = 1
	// smallFileBytesMax bounds a file that is read whole.
	smallFileBytesMax = 256 << 20
	tmpSuffix         = ".tmp"
)

// errDamaged is what reading a small file returns when it is there and cannot
// be: empty, torn, of another kind. Each such file can be rebuilt.
var errDamaged = errors.New("damaged")

func sealEnvelope(magic string, body []byte) []byte {
	be := binary.BigEndian
	out := append(make([]byte, 0, envelopeBytes+len(body)), magic...)
	out = be.AppendUint32(out, envelopeVersion)
	out = be.AppendUint32(out, uint32(len(body)))
	out = be.AppendUint32(out, 0)
	out = append(out, body...)
	be.PutUint32(out[12:], envelopeChecksum(out))
	return out
}

func envelopeChecksum(file []byte) uint32 {
	sum := crc32.Update(0, castagnoli, file[:12])
	return crc32.Update(sum, castagnoli, file[envelopeBytes:])
}

func openEnvelope(magic string, file []byte) ([]byte, error) {
	be := binary.BigEndian
	switch {
	case len(file) < envelopeBytes:
		return nil, fmt.Errorf("%w: %d bytes", errDamaged, len(file))
	case string(file[:4]) != magic:
		return nil, fmt.Errorf("%w: magic %q, want %q", errDamaged, file[:4], magic)
	case int64(be.Uint32(file[8:])) != int64(len(file)-envelopeBytes):
		return nil, fmt.Errorf("%w: %d bytes of body, header says %d", errDamaged, len(file)-envelopeBytes, be.Uint32(file[8:]))
	case envelopeChecksum(file) != be.Uint32(file[12:]):
		return nil, fmt.Errorf("%w: checksum differs", errDamaged)
	case be.Uint32(file[4:]) != envelopeVersion:
		return nil, fmt.Errorf("%w: version %d, known is %d", ErrUnsupportedVersion, be.Uint32(file[4:]), envelopeVersion)
	}
	return file[envelopeBytes:], nil
}

// readSmallFile reads an envelope's body. The errors that callers tell apart
// are fs.ErrNotExist, errDamaged and ErrUnsupportedVersion.
func readSmallFile(fsys FS, name, magic string) ([]byte, error) {
	raw, err := readWhole(fsys, name)
	if err != nil {
		return nil, err
	}
	body, err := openEnvelope(magic, raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return body, nil
}

func readWhole(fsys FS, name string) (raw []byte, err error) {
	f, err := fsys.Open(name, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > smallFileBytesMax {
		return nil, fmt.Errorf("%s: %w: %d bytes, at most %d", name, errDamaged, size, smallFileBytesMax)
	}
	raw = make([]byte, size)
	if n, err := f.ReadAt(raw, 0); err != nil && (n < len(raw) || !errors.Is(err, io.EOF)) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return raw, nil
}

// writeSmallFile replaces a file by an envelope around body. Durable, it is on
// disk under its name when the call returns; otherwise a crash may leave it
// old, empty or torn, which its checksum tells.
func writeSmallFile(fsys FS, name, magic string, body []byte, durable bool) error {
	if err := writeTmp(fsys, name+tmpSuffix, sealEnvelope(magic, body), durable); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := fsys.Rename(name+tmpSuffix, name); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if !durable {
		return nil
	}
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeTmp(fsys FS, name string, raw []byte, durable bool) (err error) {
	f, err := fsys.Open(name, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(raw, 0); err != nil {
		return err
	}
	if durable {
		return f.Sync()
	}
	return nil
}

// removeFile removes a file that need not be there.
func removeFile(fsys FS, name string) error {
	if err := fsys.Remove(name); err != nil && !isNotExist(err) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
