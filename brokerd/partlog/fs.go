package partlog

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// FS is the disk as this package sees it: few operations, each of which a
// crash may interrupt. partlogtest has a twin of it that loses power.
type FS interface {
	// MkdirAll makes dir and its parents; it is no error if they exist.
	MkdirAll(dir string) error
	// ReadDir returns the names of the files in dir, in any order.
	ReadDir(dir string) ([]string, error)
	// Open opens a file for reading and writing; create makes it if absent.
	// The error of an absent file is fs.ErrNotExist.
	Open(name string, create bool) (File, error)
	// Rename replaces newName; durable only after SyncDir.
	Rename(oldName, newName string) error
	// Remove unlinks a file; durable only after SyncDir.
	Remove(name string) error
	// RemoveAll unlinks a directory and all in it.
	RemoveAll(dir string) error
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
}

// File is an open file. It has no position: all reads and writes say where.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Truncate sets the size.
	Truncate(size int64) error
	// Sync makes data and size durable.
	Sync() error
	// Size returns the present size in bytes.
	Size() (int64, error)
}

// OSFS is the operating system's file system.
type OSFS struct{}

// MkdirAll implements FS.
func (OSFS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o750) }

// ReadDir implements FS.
func (OSFS) ReadDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		if !entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Open implements FS.
func (OSFS) Open(name string, create bool) (File, error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(name, flags, 0o640)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Rename implements FS.
func (OSFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// Remove implements FS.
func (OSFS) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements FS.
func (OSFS) RemoveAll(dir string) error { return os.RemoveAll(dir) }

// SyncDir implements FS.
func (OSFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
