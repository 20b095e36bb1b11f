package main

import "time"

// network carries messages between procs. Messages of one life of the sender arrive in the order in which they were
// sent, as on a connection; those of an earlier life may come behind them. One that finds the way cut, when it is sent or when it arrives, is lost, and its sender hears nothing.
type network struct {
	s *Sim
	// cut ways are counted, so that faults that overlap heal one by one.
	cut map[[2]int]int
	// alone procs are cut from everybody.
	alone map[int]int
	// last arrival by sender, its life, and receiver.
	last map[connection]int64
	// slow multiplies every delay.
	slow int64
	// lossy loses one message in so many; 0 loses none.
	lossy int
}

// connection is what a sender has in one life to a receiver.
type connection struct {
	from, to int
	life     uint64
}

func newNetwork(s *Sim) *network {
	return &network{s: s, cut: map[[2]int]int{}, alone: map[int]int{}, last: map[connection]int64{}, slow: 1}
}

func way(a, b *proc) [2]int { return [2]int{min(a.index, b.index), max(a.index, b.index)} }

// reaches tells whether messages between two procs arrive.
func (n *network) reaches(a, b *proc) bool {
	return a == b || n.cut[way(a, b)] <= 0 && n.alone[a.index] <= 0 && n.alone[b.index] <= 0
}

// delay of one message.
func (n *network) delay() time.Duration {
	d := int64(100+n.s.rnd.IntN(900)) * int64(time.Microsecond)
	switch r := n.s.rnd.IntN(200); {
	case r == 0:
		d += int64(n.s.rnd.IntN(200)) * int64(time.Millisecond)
	case r < 10:
		d += int64(n.s.rnd.IntN(10)) * int64(time.Millisecond)
	}
	return time.Duration(d * max(n.slow, 1))
}

// send lets fn happen at the receiver when the message arrives.
func (n *network) send(from, to *proc, fn func()) {
	if !n.reaches(from, to) || !to.up || n.lossy > 0 && n.s.rnd.IntN(n.lossy) == 0 {
		return
	}
	pair := connection{from.index, to.index, from.life}
	at := max(n.s.agenda.now+int64(n.delay()), n.last[pair]+1)
	n.last[pair] = at
	n.s.agenda.at(at, to, func() {
		if n.reaches(from, to) {
			fn()
		}
	})
}

// stall lets a request wait at its server before it is looked at, one in so many for some seconds: its goroutine does not
// run, or it stands behind others. Those of a client that died meanwhile are looked at, too.
func (n *network) stall(at *proc, oneIn int, serve func()) {
	if !n.s.raft.unruly || n.s.rnd.IntN(oneIn) != 0 {
		serve()
		return
	}
	n.s.agenda.after(n.s.between(0, 4*time.Second), at, serve)
}

// call is a request and its answer. Exactly one of answered and failed happens at the caller, if it lives: failed when
// the answer does not come in time. Serve gets the function that sends the answer.
func (n *network) call(from, to *proc, timeout time.Duration, serve func(answer func(func())), failed func()) {
	over, life := false, from.life
	n.send(from, to, func() {
		serve(func(answered func()) {
			n.send(to, from, func() {
				if !over && from.life == life { // the connection died with its owner
					over = true
					answered()
				}
			})
		})
	})
	n.s.agenda.after(timeout, from, func() {
		if !over {
			over = true
			failed()
		}
	})
}

func (n *network) cutWay(a, b *proc, by int) { n.cut[way(a, b)] += by }
func (n *network) isolate(p *proc, by int)   { n.alone[p.index] += by }
