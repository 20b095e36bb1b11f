package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
)

// perm keeps the archive from other users: it names every topic and address.
const (
	dirPerm  = 0o700
	filePerm = 0o600
	// bufferBytes is what is written at a time.
	bufferBytes = 256 << 10
)

// prepare makes the directory and removes what this node left unfinished.
func (a *Archive) prepare() error {
	if err := os.Mkdir(a.cfg.Dir, dirPerm); err == nil {
		if err := disk.SyncDir(filepath.Dir(a.cfg.Dir)); err != nil {
			return fmt.Errorf("make the archive: %w", err)
		}
	} else if !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make the archive: %w", err)
	}
	entries, err := os.ReadDir(a.cfg.Dir)
	if err != nil {
		return fmt.Errorf("list the archive: %w", err)
	}
	for _, entry := range entries {
		if !isUnfinished(entry, a.cfg.NodeID) {
			continue
		}
		if err := os.Remove(filepath.Join(a.cfg.Dir, entry.Name())); err != nil {
			return fmt.Errorf("remove an unfinished file: %w", err)
		}
	}
	return nil
}

// write makes the file of an image. When it returns nil the file survives a power cut; when it returns an error there is no
// new file under the name.
func (a *Archive) write(img *fsm.Image, n name) error {
	temp := filepath.Join(a.cfg.Dir, n.unfinished(a.cfg.NodeID))
	if err := writeVerified(img, temp); err != nil {
		return errors.Join(err, removeIfThere(temp))
	}
	if err := os.Rename(temp, a.path(n)); err != nil {
		return errors.Join(err, removeIfThere(temp))
	}
	return disk.SyncDir(a.cfg.Dir)
}

// writeVerified writes the stream and verifies it as it passes, so that an image that cannot be read back gets no name.
func writeVerified(img *fsm.Image, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, filePerm)
	if err != nil {
		return err
	}
	verifier := fsm.NewSnapshotVerifier()
	w := bufio.NewWriterSize(io.MultiWriter(verifier, f), bufferBytes)
	err = errors.Join(fsm.WriteSnapshot(img, w), w.Flush(), verifier.Close(), f.Sync())
	return errors.Join(err, f.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// verify tells whether a file is one whole and sound snapshot.
func verify(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	verifier := fsm.NewSnapshotVerifier()
	_, err = io.Copy(verifier, f)
	if err == nil {
		err = verifier.Close()
	}
	return errors.Join(err, f.Close())
}
