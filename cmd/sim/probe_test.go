package main

import (
	"testing"
	"time"
)

// calm is a cluster of five brokers in which nothing goes wrong by itself, after its start.
func calm(t *testing.T) *Sim {
	t.Helper()
	o := DefaultOptions(5)
	o.Brokers, o.FaultMean, o.Lossy = 5, 0, 0
	s := New(o)
	s.let(10 * time.Second)
	if v := s.violation; v != nil {
		report(t, s, v)
	}
	return s
}

func (s *Sim) fenced(b *broker) bool {
	reg, ok := s.check.head.Broker(b.id)
	return ok && reg.Fenced
}

// TestAKilledBrokerIsFencedByItsPort: nobody waits for a session of which the host says that it is over.
func TestAKilledBrokerIsFencedByItsPort(t *testing.T) {
	s := calm(t)
	b := s.brokers[0]
	b.die(false)
	s.let(300 * time.Millisecond)
	if !s.fenced(b) || s.stats.fencings["probe_refused"] != 1 {
		t.Fatalf("fenced %v, by %v", s.fenced(b), s.stats.fencings)
	}
}

// TestABrokerWithoutPowerIsFencedByItsSession: its host says nothing.
func TestABrokerWithoutPowerIsFencedByItsSession(t *testing.T) {
	s := calm(t)
	b := s.brokers[0]
	b.die(true)
	s.let(s.opt.Session * 3 / 4)
	if s.fenced(b) {
		t.Fatal("it was fenced before its session was over")
	}
	s.let(s.opt.Session)
	if !s.fenced(b) || s.stats.fencings["session_expired"] != 1 {
		t.Fatalf("fenced %v, by %v", s.fenced(b), s.stats.fencings)
	}
}

// TestAHerdIsLeftToItsSessions: three of five at once have a common cause, and that may be ours.
func TestAHerdIsLeftToItsSessions(t *testing.T) {
	s := calm(t)
	for _, b := range s.brokers[:3] {
		b.die(false)
	}
	s.let(s.opt.Session * 3 / 4)
	for _, b := range s.brokers[:3] {
		if s.fenced(b) {
			t.Fatalf("%s was fenced by a probe", b.name)
		}
	}
	s.let(s.opt.Session)
	if got := s.stats.fencings["session_expired"]; got != 3 {
		t.Fatalf("fenced by %v", s.stats.fencings)
	}
}
