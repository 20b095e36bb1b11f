package tool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
)

// standardOutput is the file name that stands for it.
const standardOutput = "-"

// snapshotPerm keeps snapshots from other users: they name every topic and address.
const snapshotPerm = 0o600

// snapshotSink takes a snapshot and verifies it while it is written. A file has its name only when it is whole, sound and
// durable; until then it is NAME.tmp beside it, which the next attempt replaces.
type snapshotSink struct {
	path     string
	temp     *os.File // nil for standard output
	out      io.Writer
	verifier *fsm.SnapshotVerifier
	bytes    int64
}

// createSnapshot begins to write a snapshot. A file that exists is not replaced unless overwrite is set.
func createSnapshot(path string, stdout io.Writer, overwrite bool) (*snapshotSink, error) {
	s := &snapshotSink{path: path, out: stdout, verifier: fsm.NewSnapshotVerifier()}
	if path == standardOutput {
		return s, nil
	}
	if _, err := os.Lstat(path); err == nil && !overwrite {
		return nil, config.Usage("choose another name, or give --overwrite", "%s exists already", path)
	}
	var err error
	if s.temp, err = os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, snapshotPerm); err != nil {
		return nil, config.Failed("check that the directory exists and that this user may write to it", "create the snapshot: %v", err)
	}
	s.out = s.temp
	return s, nil
}

// Write verifies the next bytes and writes them.
func (s *snapshotSink) Write(p []byte) (int, error) {
	if _, err := s.verifier.Write(p); err != nil {
		return 0, err
	}
	n, err := s.out.Write(p)
	s.bytes += int64(n)
	return n, err
}

// commit gives the file its name if it is a whole and sound snapshot.
func (s *snapshotSink) commit() error {
	if err := s.verifier.Close(); err != nil {
		return err
	}
	if s.temp == nil {
		return nil
	}
	if err := s.temp.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", s.temp.Name(), err)
	}
	if err := s.temp.Close(); err != nil {
		return err
	}
	if err := os.Rename(s.temp.Name(), s.path); err != nil {
		return err
	}
	s.temp = nil
	return disk.SyncDir(filepath.Dir(s.path))
}

// abandon removes what was written, unless it was committed.
func (s *snapshotSink) abandon() error {
	if s.temp == nil {
		return nil
	}
	s.temp.Close()
	if err := os.Remove(s.temp.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
