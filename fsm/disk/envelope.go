package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
)

// The envelope of a small file (docs/formats/small-files.md), integers big endian:
//
//	magic 8 bytes | version uint32 | length uint32 | crc32c uint32 of all before it and the payload | payload
const (
	magicBytes = 8
	headBytes  = magicBytes + 4 + 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Errors of Open. A file that is damaged, of another kind or from a newer build is never guessed at.
var (
	// ErrDamaged is returned when length or checksum do not fit the bytes.
	ErrDamaged = errors.New("file is damaged")
	// ErrNotThisKind is returned when the file begins with another magic.
	ErrNotThisKind = errors.New("file is of another kind")
	// ErrVersion is returned when the version is not the one the reader knows.
	ErrVersion = errors.New("file has a version that this build does not know")
)

// Kind is what a small file is.
type Kind struct {
	// Magic is 8 bytes that no other kind has.
	Magic string
	// Version that this build reads and writes; it only goes up.
	Version uint32
	// MaxBytes bounds the payload.
	MaxBytes int64
}

// Seal wraps a payload.
func (k Kind) Seal(payload []byte) ([]byte, error) {
	if len(k.Magic) != magicBytes {
		return nil, fmt.Errorf("magic %q has not %d bytes", k.Magic, magicBytes)
	}
	if int64(len(payload)) > k.MaxBytes {
		return nil, fmt.Errorf("%w: payload of %d bytes, at most %d", ErrTooLarge, len(payload), k.MaxBytes)
	}
	b := append(make([]byte, 0, headBytes+len(payload)), k.Magic...)
	b = binary.BigEndian.AppendUint32(b, k.Version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.BigEndian.AppendUint32(b, checksum(b, payload))
	return append(b, payload...), nil
}

// Open unwraps what Seal returned; the payload shares its memory.
func (k Kind) Open(file []byte) ([]byte, error) {
	if len(file) < headBytes {
		return nil, fmt.Errorf("%w: %d bytes, a head has %d", ErrDamaged, len(file), headBytes)
	}
	if string(file[:magicBytes]) != k.Magic {
		return nil, fmt.Errorf("%w: it begins with %q, want %q", ErrNotThisKind, file[:magicBytes], k.Magic)
	}
	head, payload := file[:headBytes], file[headBytes:]
	want := binary.BigEndian.Uint32(head[headBytes-4:])
	if got := checksum(head[:headBytes-4], payload); got != want {
		return nil, fmt.Errorf("%w: checksum is %08x, its head says %08x", ErrDamaged, got, want)
	}
	if v := binary.BigEndian.Uint32(head[magicBytes:]); v != k.Version {
		return nil, fmt.Errorf("%w: %d, want %d", ErrVersion, v, k.Version)
	}
	if n := binary.BigEndian.Uint32(head[magicBytes+4:]); int(n) != len(payload) {
		return nil, fmt.Errorf("%w: payload of %d bytes, its head says %d", ErrDamaged, len(payload), n)
	}
	return payload, nil
}

// WriteFile seals the payload and replaces the file at path by it.
func (k Kind) WriteFile(path string, payload []byte, perm fs.FileMode) error {
	file, err := k.Seal(payload)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := WriteFileAtomic(path, file, perm); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// ReadFile reads the file at path and opens it. A file that does not exist is fs.ErrNotExist.
func (k Kind) ReadFile(path string) ([]byte, error) {
	file, err := ReadFile(path, k.MaxBytes+headBytes)
	if err != nil {
		return nil, err
	}
	payload, err := k.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return payload, nil
}

func checksum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}
