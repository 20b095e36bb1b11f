package replica

import (
	"context"
	"time"
)

// strayInterval is how often old strays are looked for.
const strayInterval = 10 * time.Minute

// keepHouse does what no request does: it shrinks ISRs, writes high watermarks, deletes old segments and strays.
func (m *Manager) keepHouse(ctx context.Context) {
	lag := time.NewTicker(m.cfg.LagMax / 2) // Kafka's period for the same check
	defer lag.Stop()
	checkpoint := time.NewTicker(m.cfg.CheckpointInterval)
	defer checkpoint.Stop()
	retain := time.NewTicker(m.cfg.RetentionInterval)
	defer retain.Stop()
	purge := time.NewTicker(strayInterval)
	defer purge.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-lag.C:
			m.shrinkAll()
		case <-checkpoint.C:
			m.complain("high watermarks were not written", m.checkpoint())
		case now := <-retain.C:
			m.retainAll(now)
		case now := <-purge.C:
			m.complain("strays were not purged", m.purgeStrays(now))
			m.cfg.InventoryChanged()
		}
	}
}

func (m *Manager) complain(what string, err error) {
	if err != nil {
		m.logger.Error(what, "error", err)
	}
}

func (m *Manager) shrinkAll() {
	for _, p := range m.held() {
		if w, ok := p.shrink(); ok {
			m.logger.Info("followers are late: asking for a smaller ISR", "partition", p.name(), "members", len(w.isr))
			m.proposer.propose(p, w)
		}
	}
}

func (m *Manager) retainAll(now time.Time) {
	for _, p := range m.held() {
		m.complain("old segments were not deleted", p.retain(now))
	}
}
