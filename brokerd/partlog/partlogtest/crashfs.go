package partlogtest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"github.com/skiffmq/skiff/brokerd/partlog"
)

// ErrPowerCut is what every operation returns once the power is off.
var ErrPowerCut = errors.New("partlogtest: power cut")

// Op is one operation that changes something, as Hook sees it.
type Op struct {
	// Kind is one of create, write, truncate, sync, rename, remove, syncdir,
	// mkdir.
	Kind string
	Name string
}

// CrashFS is a disk with a write cache. Bytes written to a file reach the disk
// at File.Sync, names at SyncDir; until then a power cut may lose them, in the
// order they were made, the last of them in part. A name on disk never points
// to a file whose creation was lost.
type CrashFS struct {
	mu    sync.Mutex
	dirs  map[string]*directory
	ops   int
	limit int
	off   bool
	hook  func(Op) error
	opens int
}

// directory is the names of one directory as programs see them, and as they
// are on disk.
type directory struct {
	names   map[string]*inode
	durable map[string]*inode
	// pending are changes of names since the last SyncDir, oldest first.
	pending []func(names map[string]*inode)
	// made says that the directory's own name is on disk.
	made bool
}

// inode is a file's bytes as programs see them, and as they are on disk.
type inode struct {
	data    []byte
	durable []byte
	// pending are writes and truncations since the last Sync, oldest first.
	pending []change
}

// change is a write at an offset or, with data nil, a truncation to it.
type change struct {
	at   int64
	data []byte
}

var _ partlog.FS = (*CrashFS)(nil)

// New returns an empty disk.
func New() *CrashFS {
	return &CrashFS{dirs: map[string]*directory{}, limit: -1}
}

// CutAfter turns the power off before the n-th change from now on (0: before
// the next).
func (c *CrashFS) CutAfter(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = c.ops + n
}

// Hook makes every change first ask hook, whose error it returns instead of
// changing anything. A write that fails so leaves half its bytes behind.
func (c *CrashFS) Hook(hook func(Op) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hook = hook
}

// Ops is how many changes were made.
func (c *CrashFS) Ops() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ops
}

// OpenFiles is how many files are open.
func (c *CrashFS) OpenFiles() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opens
}

// Kill returns the disk as the next process finds it when this one is killed:
// all that was written is there, and what was not synced is still only in the
// cache. The old disk is off.
func (c *CrashFS) Kill() *CrashFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := New()
	next.dirs, c.dirs = c.dirs, nil
	c.off = true
	return next
}

// PowerCut returns the disk as it is found after a power cut that loses
// everything not synced.
func (c *CrashFS) PowerCut() *CrashFS {
	return c.after(func(int) int { return 0 }, nil)
}

// TornPowerCut returns the disk as it is found after a power cut that loses a
// random part of what was not synced, and tears the last write that it keeps.
func (c *CrashFS) TornPowerCut(rnd *rand.Rand) *CrashFS {
	return c.after(func(n int) int { return rnd.IntN(n + 1) }, rnd)
}

// after builds the disk that keeps the first keep(n) of each list of n
// pending changes.
func (c *CrashFS) after(keep func(n int) int, tear *rand.Rand) *CrashFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := New()
	moved := map[*inode]*inode{}
	// In a fixed order, so that the same dice tear the same writes.
	for _, path := range slices.Sorted(maps.Keys(c.dirs)) {
		d := c.dirs[path]
		kept := keep(len(d.pending) + 1)
		if !d.made && kept == 0 {
			continue
		}
		names := clone(d.durable)
		for _, change := range d.pending[:min(kept, len(d.pending))] {
			change(names)
		}
		fresh := &directory{names: map[string]*inode{}, made: true}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			node := names[name]
			if moved[node] == nil {
				moved[node] = node.after(keep, tear)
			}
			fresh.names[name] = moved[node]
		}
		fresh.durable = clone(fresh.names)
		next.dirs[path] = fresh
	}
	return next
}

func (n *inode) after(keep func(int) int, tear *rand.Rand) *inode {
	data := append([]byte(nil), n.durable...)
	kept := keep(len(n.pending))
	for i, change := range n.pending[:kept] {
		if tear != nil && i == kept-1 && len(change.data) > 0 {
			change.data = torn(change.data, tear)
		}
		data = change.apply(data)
	}
	return &inode{data: data, durable: append([]byte(nil), data...)}
}

// torn returns what a disk may make of a write it did not finish: less of it,
// or zeroes where a block did not arrive.
func torn(data []byte, rnd *rand.Rand) []byte {
	data = append([]byte(nil), data...)
	const block = 512
	switch rnd.IntN(3) {
	case 0:
		return data[:rnd.IntN(len(data)+1)]
	case 1:
		at := rnd.IntN(len(data)) / block * block
		clear(data[at:min(at+block, len(data))])
	case 2:
		clear(data[rnd.IntN(len(data)):])
	}
	return data
}

func (ch change) apply(data []byte) []byte {
	end := ch.at + int64(len(ch.data))
	if ch.data == nil {
		if ch.at <= int64(len(data)) {
			return data[:ch.at]
		}
		end = ch.at
	}
	for int64(len(data)) < end {
		data = append(data, make([]byte, end-int64(len(data)))...)
	}
	copy(data[ch.at:], ch.data)
	return data
}

func clone(names map[string]*inode) map[string]*inode {
	out := make(map[string]*inode, len(names))
	for name, node := range names {
		out[name] = node
	}
	return out
}

