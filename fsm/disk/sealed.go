package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A sealed file (docs/formats/small-files.md), integers big endian:
//
//	magic 4 bytes | version uint32 | length uint32 | crc32c uint32 of all before it and of the payload | payload
const (
	magicBytes = 4
	headBytes  = magicBytes + 4 + 4 + 4
	// sealedPerm keeps identities from other users.
	sealedPerm = 0o600
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Errors of a sealed file. A file that is damaged or of another kind is never guessed at.
var (
	// ErrDamaged is returned when length or checksum do not fit the bytes.
	ErrDamaged = errors.New("file is damaged")
	// ErrNotThisKind is returned when the file begins with another magic.
	ErrNotThisKind = errors.New("file is of another kind")
)

// WriteSealed replaces the file at path by the payload, sealed under a magic of 4 bytes and a version.
func WriteSealed(path, magic string, version uint32, payload []byte) error {
	file, err := Seal(magic, version, payload)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := WriteFileAtomic(path, file, sealedPerm); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// ReadSealed reads what WriteSealed wrote, at most maxBytes of payload. The caller judges the version: one that it
// does not know it must refuse. A file that does not exist is fs.ErrNotExist.
func ReadSealed(path, magic string, maxBytes int64) (version uint32, payload []byte, err error) {
	file, err := ReadFile(path, maxBytes+headBytes)
	if err != nil {
		return 0, nil, err
	}
	if version, payload, err = Unseal(magic, file); err != nil {
		return 0, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return version, payload, nil
}

// Seal wraps a payload.
func Seal(magic string, version uint32, payload []byte) ([]byte, error) {
	if len(magic) != magicBytes {
		return nil, fmt.Errorf("magic %q has not %d bytes", magic, magicBytes)
	}
	if int64(len(payload)) > int64(^uint32(0)) {
		return nil, fmt.Errorf("%w: payload of %d bytes", ErrTooLarge, len(payload))
	}
	b := append(make([]byte, 0, headBytes+len(payload)), magic...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.BigEndian.AppendUint32(b, checksum(b, payload))
	return append(b, payload...), nil
}

// Unseal unwraps what Seal returned; the payload shares its memory.
func Unseal(magic string, file []byte) (version uint32, payload []byte, err error) {
	if len(file) < headBytes {
		return 0, nil, fmt.Errorf("%w: %d bytes, the head alone has %d", ErrDamaged, len(file), headBytes)
	}
	if string(file[:magicBytes]) != magic {
		return 0, nil, fmt.Errorf("%w: it begins with %q, want %q", ErrNotThisKind, file[:magicBytes], magic)
	}
	head, payload := file[:headBytes-4], file[headBytes:]
	want := binary.BigEndian.Uint32(file[headBytes-4:])
	if got := checksum(head, payload); got != want {
		return 0, nil, fmt.Errorf("%w: checksum is %08x, its head says %08x", ErrDamaged, got, want)
	}
	if n := binary.BigEndian.Uint32(head[magicBytes+4:]); uint64(n) != uint64(len(payload)) {
		return 0, nil, fmt.Errorf("%w: payload of %d bytes, its head says %d", ErrDamaged, len(payload), n)
	}
	return binary.BigEndian.Uint32(head[magicBytes:]), payload, nil
}

func checksum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}
