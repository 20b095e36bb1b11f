package replica

import (
	"fmt"
	"sync"

	"github.com/skiffmq/skiff/brokerd/partlog"
)

// flusher flushes a log before its appends are answered, where this broker has the only replica. Appends that
// wait at the same time share a flush. What is not flushed does not count for the high watermark, so nobody reads
// what a power cut could take back.
type flusher struct {
	mu sync.Mutex
	// mu guards the following.
	log     *partlog.Log
	batches bool          // each append is flushed before its answer
	end     int64         // everything below is on disk; meaningful with batches
	running chan struct{} // closed when the flush that is running ends; nil if none runs
	err     error         // a flush failed: what is on disk is no longer known
}

// reset begins a leader epoch. With batches the log is flushed at once, so that all of it counts.
func (f *flusher) reset(log *partlog.Log, batches bool) error {
	end := log.EndOffset()
	if batches {
		if err := log.Flush(); err != nil {
			return fmt.Errorf("flush before leading: %w", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log, f.batches, f.end, f.err = log, batches, end, nil
	return nil
}

// stop ends flushing by batches: other replicas have the records now.
func (f *flusher) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = false
}

// durable returns how far the log is on disk, and whether only that counts.
func (f *flusher) durable() (end int64, only bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end, f.batches
}

// flush returns when everything below end is on disk, or at once if the log is not flushed by batches.
func (f *flusher) flush(end int64) error {
	for {
		f.mu.Lock()
		if !f.batches || f.end >= end || f.err != nil {
			err := f.err
			f.mu.Unlock()
			return err
		}
		running := f.running
		if running == nil {
			f.running = make(chan struct{})
		}
		log := f.log
		f.mu.Unlock()
		if running != nil {
			<-running
			continue
		}
		f.run(log)
	}
}

// run flushes once for everybody who waits. A failed fsync is final: the kernel may have dropped the pages, and
// a second fsync would report success for them.
func (f *flusher) run(log *partlog.Log) {
	end := log.EndOffset()
	err := log.Flush()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.err = fmt.Errorf("flush: %w: %w", ErrStorage, err)
	} else {
		f.end = max(f.end, end)
	}
	close(f.running)
	f.running = nil
}
