// Package disk writes the small files that a process must never find half written: identity, meta, a saved image.
//
// It is the one package beside fsm that does I/O, and fsm never imports it. A file is replaced as a whole: written
// under a temporary name, synced, renamed, and the directory synced, so that after a crash at any point either the
// old or the new content is there. Nothing here is safe for two writers of one path at a time.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// tempSuffix marks a file that was being written. A leftover of a crash is overwritten by the next write.
const tempSuffix = ".tmp"

// WriteFileAtomic replaces the file at path by data. When it returns nil the content survives a power cut; when it
// returns an error the old content is still there, or both are if the error came from syncing the directory.
func WriteFileAtomic(path string, data []byte, perm fs.FileMode) error {
	temp := path + tempSuffix
	if err := writeSynced(temp, data, perm); err != nil {
		return errors.Join(err, removeTemp(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, removeTemp(temp))
	}
	return SyncDir(filepath.Dir(path))
}

func writeSynced(path string, data []byte, perm fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync %s: %w", path, err), f.Close())
	}
	return f.Close()
}

func removeTemp(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync %s: %w", dir, err), d.Close())
	}
	return d.Close()
}

// ErrTooLarge is returned when a file is larger than its reader allows.
var ErrTooLarge = errors.New("file is larger than allowed")

// ReadFile reads a file of at most maxBytes; a larger one is ErrTooLarge and is not read.
func ReadFile(path string, maxBytes int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if int64(len(data)) > maxBytes {
		return nil, fmt.Errorf("read %s: %w: more than %d bytes", path, ErrTooLarge, maxBytes)
	}
	return data, nil
}
