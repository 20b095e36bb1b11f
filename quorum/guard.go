package quorum

import (
	"bytes"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// guard stands between Raft and its store. It measures every append, counts the bytes of the log, writes a vote as
// one value, and treats a failed write as the end: after a failed fsync the next one may falsely succeed, so nothing
// is written any more and the process stops.
type guard struct {
	inner  engine
	vote   vote
	size   *logSize
	ops    operations
	fatal  func(error) // called once, with the first failed write
	failed atomic.Pointer[error]
	// pace of the writes, and how many run.
	pace    pace
	writing atomic.Int32
	// observe is told what each append took, and its bytes.
	observe func(took time.Duration, bytes int)
	// appended is told after each append, for the snapshot trigger; it does not block.
	appended func()
}

var (
	_ raft.MonotonicLogStore = (*guard)(nil)
	_ raft.LogStore          = (*guard)(nil)
	_ raft.StableStore       = (*guard)(nil)
)

func newGuard(inner engine, size *logSize, fatal func(error)) *guard {
	g := &guard{inner: inner, size: size, fatal: fatal, observe: func(time.Duration, int) {}, appended: func() {}}
	g.vote = vote{
		store:    func(k, v []byte) error { return g.write("the vote", func() error { return inner.Set(k, v) }) },
		retrieve: g.get,
	}
	return g
}

// write runs one write of the store, unless one failed before.
func (g *guard) write(what string, do func() error) error {
	if failed := g.failed.Load(); failed != nil {
		return *failed
	}
	end, start := g.ops.begin("a write of "+what), time.Now()
	g.writing.Add(1)
	err := do()
	g.writing.Add(-1)
	end()
	g.pace.wrote(time.Since(start), time.Now())
	if err == nil {
		return nil
	}
	err = fmt.Errorf("write %s to the raft store: %w", what, err)
	if g.failed.CompareAndSwap(nil, &err) {
		g.fatal(err)
	}
	return err
}

// IsMonotonic tells whether the store can hold a log with a gap; raft-wal cannot.
func (g *guard) IsMonotonic() bool {
	monotonic, ok := g.inner.(raft.MonotonicLogStore)
	return ok && monotonic.IsMonotonic()
}

// FirstIndex of the log, 0 if it is empty.
func (g *guard) FirstIndex() (uint64, error) {
	defer g.ops.begin("a read of the first index")()
	return g.inner.FirstIndex()
}

// LastIndex of the log, 0 if it is empty.
func (g *guard) LastIndex() (uint64, error) {
	defer g.ops.begin("a read of the last index")()
	return g.inner.LastIndex()
}

// GetLog reads one entry.
func (g *guard) GetLog(index uint64, log *raft.Log) error {
	defer g.ops.begin("a read of an entry")()
	return g.inner.GetLog(index, log)
}

// StoreLog appends one entry.
func (g *guard) StoreLog(log *raft.Log) error { return g.StoreLogs([]*raft.Log{log}) }

// StoreLogs appends entries and measures it.
func (g *guard) StoreLogs(logs []*raft.Log) error {
	start := time.Now()
	if err := g.write("entries", func() error { return g.inner.StoreLogs(logs) }); err != nil {
		return err
	}
	g.observe(time.Since(start), g.size.append(logs))
	g.appended()
	return nil
}

// deleteMax bounds the entries that one write removes when the log is compacted. Appends wait for it.
const deleteMax = 4096

// DeleteRange removes entries from either end of the log. A compaction takes several writes, the oldest entries first:
// after each the log is whole, and what is left is removed by the next one.
func (g *guard) DeleteRange(first, last uint64) error {
	if newest, err := g.LastIndex(); err != nil || newest <= last {
		return g.deleteRange(first, last)
	}
	for ; last-first >= deleteMax; first += deleteMax {
		if err := g.deleteRange(first, first+deleteMax-1); err != nil {
			return err
		}
	}
	return g.deleteRange(first, last)
}

func (g *guard) deleteRange(first, last uint64) error {
	err := g.write("a truncation", func() error { return g.inner.DeleteRange(first, last) })
	if err == nil {
		g.size.deleteRange(first, last)
	}
	return err
}

// Set writes a stable value; the candidate of a vote completes the vote.
func (g *guard) Set(key, value []byte) error {
	if bytes.Equal(key, keyLastVoteCand) {
		return g.vote.setCandidate(value)
	}
	return g.write("a stable value", func() error { return g.inner.Set(key, value) })
}

// Get reads a stable value. Absence is an error that reads exactly "not found".
func (g *guard) Get(key []byte) ([]byte, error) {
	if bytes.Equal(key, keyLastVoteCand) {
		return g.vote.candidate()
	}
	return g.get(key)
}

func (g *guard) get(key []byte) ([]byte, error) {
	defer g.ops.begin("a read of a stable value")()
	value, err := g.inner.Get(key)
	if isNotFound(err) || (err == nil && value == nil) {
		return nil, errNotFound
	}
	return value, err
}

// SetUint64 writes a stable number; the term of a vote waits for its candidate. Raft panics if it cannot save its
// current term, and a panic would bury the one line that the operator needs: the goroutine ends here instead, with
// its deferred answers given, while the process stops with that line.
func (g *guard) SetUint64(key []byte, value uint64) error {
	if bytes.Equal(key, keyLastVoteTerm) {
		g.vote.setTerm(value)
		return nil
	}
	err := g.write("a stable number", func() error { return g.inner.SetUint64(key, value) })
	if err != nil {
		runtime.Goexit()
	}
	return nil
}

// GetUint64 reads a stable number. Absence is an error that reads exactly "not found".
func (g *guard) GetUint64(key []byte) (uint64, error) {
	if bytes.Equal(key, keyLastVoteTerm) {
		return g.vote.term()
	}
	if _, err := g.get(key); err != nil {
		return 0, err
	}
	return g.inner.GetUint64(key)
}

// Close closes the store.
func (g *guard) Close() error { return g.inner.Close() }
