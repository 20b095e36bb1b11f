package main

import (
	"time"

	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
)

const (
	fetchWait        = 500 * time.Millisecond
	fetchTimeout     = 10 * time.Second
	fetchBackoff     = 20 * time.Millisecond
	fetchBackoffMax  = time.Second
	partitionBackoff = 50 * time.Millisecond
	fetchBytes       = 1 << 20
)

// fetcher copies from one leader: one request at a time, as that of brokerd/replica.
type fetcher struct {
	b      *broker
	leader int32
	set    map[fsm.PartitionID]*assignment
	// grown tells that partitions came since the last request.
	grown bool
	// turn counts requests; an answer to an earlier one is dropped.
	turn    uint64
	busy    bool
	backoff time.Duration
}

type assignment struct {
	leaderEpoch int32
	notBefore   int64
}

// fetchItem is one partition of a request.
type fetchItem struct {
	id   fsm.PartitionID
	a    *assignment
	sent replica.FetchPartition
}

// parkedFetch is a request at the leader.
type parkedFetch struct {
	at     *broker
	from   int32
	epoch  int64
	items  []fetchItem
	answer func([]replica.FetchResult)
	done   bool
}

func (b *broker) assign(id fsm.PartitionID, leader, leaderEpoch int32) {
	f := b.fetchers[leader]
	if f == nil {
		f = &fetcher{b: b, leader: leader, set: map[fsm.PartitionID]*assignment{}}
		b.fetchers[leader] = f
	}
	f.set[id] = &assignment{leaderEpoch: leaderEpoch}
	f.grown = true
}

func (b *broker) release(id fsm.PartitionID) {
	for _, f := range b.fetchers {
		delete(f.set, id)
	}
}

// interrupt gives up the request that is under way: new partitions must not wait for it.
func (f *fetcher) interrupt() {
	f.turn++
	f.busy = false
	f.run()
}

// run sends the next request, or waits until a partition is due.
func (f *fetcher) run() {
	if f.busy || len(f.set) == 0 {
		return
	}
	if f.b.life.Epoch < 0 { // the leader refuses a fetch without one
		turn := f.turn
		f.b.s.agenda.after(fetchBackoff, &f.b.proc, func() {
			if f.turn == turn {
				f.run()
			}
		})
		return
	}
	s := f.b.s
	items, next := f.due()
	if len(items) == 0 {
		if next > 0 {
			turn := f.turn
			s.agenda.at(next, &f.b.proc, func() {
				if f.turn == turn {
					f.run()
				}
			})
		}
		return
	}
	f.send(items)
}

// due lists what to fetch now, and when the next of the others is due.
func (f *fetcher) due() (items []fetchItem, next int64) {
	now := f.b.s.agenda.now
	for _, id := range sortedKeys(f.set) {
		a := f.set[id]
		if a.notBefore > now {
			if next == 0 || a.notBefore < next {
				next = a.notBefore
			}
			continue
		}
		h := f.b.replicas[id]
		if h == nil {
			continue
		}
		if pos, err := h.solo.Position(a.leaderEpoch); err == nil {
			pos.MaxBytes = f.b.s.opt.FetchBytes
			f.b.s.plant.forget(&pos)
			items = append(items, fetchItem{id, a, pos})
		}
	}
	return items, next
}

func (f *fetcher) send(items []fetchItem) {
	b, s := f.b, f.b.s
	leader := s.brokerByID(f.leader)
	f.turn++
	f.busy = true
	turn, epoch := f.turn, b.life.Epoch
	s.net.call(&b.proc, &leader.proc, fetchTimeout, func(answer func(func())) {
		p := &parkedFetch{at: leader, from: b.id, epoch: epoch, items: items, answer: func(results []replica.FetchResult) {
			answer(func() { f.answered(turn, items, results) })
		}}
		s.net.stall(&leader.proc, 300, func() { leader.serveFetch(p) })
	}, func() { f.failed(turn) })
	// A connection to a dead or unreachable broker breaks at once.
	if !leader.up || !s.net.reaches(&b.proc, &leader.proc) {
		s.agenda.after(s.net.delay(), &b.proc, func() { f.failed(turn) })
	}
}

func (f *fetcher) failed(turn uint64) {
	if f.turn != turn || !f.busy {
		return
	}
	f.backoff = min(max(2*f.backoff, fetchBackoff), fetchBackoffMax)
	f.b.s.agenda.after(f.backoff, &f.b.proc, func() {
		if f.turn == turn {
			f.busy = false
			f.run()
		}
	})
}

// answered brings the leader's answer into the logs.
func (f *fetcher) answered(turn uint64, items []fetchItem, results []replica.FetchResult) {
	if f.turn != turn {
		return
	}
	f.busy, f.backoff = false, 0
	b := f.b
	for i, item := range items {
		h := b.replicas[item.id]
		if h == nil || f.set[item.id] != item.a {
			continue
		}
		cut, err := h.solo.Bring(item.a.leaderEpoch, results[i])
		if cut {
			b.s.check.cutBelowHigh(h)
		}
		if err != nil {
			item.a.notBefore = b.s.agenda.now + int64(partitionBackoff)
		}
		h.changed()
		if b.s.violation != nil {
			return
		}
	}
	f.run()
}

// serveFetch answers a follower's request at once if there is something to tell, else when there is.
func (b *broker) serveFetch(p *parkedFetch) {
	results, enough := b.read(p, true)
	if enough {
		p.answer(results)
		return
	}
	for _, item := range p.items {
		if h := b.replicas[item.id]; h != nil {
			h.reads = append(h.reads, p)
		}
	}
	b.s.agenda.after(fetchWait, &b.proc, func() {
		if !p.done {
			results, _ := b.read(p, false)
			p.finish(results)
		}
	})
}

func (p *parkedFetch) finish(results []replica.FetchResult) {
	p.done = true
	for _, item := range p.items {
		if h := p.at.replicas[item.id]; h != nil {
			h.reads = without(h.reads, p)
		}
	}
	p.answer(results)
}

// read reads every partition of a request once, and tells whether that is an answer.
func (b *broker) read(p *parkedFetch, first bool) (results []replica.FetchResult, enough bool) {
	for _, item := range p.items {
		h := b.replicas[item.id]
		if h == nil {
			results = append(results, replica.FetchResult{ID: item.id, Err: replica.ErrUnknownPartition, HighWatermark: -1, LogStartOffset: -1})
			enough = true
			continue
		}
		if first {
			b.s.plant.flatter(h, p, item)
		}
		res, w := h.solo.Read(item.sent, p.from, p.epoch, first)
		if w != nil {
			b.wish(h, w, true)
		}
		results = append(results, res)
		enough = enough || res.Err != nil || res.Diverging != nil || len(res.Records) > 0
		if first {
			h.changed()
		}
	}
	return results, enough
}

// settle answers who waits for news of the partition.
func (h *hosted) settle() {
	for _, w := range h.writes {
		w.look(h)
	}
	h.writes = kept(h.writes, func(w *write) bool { return !w.done })
	for _, p := range append([]*parkedFetch(nil), h.reads...) {
		if p.done {
			continue
		}
		if results, enough := h.b.read(p, false); enough {
			p.finish(results)
		}
	}
}

func without[T comparable](list []T, x T) []T { return kept(list, func(y T) bool { return y != x }) }

func kept[T any](list []T, keep func(T) bool) []T {
	var out []T
	for _, x := range list {
		if keep(x) {
			out = append(out, x)
		}
	}
	return out
}
