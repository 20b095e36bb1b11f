package main

import (
	"strings"
	"time"

	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
)

// probe connects to a broker's port. The system of a live host accepts for a process that listens, also for one that is
// frozen, and refuses for one that is gone; a host without power, or one that is cut off, says nothing.
func (n *node) probe(p active.Probe) {
	s := n.s
	s.stats.probes++
	answered := func(result controller.ProbeResult, in time.Duration) {
		remote := ""
		if result == controller.ProbeAccepted {
			remote = p.Address
		}
		s.agenda.after(in, &n.proc, func() {
			s.tracef("%s: the port of broker %d %s", n.name, p.BrokerID, result)
			n.step(active.ProbeAnswered{ID: p.ID, BrokerID: p.BrokerID, Result: result, Remote: remote})
		})
	}
	var b *broker
	for _, each := range s.brokers {
		if strings.HasPrefix(p.Address, each.name+":") {
			b = each
		}
	}
	delay := s.net.delay()
	s.agenda.after(delay, &n.proc, func() {
		switch {
		case b == nil || b.dark || !s.net.reaches(&n.proc, &b.proc):
			answered(controller.ProbeTimedOut, p.Timeout-delay)
		case b.up:
			answered(controller.ProbeAccepted, s.net.delay())
		default:
			answered(controller.ProbeRefused, s.net.delay())
		}
	})
}
