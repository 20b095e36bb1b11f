package main

import (
	"container/heap"
	"time"
)

// epochStart is when every run begins.
const epochStart = 1_700_000_000_000_000_000

// proc is something that runs, stops and can be frozen: a quorum node, a broker, a client. Events belong to one life of
// a proc; they die with it, and wait while it is frozen.
type proc struct {
	name  string
	index int
	up    bool
	// life counts starts; an event of an earlier life never happens.
	life   uint64
	frozen bool
	// late holds the events that came while the proc was frozen, in order.
	late []*event
}

// event is something that will happen.
type event struct {
	at    int64
	seq   uint64
	owner *proc
	life  uint64
	fn    func()
}

// agenda is what will happen, soonest first, and in the order of planning at one instant.
type agenda struct {
	now  int64
	seq  uint64
	heap eventHeap
}

func (a *agenda) time() time.Time { return time.Unix(0, a.now) }

// after plans fn for owner's present life; a nil owner never stops.
func (a *agenda) after(d time.Duration, owner *proc, fn func()) { a.at(a.now+int64(d), owner, fn) }

func (a *agenda) at(at int64, owner *proc, fn func()) {
	a.seq++
	e := &event{at: max(at, a.now), seq: a.seq, owner: owner, fn: fn}
	if owner != nil {
		e.life = owner.life
	}
	heap.Push(&a.heap, e)
}

// next takes the soonest event that can happen, and moves the clock; false when nothing is planned before until.
func (a *agenda) next(until int64) (*event, bool) {
	for len(a.heap) > 0 && a.heap[0].at <= until {
		e, _ := heap.Pop(&a.heap).(*event)
		a.now = e.at
		switch p := e.owner; {
		case p == nil, p.up && p.life == e.life && !p.frozen:
			return e, true
		case p.frozen && p.life == e.life:
			p.late = append(p.late, e)
		}
	}
	a.now = max(a.now, until)
	return nil, false
}

// start begins a new life.
func (p *proc) start() {
	p.life++
	p.up, p.frozen, p.late = true, false, nil
}

// stop ends the life.
func (p *proc) stop() { p.up, p.frozen, p.late = false, false, nil }

// thaw lets what waited happen now, in its order.
func (a *agenda) thaw(p *proc) {
	if !p.frozen {
		return
	}
	late := p.late
	p.frozen, p.late = false, nil
	for _, e := range late {
		a.seq++
		heap.Push(&a.heap, &event{at: a.now, seq: a.seq, owner: p, life: e.life, fn: e.fn})
	}
}

type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any) {
	if e, ok := x.(*event); ok {
		*h = append(*h, e)
	}
}
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
