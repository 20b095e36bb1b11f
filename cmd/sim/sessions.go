package main

import (
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
	"github.com/skiffmq/skiff/quorum/rpc"
)

// keepalive is how often a node looks whether the peers of its sessions can be reached; one that cannot twice is given
// up, as gRPC's pings do it.
const keepalive = 5 * time.Second

// heartbeatTimeout bounds the wait for one heartbeat's decision, as in quorum/rpc.
const heartbeatTimeout = 10 * time.Second

// link is one session stream of a broker at a node, with what the node remembers of it.
type link struct {
	b    *broker
	n    *node
	life uint64 // of the node
	said rpc.BrokerSession
	// ended is set when the node has noted its end; mute counts the looks at which the peer could not be reached.
	ended bool
	mute  int
}

// beat is a heartbeat that has to be decided.
type beat struct {
	link   *link
	req    *controllerv1.SessionRequest
	answer func(*controllerv1.SessionResponse)
}

// link returns the broker's session at a node, a new one if it has none there.
func (b *broker) linkTo(n *node) *link {
	if l := b.talk.link; l != nil && l.n == n && l.life == n.life {
		return l
	}
	b.hangUp()
	b.talk.link = &link{b: b, n: n, life: n.life}
	return b.talk.link
}

// hangUp closes the session, as the end of the process does.
func (b *broker) hangUp() {
	l := b.talk.link
	if l == nil {
		return
	}
	b.talk.link = nil
	b.s.net.send(&b.proc, &l.n.proc, func() { l.n.ends(l, true) })
}

// ends notes the end of a session. If its broker ended it without a goodbye, it may be gone.
func (n *node) ends(l *link, byPeer bool) {
	if l.ended || l.life != n.life {
		return
	}
	l.ended = true
	n.links = without(n.links, l)
	if broker, epoch, gone := n.desk.End(&l.said, n.img, byPeer); gone {
		n.closed(broker, epoch)
	}
}

// closed tells the Core of a broker that can be heard no longer.
func (n *node) closed(broker int32, epoch int64) {
	n.step(active.Closings{Closings: []active.Closing{{BrokerID: broker, BrokerEpoch: epoch, At: n.s.agenda.time()}}})
}

// pingSessions gives up the sessions whose peers cannot be reached.
func (n *node) pingSessions() {
	for _, l := range append([]*link(nil), n.links...) {
		l.mute++
		if l.b.up && l.b.talk.link == l && n.s.net.reaches(&n.proc, &l.b.proc) {
			l.mute = 0
		}
		if l.mute > 1 {
			n.ends(l, true)
		}
	}
	n.s.agenda.after(keepalive, &n.proc, n.pingSessions)
}

// heartbeat is what the session of quorum/rpc does with one: note its arrival, answer the steady state from the image,
// and let the Core decide the rest. Nil answers that this node is not the active controller.
func (n *node) heartbeat(l *link, req *controllerv1.SessionRequest, answer func(*controllerv1.SessionResponse)) {
	if l.ended || l.life != n.life || !n.open() {
		n.ends(l, false)
		answer(nil)
		return
	}
	if !has(n.links, l) {
		n.links = append(n.links, l)
	}
	call := &beat{link: l, req: req, answer: answer}
	h := n.desk.Take(&l.said, n.img, req, call)
	if h.Heard {
		n.heard[req.GetBrokerId()] = n.s.agenda.now
		n.contacts = append(n.contacts, active.Contact{
			BrokerID: req.GetBrokerId(), BrokerEpoch: req.GetBrokerEpoch(), MetadataOffset: req.GetMetadataOffset(), At: n.s.agenda.time(),
		})
	}
	if req.GetGoodbye() {
		n.s.check.saidGoodbye(n, req.GetBrokerId(), req.GetBrokerEpoch())
	}
	switch h.Fate {
	case rpc.Answered:
		answer(h.Answer)
	case rpc.ToDecide:
		n.decide(call)
	case rpc.Waits:
	case rpc.Refused:
		n.ends(l, false)
		answer(nil)
	}
}

// decide has one heartbeat decided, and then the goodbye that came meanwhile.
func (n *node) decide(call *beat) {
	op := active.NewOp(controller.Heartbeat, call.req, &metadatav1.Cause{RequestKind: "BrokerHeartbeat"}, fsm.UUID{}).Prompt()
	n.submit(op, heartbeatTimeout, func(out active.Outcome) {
		id := call.req.GetBrokerId()
		resp, _ := out.Reply.(*controllerv1.SessionResponse)
		v := rpc.Judge(n.img, call.req, resp, out.Err)
		if v.Over {
			n.ends(call.link, false)
		}
		if v.Gone {
			n.closed(id, call.req.GetBrokerEpoch())
		}
		call.answer(v.Answer)
		if next, ok := n.desk.Decided(id); ok {
			n.decide(next)
		}
	})
}

func has[T comparable](list []T, x T) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}
