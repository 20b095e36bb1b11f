package quorum

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Disk is a disk under a node's store that a test can slow down, stop and fill up.
type Disk struct {
	delay atomic.Int64
	err   atomic.Pointer[error]
	hang  atomic.Pointer[chan struct{}]
}

// Under puts the disk under a node's store.
func (d *Disk) Under(cfg *Config) {
	cfg.disk = func(e engine) engine { return &diskEngine{engine: e, disk: d} }
}

// Slow makes each write take that long, in the clock of the test.
func (d *Disk) Slow(delay time.Duration) { d.delay.Store(int64(delay)) }

// Fail makes each write fail; nil ends that.
func (d *Disk) Fail(err error) {
	if err == nil {
		d.err.Store(nil)
		return
	}
	d.err.Store(&err)
}

// Hang makes writes wait until the function that it returns is called.
func (d *Disk) Hang() (release func()) {
	hang := make(chan struct{})
	d.hang.Store(&hang)
	return func() {
		if d.hang.CompareAndSwap(&hang, nil) {
			close(hang)
		}
	}
}

func (d *Disk) write(do func() error) error {
	if hang := d.hang.Load(); hang != nil {
		<-*hang
	}
	time.Sleep(time.Duration(d.delay.Load()))
	if err := d.err.Load(); err != nil {
		return *err
	}
	return do()
}

// diskEngine is a store on a Disk.
type diskEngine struct {
	engine
	disk *Disk
}

func (e *diskEngine) StoreLog(l *raft.Log) error {
	return e.disk.write(func() error { return e.engine.StoreLog(l) })
}

func (e *diskEngine) StoreLogs(l []*raft.Log) error {
	return e.disk.write(func() error { return e.engine.StoreLogs(l) })
}

func (e *diskEngine) DeleteRange(first, last uint64) error {
	return e.disk.write(func() error { return e.engine.DeleteRange(first, last) })
}

func (e *diskEngine) Set(k, v []byte) error {
	return e.disk.write(func() error { return e.engine.Set(k, v) })
}

func (e *diskEngine) SetUint64(k []byte, v uint64) error {
	return e.disk.write(func() error { return e.engine.SetUint64(k, v) })
}
