package brokerd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockFile is held for as long as the process owns the data directory. Two brokers with one directory have one
// directory uuid, and the controller takes the second for the first one's successor: nothing else would stop them
// from writing the same logs.
const lockFile = "lock"

func lockDirectory(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, &RefusedError{Cause: fmt.Sprintf("cannot lock the data directory: %v", err), Fix: "make the data directory writable for this user", Err: err}
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &RefusedError{Cause: fmt.Sprintf("another process uses %s", dir), Fix: "stop it, or set log.dirs to another directory", Err: err}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
