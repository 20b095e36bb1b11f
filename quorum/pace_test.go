package quorum

import (
	"testing"
	"time"
)

func TestElectionTimeoutFollowsTheSlowestWrite(t *testing.T) {
	const configured = 500 * time.Millisecond
	for slowest, want := range map[time.Duration]time.Duration{
		0: configured, time.Millisecond: configured, 125 * time.Millisecond: configured, 126 * time.Millisecond: 2 * configured,
		400 * time.Millisecond: 2 * time.Second, stallTicks * stallTick: 8 * time.Second,
	} {
		if got := electionTimeout(configured, slowest); got != want {
			t.Errorf("%s for writes of %s, want %s", got, slowest, want)
		}
	}
}

func TestPaceForgets(t *testing.T) {
	var p pace
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	p.wrote(time.Second, at(0))
	p.wrote(time.Millisecond, at(paceMemory/2))
	p.wrote(2*time.Millisecond, at(paceMemory+time.Second))
	if got := p.slowest(at(paceMemory + 2*time.Second)); got != time.Second {
		t.Errorf("%s: forgotten too early", got)
	}
	if got := p.slowest(at(2*paceMemory + 2*time.Second)); got != 2*time.Millisecond {
		t.Errorf("%s, want the slowest of the last span", got)
	}
	if got := p.slowest(at(9 * paceMemory)); got != 0 {
		t.Errorf("%s after a silence", got)
	}
}
