package partlog

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

// minOpenFiles is the smallest budget: enough for a read, a write and an
// index at once.
const minOpenFiles = 8

// FileBudget bounds the files kept open by all logs that share it. A file in
// use is never closed, so the bound is exceeded by at most the calls in
// progress.
type FileBudget struct {
	limit int

	// mu guards the following; a handle's lock may be tried, not waited for,
	// while it is held.
	mu sync.Mutex
	// open holds every handle whose file is open; clock goes round it and
	// closes the first that was not used since it last came by.
	open  []*handle
	clock int
}

// NewFileBudget returns a budget of limit open files; 0 means half of what
// the process may open.
func NewFileBudget(limit int) *FileBudget {
	if limit <= 0 {
		limit = processFileLimit() / 2
	}
	return &FileBudget{limit: max(limit, minOpenFiles)}
}

// sharedFiles is the budget of logs that were not given one.
var sharedFiles = sync.OnceValue(func() *FileBudget { return NewFileBudget(0) })

// Open returns how many files are open now.
func (b *FileBudget) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open)
}

// admit counts a handle whose file was just opened and closes others until
// the budget holds.
func (b *FileBudget) admit(h *handle) {
	b.mu.Lock()
	h.slot = len(b.open)
	b.open = append(b.open, h)
	var evicted []evictedFile
	// Two rounds: the first clears the marks of use, the second finds.
	for tries := 2 * len(b.open); len(b.open) > b.limit && tries > 0; tries-- {
		b.clock = (b.clock + 1) % len(b.open)
		victim := b.open[b.clock]
		if victim == h {
			continue
		}
		if file := victim.evict(); file != nil {
			b.remove(victim)
			evicted = append(evicted, evictedFile{victim, file})
		}
	}
	b.mu.Unlock()
	for _, e := range evicted {
		e.close()
	}
}

// evictedFile is a file taken from its handle and not closed yet.
type evictedFile struct {
	from *handle
	file File
}

func (e evictedFile) close() {
	if err := e.file.Close(); err != nil {
		e.from.mu.Lock()
		e.from.err = fmt.Errorf("close %s: %w", e.from.name, err)
		e.from.mu.Unlock()
	}
}

// forget stops counting a handle; the file is no longer open.
func (b *FileBudget) forget(h *handle) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.slot >= 0 {
		b.remove(h)
	}
}

func (b *FileBudget) remove(h *handle) {
	last := len(b.open) - 1
	b.open[h.slot] = b.open[last]
	b.open[h.slot].slot = h.slot
	b.open = b.open[:last]
	h.slot = -1
}

// handle is a file that is opened when it is needed and may be closed when
// nobody uses it.
type handle struct {
	fs     FS
	budget *FileBudget
	name   string

	// slot is the handle's place in budget.open, -1 if none; budget.mu guards it.
	slot int

	// mu guards the following; no I/O happens under it.
	mu sync.Mutex
	// create makes the next opening make the file.
	create  bool
	file    File
	refs    int
	used    bool
	dropped bool
	// err is what closing an evicted file said: writes may be lost, and the
	// next user must hear of it.
	err error
}

func newHandle(fsys FS, budget *FileBudget, name string, create bool) *handle {
	return &handle{fs: fsys, budget: budget, name: name, create: create, slot: -1}
}

// acquire returns the open file; release must follow.
func (h *handle) acquire() (File, error) {
	h.mu.Lock()
	if file, err := h.takeLocked(); file != nil || err != nil {
		h.mu.Unlock()
		return file, err
	}
	create := h.create
	h.mu.Unlock()
	opened, err := h.fs.Open(h.name, create)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", h.name, err)
	}
	return h.install(opened)
}

// takeLocked takes a reference to a file that is open.
func (h *handle) takeLocked() (File, error) {
	if h.dropped {
		return nil, fmt.Errorf("%s: %w", h.name, fs.ErrClosed)
	}
	if h.err != nil {
		return nil, h.err
	}
	if h.file != nil {
		h.refs++
		h.used = true
	}
	return h.file, nil
}

// install makes opened the handle's file, unless another was faster.
func (h *handle) install(opened File) (File, error) {
	h.mu.Lock()
	file, err := h.takeLocked()
	if file != nil || err != nil {
		h.mu.Unlock()
		return file, errors.Join(err, opened.Close())
	}
	h.file, h.create = opened, false
	file, err = h.takeLocked()
	h.mu.Unlock()
	h.budget.admit(h)
	return file, err
}

func (h *handle) release() {
	h.mu.Lock()
	h.refs--
	var last File
	if h.dropped && h.refs == 0 {
		last, h.file = h.file, nil
	}
	h.mu.Unlock()
	if last != nil {
		h.budget.forget(h)
		// The file was deleted or its log closed after a flush: nothing can be lost.
		_ = last.Close()
	}
}

// evict takes the file out if nobody uses it or has lately.
func (h *handle) evict() File {
	if !h.mu.TryLock() {
		return nil
	}
	defer h.mu.Unlock()
	if h.refs > 0 || h.used {
		h.used = false
		return nil
	}
	file := h.file
	h.file = nil
	return file
}

// drop ends the handle: who holds the file may finish, nobody gets it anew.
func (h *handle) drop() error {
	h.mu.Lock()
	h.dropped = true
	var file File
	if h.refs == 0 {
		file, h.file = h.file, nil
	}
	h.mu.Unlock()
	if file == nil {
		return nil
	}
	h.budget.forget(h)
	return file.Close()
}
