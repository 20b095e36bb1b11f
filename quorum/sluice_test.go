package quorum

import (
	"fmt"
	"sync"
	"time"

	"github.com/skiffmq/skiff/quorum/active"
)

// Sluice holds back what a node's active controller proposes, between its decision and Raft, and what Raft says of
// leadership, between Raft and the active controller.
type Sluice struct {
	mu     sync.Mutex
	closed bool            // guarded by mu
	held   []*heldProposal // guarded by mu
	hints  chan struct{}   // closed when hints may pass; nil if they may; guarded by mu
}

// heldProposal waits for its release. Its caller is answered in time all the same, as a log has to.
type heldProposal struct {
	log     active.Log
	entry   []byte
	timeout time.Duration
	answer  chan active.Answer
	once    sync.Once
}

// Under puts the sluice under a node's active controller.
func (s *Sluice) Under(cfg *Config) {
	cfg.log = func(log active.Log) active.Log { return &sluiceLog{sluice: s, log: log} }
	cfg.hint = s.awaitHints
}

// Deepen lets a node's active controller have so many entries in flight.
func Deepen(cfg *Config, depth int) { cfg.depth = depth }

// Close holds back every proposal from now on.
func (s *Sluice) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// Open lets new proposals pass. Those that are held back stay so.
func (s *Sluice) Open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = false
}

// Held is how many proposals are held back.
func (s *Sluice) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// Release hands the n oldest proposals that are held back to Raft.
func (s *Sluice) Release(n int) {
	s.mu.Lock()
	released := s.held[:n:n]
	s.held = s.held[n:]
	s.mu.Unlock()
	for _, p := range released {
		answers := p.log.Propose(p.entry, p.timeout)
		go func() { p.settle(<-answers) }()
	}
}

// Lose answers the n oldest proposals that are held back as not appended; with silently, as nothing: they are lost on
// their way, and nobody knows it yet.
func (s *Sluice) Lose(n int, silently bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.held[:n] {
		if !silently {
			p.settle(active.Answer{Err: fmt.Errorf("%w: it was lost", active.ErrNotAppended)})
		}
	}
	s.held = s.held[n:]
}

// Swap has the newest proposal that is held back go first.
func (s *Sluice) Swap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.held) - 1
	s.held = append([]*heldProposal{s.held[last]}, s.held[:last]...)
}

// HoldHints keeps the node from looking at who leads until the function that it returns is called.
func (s *Sluice) HoldHints() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hints := make(chan struct{})
	s.hints = hints
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.hints == hints {
			s.hints = nil
			close(hints)
		}
	}
}

func (s *Sluice) awaitHints() {
	s.mu.Lock()
	hints := s.hints
	s.mu.Unlock()
	if hints != nil {
		<-hints
	}
}

func (p *heldProposal) settle(a active.Answer) { p.once.Do(func() { p.answer <- a }) }

// sluiceLog is a log behind a sluice.
type sluiceLog struct {
	sluice *Sluice
	log    active.Log
}

func (l *sluiceLog) Propose(entry []byte, timeout time.Duration) <-chan active.Answer {
	s := l.sluice
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		return l.log.Propose(entry, timeout)
	}
	p := &heldProposal{log: l.log, entry: entry, timeout: timeout, answer: make(chan active.Answer, 1)}
	s.held = append(s.held, p)
	time.AfterFunc(timeout, func() { p.settle(active.Answer{Err: fmt.Errorf("%w: it is held back", active.ErrUnknown)}) })
	return p.answer
}
