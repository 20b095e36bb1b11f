package replica

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/stray"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
)

// begin takes in that a lineage begins, the first after the start of the process or another one. No role of the last
// lineage outlives it. It returns the metadata that was known before, nil if there was none.
func (m *Manager) begin(past, img *fsm.Image) *fsm.Image {
	if past == nil {
		past = m.cfg.Past()
	}
	if past != nil && past.Lineage().ID != img.Lineage().ID {
		m.standsStill = true // also if it was confirmed while we did not hear of it
	}
	m.awaiting.clear()
	for _, p := range m.held() {
		m.fetchers.release(p.id)
		p.forget()
		p.configure(topicconfig.Of(img, m.cfg.Static, p.topic))
	}
	return past
}

// openersMax is how many logs are opened at the same time.
const openersMax = 8

// openAll opens the logs of new partitions side by side: after a kill each of them is read to its end.
func (m *Manager) openAll(lists ...[]fsm.LocalPartition) {
	sideBySide(lists, func(c fsm.LocalPartition) {
		_, _ = m.hold(c) // whoever takes the role asks again, and reports
	})
}

// sideBySide calls do for each item, several at a time, and waits for all.
func sideBySide[T any](lists [][]T, do func(T)) {
	var doing sync.WaitGroup
	turns := make(chan struct{}, openersMax)
	for _, list := range lists {
		for _, item := range list {
			turns <- struct{}{}
			doing.Go(func() {
				defer func() { <-turns }()
				do(item)
			})
		}
	}
	doing.Wait()
}

// putAway closes a replica that the metadata no longer gives us and moves it to the strays. Past is the metadata that
// still knew its topic.
func (m *Manager) putAway(id fsm.PartitionID, past, img *fsm.Image) {
	m.fetchers.release(id)
	m.awaiting.kept(id, false)
	m.mu.Lock()
	p := m.partitions[id]
	delete(m.partitions, id)
	delete(m.unopened, id)
	m.mu.Unlock()
	if p == nil {
		return
	}
	if err := p.close(); err != nil && !errors.Is(err, partlog.ErrClosed) {
		m.report("a log that is no longer ours did not close", err)
	}
	m.stray(id, past, img)
}

// putAwayUngiven looks, once at the beginning of a lineage, for replicas here that the metadata does not give us: those
// that are held, and those that are only on disk.
func (m *Manager) putAwayUngiven(past, img *fsm.Image) {
	for _, p := range m.held() {
		if !given(img, p.id, m.cfg.NodeID) {
			m.putAway(p.id, past, img)
		}
	}
	ids, err := m.strays.Partitions()
	if err != nil {
		m.report("the data directory cannot be listed", err)
		return
	}
	var ungiven []fsm.PartitionID
	for _, id := range ids {
		if !given(img, id, m.cfg.NodeID) {
			ungiven = append(ungiven, id)
		}
	}
	sideBySide([][]fsm.PartitionID{ungiven}, m.settle)
	for _, id := range ungiven {
		m.stray(id, past, img)
	}
}

// given tells whether the metadata gives a replica to a broker.
func given(img *fsm.Image, id fsm.PartitionID, broker int32) bool {
	p, ok := img.Partition(id)
	return ok && slices.Contains(p.Replicas, broker)
}

// settle leaves a log on disk that nobody holds as a clean stop leaves it, so that a stray says where it ends. One that
// cannot be opened is put away as it is.
func (m *Manager) settle(id fsm.PartitionID) {
	if s, err := partlog.Inspect(m.cfg.Log.FS, m.strays.PartitionDir(id)); err == nil && s.Clean {
		return
	}
	log, err := partlog.Open(m.strays.PartitionDir(id), m.logOptions(id))
	if err == nil {
		err = log.Close()
	}
	m.complain("a replica that is not ours any more cannot be opened; it is put away as it is", err)
}

// stray moves a closed replica to the strays, unless the metadata is in doubt: then it stays where it is until the
// next start looks again.
func (m *Manager) stray(id fsm.PartitionID, past, img *fsm.Image) {
	if !m.cfg.Trusted() {
		m.logger.Warn("a replica is no longer ours, but the metadata failed its checks: it stays (I22)", "topic_id", id.Topic, "partition", id.Partition)
		return
	}
	topic := stray.TopicOf(past, id)
	if topic.Name == "" {
		topic = stray.TopicOf(img, id)
	}
	to, err := m.strays.Put(id, stray.Taken{Lineage: img.Lineage().ID, Offset: img.AppliedOffset(), At: time.Now(), Topic: topic})
	if err != nil {
		m.report("a replica could not be put away", err)
		return
	}
	m.logger.Info("a replica is no longer ours and was put away", "topic", topic.Name, "topic_id", id.Topic, "partition", id.Partition, "to", to, "metadata_offset", img.AppliedOffset())
}

// watchConfirmation lets no stray be purged while the metadata is not confirmed (I22). With the confirmation the age of
// all strays begins to count: what a restore took away nobody may have missed until then.
func (m *Manager) watchConfirmation(past, img *fsm.Image) {
	if !img.Confirmed() || past != nil && !past.Confirmed() {
		m.standsStill = true
	}
	if !m.standsStill || !img.Confirmed() {
		return
	}
	m.standsStill = false
	m.complain("the age of strays does not count anew", m.strays.Recount(time.Now()))
}

// purgeStrays removes strays that are old, or that there is no space for.
func (m *Manager) purgeStrays(now time.Time) error {
	if img := m.image.Load(); img == nil || !img.Confirmed() || !m.cfg.Trusted() {
		return nil
	}
	return m.strays.Purge(stray.Policy{Now: now, Age: m.cfg.StrayAge, FreeBytesMin: m.cfg.StrayFreeBytesMin})
}
