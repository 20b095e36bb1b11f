package quorum

import (
	"sync"
	"time"
)

// operations are those of the raft store that have begun and not returned.
type operations struct {
	mu      sync.Mutex
	last    uint64               // id of the operation that began last; guarded by mu
	running map[uint64]operation // by id; guarded by mu. As many as goroutines of Raft use the store at once: a handful
}

// operation is one of them.
type operation struct {
	what  string
	since time.Time
}

// begin notes an operation until the function that it returns is called.
func (o *operations) begin(what string) (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	id := o.last
	if o.running == nil {
		o.running = make(map[uint64]operation)
	}
	o.running[id] = operation{what: what, since: time.Now()}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.running, id)
	}
}

// oldest gives the operation that began first and its id; 0 if none is running.
func (o *operations) oldest() (id uint64, op operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, running := range o.running {
		if id == 0 || i < id {
			id, op = i, running
		}
	}
	return id, op
}
