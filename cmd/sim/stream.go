package main

import (
	"time"

	"github.com/skiffmq/skiff/fsm"
)

// stream is a broker's follow stream, as its node serves it.
type stream struct {
	node *node
	life uint64 // of the node
	b    *broker
	next int64 // metadata offset of the next entry to send
	busy bool  // a message is on its way
	sent int64 // when it went out
}

// streamSilence is how long a broker waits for news of its stream before it opens another.
const streamSilence = 1500 * time.Millisecond

// perMessage bounds the entries in one message of a stream.
const perMessage = 16

// follow opens a stream at a node, or tries another one later.
func (b *broker) follow() {
	s := b.s
	n := b.source()
	b.stream = nil
	position := int64(0)
	if b.img != nil {
		position = b.img.NextOffset()
	}
	s.net.call(&b.proc, &n.proc, time.Second, func(answer func(func())) {
		st := &stream{node: n, life: n.life, b: b, next: position}
		answer(func() { b.stream, b.heardAt = st, s.agenda.now })
		st.pump()
	}, func() { s.agenda.after(50*time.Millisecond, &b.proc, b.follow) })
}

// source chooses a node to follow: the active controller as far as known, or any.
func (b *broker) source() *node {
	s := b.s
	if b.ctrl != nil && s.rnd.IntN(3) > 0 {
		return b.ctrl
	}
	return s.nodes[s.rnd.IntN(len(s.nodes))]
}

// keepFollowing leaves a stream that has gone silent, or whose node is cut off from the quorum.
func (b *broker) keepFollowing() {
	s := b.s
	if st := b.stream; st != nil {
		alive := st.node.up && !st.node.frozen && st.node.life == st.life && s.net.reaches(&b.proc, &st.node.proc)
		lost := st.busy && s.agenda.now-st.sent > int64(streamSilence)
		if alive && !lost && st.node.inTouch() {
			b.heardAt = s.agenda.now
		}
		if s.agenda.now-b.heardAt > int64(streamSilence) {
			b.follow()
		}
	}
	s.agenda.after(500*time.Millisecond, &b.proc, b.keepFollowing)
}

// inTouch tells whether the node hears the leader, as its beats say.
func (n *node) inTouch() bool {
	l := n.s.raft.leader
	return l != nil && l.up && n.s.net.reaches(&n.proc, &l.proc)
}

// pump sends what the follower does not have, or waits for the next entry.
func (st *stream) pump() {
	n := st.node
	if st.busy || !n.up || n.life != st.life {
		return
	}
	if st.next > n.img.AppliedOffset() {
		if !n.streams[st] {
			n.streams[st] = true
			n.order = append(n.order, st)
		}
		return
	}
	if len(n.feed) == 0 || n.feed[0].first > st.next {
		st.sendSnapshot()
		return
	}
	var batch []*fed
	for i := len(n.feed) - 1; i >= 0 && n.feed[i].first >= st.next; i-- {
		batch = append(batch, n.feed[i])
	}
	reverse(batch)
	batch = batch[:min(len(batch), perMessage)]
	last := batch[len(batch)-1]
	st.deliver(last.first+recordsIn(last.env), func() {
		for _, e := range batch {
			if !st.b.takeEntry(e) {
				return
			}
		}
	})
}

func (st *stream) sendSnapshot() {
	img := st.node.s.roundTrip(st.node.img)
	if img == nil {
		return
	}
	st.deliver(img.NextOffset(), func() { st.b.takeSnapshot(img) })
}

// deliver sends one message; the next goes out when it has arrived.
func (st *stream) deliver(next int64, take func()) {
	n, s := st.node, st.node.s
	st.busy, st.next, st.sent = true, next, s.agenda.now
	s.net.send(&n.proc, &st.b.proc, func() {
		if st.b.stream != st {
			return
		}
		st.b.heardAt = s.agenda.now
		take()
		s.net.send(&st.b.proc, &n.proc, func() {
			st.busy = false
			st.pump()
		})
	})
}

// wakeStreams sends what was applied to the followers that waited for it.
func (n *node) wakeStreams() {
	order := n.order
	n.order = nil
	clear(n.streams)
	for _, st := range order {
		st.pump()
	}
}

func reverse(list []*fed) {
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
}

// takeEntry folds an entry from the feed, as brokerd/metadata does; false leaves the rest of the message alone.
func (b *broker) takeEntry(e *fed) bool {
	if b.img == nil || e.first > b.img.NextOffset() {
		b.follow() // the stream lost something: begin again from where we are
		return false
	}
	if e.first < b.img.NextOffset() {
		return true
	}
	before := b.img
	res := b.s.plant.follow(before, fsm.Entry{Envelope: e.env, ControllerEpoch: e.epoch, FirstOffset: e.first})
	b.s.check.followed(b, before, e, res)
	if b.s.violation != nil {
		return false
	}
	b.img = res.Image
	b.metadataChanged(res.Delta)
	return b.s.violation == nil
}

// takeSnapshot takes a whole image in place of ours, unless it is older.
func (b *broker) takeSnapshot(img *fsm.Image) {
	old := b.img
	if old != nil && img.NextOffset() <= old.NextOffset() {
		return
	}
	if old != nil {
		b.s.check.grew(b.name, old, img)
	} else {
		old = b.s.empty
	}
	b.s.tracef("%s takes a snapshot at metadata offset %d", b.name, img.AppliedOffset())
	b.img = img
	b.s.check.same(b.name, img)
	b.metadataChanged(fsm.Diff(old, img))
}
