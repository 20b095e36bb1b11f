package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/skiffmq/skiff/brokerd/lifecycle"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
)

// unwell says what is not as it should be in a cluster where nothing is wrong any more; "" if all is well.
func (s *Sim) unwell() string {
	if s.raft.leader == nil || !s.raft.leader.open() {
		return "no node has an open claim"
	}
	for _, n := range s.nodes {
		if n.img.NextOffset() != s.check.head.NextOffset() {
			return fmt.Sprintf("%s is at metadata offset %d, others are at %d", n.name, n.img.AppliedOffset(), s.check.head.AppliedOffset())
		}
	}
	for _, b := range s.brokers {
		if b.life.State != lifecycle.StateRunning {
			return fmt.Sprintf("%s is %s", b.name, b.life.State)
		}
		if b.img.NextOffset() != s.check.head.NextOffset() {
			return fmt.Sprintf("%s is at metadata offset %d, others are at %d", b.name, b.img.AppliedOffset(), s.check.head.AppliedOffset())
		}
	}
	for _, id := range sortedKeys(s.check.parts) {
		t := s.check.parts[id]
		if t.leader < 0 || len(t.isr) != len(t.replicas) {
			return fmt.Sprintf("%s has leader %d, ISR %v of replicas %v", s.check.name(id), t.leader, t.isr, t.replicas)
		}
	}
	return ""
}

// audit checks what is left when everything has come to rest: every promise is in every log, and the logs are one.
func (s *Sim) audit() {
	if err := fsm.Check(s.check.head); err != nil {
		s.fail(0, "in the end: %v", err)
		return
	}
	for _, id := range sortedKeys(s.check.parts) {
		t := s.check.parts[id]
		if t.excused {
			continue
		}
		first := s.check.shadow(t.replicas[0], id)
		for _, broker := range t.replicas {
			shadow := s.check.shadow(broker, id)
			if !slices.Equal(shadow, first) {
				s.fail(17, "in the end the logs of %s on brokers %d and %d differ: %d and %d records", s.check.name(id), t.replicas[0], broker, len(first), len(shadow))
				return
			}
		}
		for offset, value := range t.promised {
			if value != 0 && !t.safe(first, int64(offset)) {
				s.fail(17, "in the end %s does not have record %d at %d", s.check.name(id), value, offset)
				return
			}
		}
		if h := s.brokerByID(t.leader).replicas[id]; h == nil || h.solo.State().High != int64(len(first)) {
			s.fail(12, "in the end the high watermark of %s is not its end %d", s.check.name(id), len(first))
			return
		}
	}
}

// founder creates a topic for the producers and consumers, as often as it takes, and again when it was deleted.
type founder struct {
	proc
	s     *Sim
	topic string
}

func (f *founder) loop() {
	s := f.s
	s.agenda.after(s.between(200*time.Millisecond, time.Second), &f.proc, func() {
		if s.quiet {
			return
		}
		if _, there := s.check.head.TopicByName(f.topic); there {
			f.loop()
			return
		}
		n := s.nodes[s.rnd.IntN(len(s.nodes))]
		req := &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{{
			Name: f.topic, NumPartitions: int32(1 + s.rnd.IntN(3)), ReplicationFactor: []int32{1, 2, 3, 3, 3}[s.rnd.IntN(5)],
		}}}
		op := active.NewOp(controller.CreateTopics, req, &metadatav1.Cause{Principal: f.name}, s.uuid())
		s.net.send(&f.proc, &n.proc, func() { n.submit(op, time.Second, func(active.Outcome) {}) })
		f.loop()
	})
}

// fencingSlack is what the commit of a fencing may take besides the session.
const fencingSlack = 2 * time.Second

// watchSessions checks that a broker that the active controller did not hear of is fenced in time: after its session and
// the eighth of one that may pass between two looks.
func (s *Sim) watchSessions() {
	s.agenda.after(500*time.Millisecond, nil, s.watchSessions)
	n := s.raft.leader
	if n == nil || !n.up || n.frozen || !n.open() || n.img.NextOffset() != s.check.head.NextOffset() {
		return
	}
	for _, b := range s.brokers {
		reg, ok := n.img.Broker(b.id)
		if !ok || reg.Fenced {
			continue
		}
		silent := time.Duration(s.agenda.now - max(n.heard[b.id], n.openedAt, n.thawedAt))
		if silent > s.opt.Session+s.opt.Session/8+fencingSlack {
			s.fail(7, "%s was not heard of for %s and is not fenced; its session lasts %s", b.name, silent, s.opt.Session)
			return
		}
	}
}
