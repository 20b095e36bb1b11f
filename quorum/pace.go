package quorum

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Raft's clock of an election runs while the candidate and its voters write their terms and votes. On a disk that needs
// longer for these writes than the clock grants, every candidate begins anew before its votes can arrive, and a quorum
// that lost its leader never has one again. So the clock follows the disk: never faster than configured, slower as long
// as writes are slow. How soon a dead leader is missed is another clock, which stays as it is.
const (
	// paceWrites of the store fit into an election: the candidate's term, then a voter's term and vote, and one to spare.
	paceWrites = 4
	// paceMemory is how long a slow write counts, at least; at most it is twice that.
	paceMemory = time.Minute
)

// pace remembers the slowest write of the store of late.
type pace struct {
	mu       sync.Mutex // guards what follows
	turned   time.Time  // when recent began
	recent   time.Duration
	previous time.Duration // the slowest of the span before recent
}

// wrote is told what a write took.
func (p *pace) wrote(took time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	p.recent = max(p.recent, took)
}

// slowest is what the slowest write of late took.
func (p *pace) slowest(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	return max(p.recent, p.previous)
}

// turn begins a new span when the present one is over. mu is held.
func (p *pace) turn(now time.Time) {
	switch since := now.Sub(p.turned); {
	case since < paceMemory:
		return
	case since < 2*paceMemory:
		p.previous = p.recent
	default:
		p.previous = 0
	}
	p.turned, p.recent = now, 0
}

// electionTimeout is Raft's clock of an election where the slowest write takes so long: a multiple of the configured one,
// so that it does not change with every write.
func electionTimeout(configured, slowest time.Duration) time.Duration {
	steps := (paceWrites*slowest + configured - 1) / configured
	return configured * max(1, steps)
}

// keepPace sets the clock after the disk.
func (m *member) keepPace() {
	slowest := m.store.pace.slowest(time.Now())
	settings := m.raft.ReloadableConfig()
	want := electionTimeout(m.cfg.timeout(), slowest)
	if settings.ElectionTimeout == want {
		return
	}
	m.logger.Info("elections follow the pace of the disk", "slowest-write", slowest.String(), "election-timeout", want.String(),
		"before", settings.ElectionTimeout.String())
	settings.ElectionTimeout = want
	if err := m.raft.ReloadConfig(settings); err != nil {
		m.logger.Error("the election timeout stays as it is", "error", err)
	}
}

// heldUp tells the present term, and whether the disk holds up a follower: a write has not returned, and the watchdog
// has not given it up yet.
func (m *member) heldUp() (term uint64, held bool) {
	held = m.store.writing.Load() > 0 && m.stall.Load() == nil && m.raft.State() == raft.Follower
	return m.raft.CurrentTerm(), held
}
