package torture

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// ballast is the file that fills a disk.
const ballast = "ballast"

// disks are file systems of their own for the data of nodes, in memory and of a size that can be filled.
type disks struct {
	dir     string
	mounted []string
}

// mountDisks gives each node in dir a disk of so many bytes. They are unmounted when the test is over; those of a failed test leave
// what they held behind.
func mountDisks(t testing.TB, dir string, nodes []string, size int64) (*disks, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil, errors.New("only root can mount disks that can be filled")
	}
	d := &disks{dir: dir}
	t.Cleanup(func() {
		if err := d.unmount(t.Failed() || os.Getenv("SKIFF_KEEP") == "1"); err != nil {
			t.Error(err)
		}
	})
	for _, name := range nodes {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return nil, err
		}
		if err := command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d,mode=755", size), "skiff-torture", at); err != nil {
			return d, errors.Join(err, d.unmount(false))
		}
		d.mounted = append(d.mounted, at)
	}
	return d, nil
}

// unmount takes the disks away again.
func (d *disks) unmount(keep bool) error {
	var errs []error
	for _, at := range d.mounted {
		if keep {
			errs = append(errs, command("cp", "-a", at, at+".kept"))
		}
		errs = append(errs, command("umount", at))
		if keep {
			errs = append(errs, os.Remove(at), os.Rename(at+".kept", at))
		}
	}
	d.mounted = nil
	return errors.Join(errs...)
}

// fill leaves no byte free on the disk of a node, until free is called.
func (d *disks) fill(name string) (free func() error, err error) {
	path := filepath.Join(d.dir, name, ballast)
	free = func() error { return os.Remove(path) }
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; { // ever smaller pieces, until not one byte fits
		_, err := f.Write(make([]byte, size))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			size /= 16
		case err != nil:
			return nil, errors.Join(err, free())
		}
	}
	return free, nil
}

// command runs a command and tells what it said if it failed.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, bytes.TrimSpace(out))
	}
	return nil
}
