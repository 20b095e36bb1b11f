//go:build unix

package up

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/skiffmq/skiff/cmd/config"
)

// lock is held by the one `up` that runs the cluster of a directory. The system drops it when the process ends, however it ends.
type lock struct{ file *os.File }

func takeLock(path string) (*lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, config.Failed("choose a directory that can be written, with --data", "%v", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32)) // only to word the message
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, config.Failed("stop it first, or choose another --data", "skiff up already runs this cluster (pid %s, lock %s)", strings.TrimSpace(string(holder)), path)
		}
		return nil, config.Failed("", "lock %s: %v", path, err)
	}
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
		if err != nil {
			return nil, config.Failed("", "lock %s: %v", path, errors.Join(err, f.Close()))
		}
	}
	return &lock{file: f}, nil
}

// release gives the lock back. The file stays: removing it would let two processes lock two files of one name.
func (l *lock) release() error { return l.file.Close() }
