package quorum

import (
	"fmt"
	"runtime"
	"time"

	"github.com/hashicorp/raft"
)

// A leader whose disk hangs goes on with its heartbeats, so nobody elects another, and nothing is committed for ever
// (hashicorp/raft#503). An error instead of the hanging write would be no way out: the write may still land later. So
// such a leader ends its process, and a follower says that it is not ready.
const (
	// stallTick is the clock of the watchdog. It counts ticks, not time: a pause of the whole process drops them, and
	// a process that was paused has not been waiting for its disk.
	stallTick = 100 * time.Millisecond
	// stallTicks is how long one operation of the store may take.
	stallTicks = 20
	// stackBytesMax bounds the goroutine stacks in the log.
	stackBytesMax = 64 << 10
)

// watchdog counts for how many ticks one operation has been the oldest that runs.
type watchdog struct {
	id    uint64
	ticks int
}

// tick is told which operation is the oldest, 0 for none, and returns whether it takes too long.
func (w *watchdog) tick(oldest uint64) (stalled bool) {
	if oldest == 0 || oldest != w.id {
		w.id, w.ticks = oldest, 0
		return false
	}
	w.ticks++
	return w.ticks >= stallTicks
}

// watchStore runs the watchdog, and keeps Raft's clock at the pace of the store, until the member stops.
func (m *member) watchStore() {
	ticker := time.NewTicker(stallTick)
	defer ticker.Stop()
	var dog watchdog
	for {
		select {
		case <-ticker.C:
		case <-m.ctx.Done():
			return
		}
		m.keepPace()
		id, op := m.store.ops.oldest()
		if !dog.tick(id) {
			m.recovered()
			continue
		}
		m.stalled(op)
	}
}

// stalled is called at every tick of a stall.
func (m *member) stalled(op operation) {
	if m.stall.Swap(&op) == nil {
		m.logger.Error("the raft store does not answer", "operation", op.what, "since", op.since.UTC().Format(time.RFC3339Nano),
			"leading", m.raft.State() == raft.Leader, "stacks", stacks())
	}
	if m.raft.State() == raft.Leader {
		m.node.fail(broken("look at the disk under "+m.cfg.DataDir+"; the node may be started again once it answers",
			"this node leads, and %s in its raft store has not returned for %d ticks of %s", op.what, stallTicks, stallTick))
	}
}

func (m *member) recovered() {
	if op := m.stall.Swap(nil); op != nil {
		m.logger.Info("the raft store answers again", "operation", op.what, "took", time.Since(op.since).String())
	}
}

// stallReason is why a stalled node is not ready, empty if it does not stall.
func (m *member) stallReason() string {
	op := m.stall.Load()
	if op == nil {
		return ""
	}
	return fmt.Sprintf("disk: %s in the raft store has not returned for %s", op.what, time.Since(op.since).Round(stallTick))
}

// stacks are those of the goroutines of the process, as many as the log shall hold.
func stacks() string {
	buf := make([]byte, stackBytesMax)
	return string(buf[:runtime.Stack(buf, true)])
}