// begin counts a change and says whether it may happen. c.mu is held.
func (c *CrashFS) begin(kind, name string) error {
	if c.off || c.limit >= 0 && c.ops >= c.limit {
		c.off = true
		return fmt.Errorf("%s %s: %w", kind, name, ErrPowerCut)
	}
	c.ops++
	if c.hook != nil {
		if err := c.hook(Op{kind, name}); err != nil {
			return fmt.Errorf("%s %s: %w", kind, name, err)
		}
	}
	return nil
}

// look says whether reading is possible. c.mu is held.
func (c *CrashFS) look() error {
	if c.off {
		return ErrPowerCut
	}
	return nil
}

func (c *CrashFS) directoryOf(name string) (*directory, string, error) {
	d := c.dirs[filepath.Dir(name)]
	if d == nil {
		return nil, "", fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return d, filepath.Base(name), nil
}

// change changes names now, and on disk when the directory is synced.
func (d *directory) change(change func(names map[string]*inode)) {
	change(d.names)
	d.pending = append(d.pending, change)
}

// MkdirAll implements partlog.FS.
func (c *CrashFS) MkdirAll(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirs[dir] != nil {
		return c.look()
	}
	if err := c.begin("mkdir", dir); err != nil {
		return err
	}
	c.dirs[dir] = &directory{names: map[string]*inode{}, durable: map[string]*inode{}}
	return nil
}

// ReadDir implements partlog.FS.
func (c *CrashFS) ReadDir(dir string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.dirs[dir]
	if d == nil {
		return nil, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	return slices.Sorted(maps.Keys(d.names)), c.look()
}

// Open implements partlog.FS.
func (c *CrashFS) Open(name string, create bool) (partlog.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, base, err := c.directoryOf(name)
	if err != nil {
		return nil, err
	}
	node := d.names[base]
	switch {
	case node == nil && !create:
		return nil, errors.Join(fmt.Errorf("%s: %w", name, fs.ErrNotExist), c.look())
	case node == nil:
		if err := c.begin("create", name); err != nil {
			return nil, err
		}
		node = &inode{}
		d.change(func(names map[string]*inode) { names[base] = node })
	case c.off:
		return nil, ErrPowerCut
	}
	c.opens++
	return &file{fs: c, name: name, node: node}, nil
}

// Rename implements partlog.FS.
func (c *CrashFS) Rename(oldName, newName string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if filepath.Dir(oldName) != filepath.Dir(newName) {
		return errors.New("partlogtest: rename across directories")
	}
	d, from, err := c.directoryOf(oldName)
	if err != nil {
		return err
	}
	node := d.names[from]
	if node == nil {
		return fmt.Errorf("%s: %w", oldName, fs.ErrNotExist)
	}
	if err := c.begin("rename", newName); err != nil {
		return err
	}
	to := filepath.Base(newName)
	d.change(func(names map[string]*inode) {
		delete(names, from)
		names[to] = node
	})
	return nil
}

// Remove implements partlog.FS.
func (c *CrashFS) Remove(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, base, err := c.directoryOf(name)
	if err != nil {
		return err
	}
	if d.names[base] == nil {
		return fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	if err := c.begin("remove", name); err != nil {
		return err
	}
	d.change(func(names map[string]*inode) { delete(names, base) })
	return nil
}

// RemoveAll implements partlog.FS.
func (c *CrashFS) RemoveAll(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin("remove", dir); err != nil {
		return err
	}
	delete(c.dirs, dir)
	return nil
}

// SyncDir implements partlog.FS. Syncing a directory's parent makes the
// directory itself durable.
func (c *CrashFS) SyncDir(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin("syncdir", dir); err != nil {
		return err
	}
	for path, d := range c.dirs {
		if filepath.Dir(path) == dir {
			d.made = true
		}
	}
	if d := c.dirs[dir]; d != nil {
		d.durable, d.pending = clone(d.names), nil
	}
	return nil
}

// file is an open file.
type file struct {
	fs     *CrashFS
	name   string
	node   *inode
	closed bool
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(b []byte, at int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, err
	}
	if at >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.node.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (f *file) WriteAt(b []byte, at int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, err
	}
	written := append([]byte{}, b...)
	err := f.fs.begin("write", f.name)
	if errors.Is(err, ErrPowerCut) {
		return 0, err
	}
	if err != nil {
		written = written[:len(b)/2]
	}
	f.apply(change{at, written})
	return len(written), err
}

// Truncate implements partlog.File.
func (f *file) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	if size == int64(len(f.node.data)) {
		return nil
	}
	if err := f.fs.begin("truncate", f.name); err != nil {
		return err
	}
	f.apply(change{at: size})
	return nil
}

func (f *file) apply(ch change) {
	f.node.data = ch.apply(f.node.data)
	f.node.pending = append(f.node.pending, ch)
}

// Sync implements partlog.File.
func (f *file) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	if err := f.fs.begin("sync", f.name); err != nil {
		return err
	}
	f.node.durable, f.node.pending = append([]byte(nil), f.node.data...), nil
	return nil
}

// Size implements partlog.File.
func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.node.data)), f.usable()
}

// Close implements io.Closer.
func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	f.fs.opens--
	return nil
}

func (f *file) usable() error {
	if f.closed {
		return fmt.Errorf("%s: %w", f.name, fs.ErrClosed)
	}
	return f.fs.look()
}
