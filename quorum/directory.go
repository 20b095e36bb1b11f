package quorum

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/skiffmq/skiff/fsm"
)

// lockFile is held for as long as the process owns the directory.
const lockFile = "lock"

// ErrDirectoryInUse is returned when another process owns the data directory.
var ErrDirectoryInUse = errors.New("another process uses the directory")

// lockDirectory makes this process the only owner of dir until the file is closed.
func lockDirectory(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is locked", ErrDirectoryInUse, path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// newUUID gives a random uuid (RFC 9562 version 4).
func newUUID() (u fsm.UUID) {
	rand.Read(u[:]) // never fails: crypto/rand ends the process instead
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u
}
