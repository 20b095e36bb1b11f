package replica

import (
	"context"
	"sync"

	"github.com/skiffmq/skiff/fsm"
)

// fetchers are one fetcher for each broker that leads something we follow.
type fetchers struct {
	m       *Manager
	ctx     context.Context //nolint:containedctx // the life of the goroutines, not of a call
	running sync.WaitGroup

	mu sync.Mutex
	// mu guards the following.
	byLeader map[int32]*fetcher
	of       map[fsm.PartitionID]*fetcher
}

func newFetchers(ctx context.Context, m *Manager) *fetchers {
	return &fetchers{m: m, ctx: ctx, byLeader: map[int32]*fetcher{}, of: map[fsm.PartitionID]*fetcher{}}
}

// assign lets the partition be copied from a leader in a leader epoch. The fetcher learns of it in changed.
func (fs *fetchers) assign(p *Partition, leader, leaderEpoch int32) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f, ok := fs.byLeader[leader]
	if !ok {
		f = newFetcher(fs.m, leader)
		fs.byLeader[leader] = f
		ctx, cancel := context.WithCancel(fs.ctx)
		f.cancel = cancel
		fs.running.Go(func() { f.run(ctx) })
	}
	f.add(p, leaderEpoch)
	fs.of[p.id] = f
}

// release ends the copying of a partition. What is on its way is dropped when it arrives: the role has changed.
func (fs *fetchers) release(id fsm.PartitionID) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f, ok := fs.of[id]; ok {
		f.remove(id)
		delete(fs.of, id)
	}
}

// changed tells the fetchers that their partitions changed, and ends those that have none left.
func (fs *fetchers) changed() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for leader, f := range fs.byLeader {
		if f.update() == 0 {
			f.cancel()
			delete(fs.byLeader, leader)
		}
	}
}

// wait returns when every fetcher has ended; their context must have.
func (fs *fetchers) wait() { fs.running.Wait() }
