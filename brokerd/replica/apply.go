package replica

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
)

// Apply turns news of the metadata into roles, in KRaft's order: replicas that are no longer ours, those we lead,
// those we follow. It is called on one goroutine, and only with metadata that the quorum has confirmed since this
// process started (I22): the first call's delta is the whole image, compared with an empty one.
func (m *Manager) Apply(d *fsm.Delta, img *fsm.Image) {
	m.image.Store(img)
	local := d.Local(m.cfg.NodeID)
	for _, c := range local.Deleted {
		m.putAway(fsm.PartitionID{Topic: c.Topic, Partition: c.Partition}, img)
	}
	if m.checkpointed != nil {
		m.openAll(local.Led, local.Followed)
	}
	for _, c := range local.Led {
		m.lead(c, img)
	}
	for _, c := range local.Followed {
		m.follow(c, img)
	}
	if m.checkpointed != nil {
		m.putAwayUnknown(img)
		m.checkpointed = nil
	}
	m.fetchers.changed()
	m.reconsider(d, img)
}

// registration of a partition of ours in the image.
func (m *Manager) registration(c fsm.LocalPartition, img *fsm.Image) registration {
	return registration{Partition: *c.New, settings: topicconfig.Of(img, m.cfg.Static, c.Name), self: m.cfg.NodeID}
}

func (m *Manager) lead(c fsm.LocalPartition, img *fsm.Image) {
	p, err := m.hold(c)
	if err != nil {
		m.report("a partition that we lead cannot be opened", err)
		return
	}
	if c.NewLeaderEpoch {
		m.fetchers.release(p.id)
	}
	if err := p.becomeLeader(m.registration(c, img)); err != nil {
		m.report("a leadership was refused", err)
		return
	}
	if c.NewLeaderEpoch {
		m.logger.Info("leading", "partition", p.name(), "leader_epoch", c.New.LeaderEpoch, "isr", c.New.ISR, "metadata_offset", img.AppliedOffset())
	}
}

func (m *Manager) follow(c fsm.LocalPartition, img *fsm.Image) {
	p, err := m.hold(c)
	if err != nil {
		m.report("a partition that we follow cannot be opened", err)
		return
	}
	newEpoch, err := p.becomeFollower(m.registration(c, img))
	if err != nil {
		m.fetchers.release(p.id)
		m.report("a role was refused", err)
		return
	}
	if !newEpoch {
		return
	}
	m.fetchers.release(p.id)
	if c.New.Leader != noLeader {
		m.fetchers.assign(p, c.New.Leader, c.New.LeaderEpoch)
	}
	m.logger.Info("following", "partition", p.name(), "leader", c.New.Leader, "leader_epoch", c.New.LeaderEpoch, "metadata_offset", img.AppliedOffset())
}

// reconsider judges all that we lead anew when brokers changed, and reads configs that changed.
func (m *Manager) reconsider(d *fsm.Delta, img *fsm.Image) {
	changed := configured(d)
	if changed == nil && len(d.Brokers) == 0 {
		return
	}
	for _, p := range m.held() {
		if changed != nil && changed(p.topic) {
			p.configure(topicconfig.Of(img, m.cfg.Static, p.topic))
		} else if len(d.Brokers) > 0 {
			p.reconsider()
		}
	}
}

// configured tells which topics have to read their configs again; nil means none.
func configured(d *fsm.Delta) func(topic string) bool {
	if len(d.Configs) == 0 {
		return nil
	}
	return func(topic string) bool {
		return slices.Contains(d.Configs, fsm.TopicResource(topic)) || slices.Contains(d.Configs, fsm.BrokerResource(""))
	}
}

// openersMax is how many logs are opened at the same time after a start.
const openersMax = 8

// openAll opens the logs of new partitions side by side: after a kill each of them is read to its end.
func (m *Manager) openAll(lists ...[]fsm.LocalPartition) {
	var opening sync.WaitGroup
	turns := make(chan struct{}, openersMax)
	for _, c := range slices.Concat(lists...) {
		turns <- struct{}{}
		opening.Go(func() {
			defer func() { <-turns }()
			_, _ = m.hold(c) // whoever takes the role asks again, and reports
		})
	}
	opening.Wait()
}

// hold returns the partition, opening its log if it is not held yet. A log that was put away is taken back.
func (m *Manager) hold(c fsm.LocalPartition) (*Partition, error) {
	id := fsm.PartitionID{Topic: c.Topic, Partition: c.Partition}
	m.mu.RLock()
	p, ok := m.partitions[id]
	m.mu.RUnlock()
	if ok {
		return p, nil
	}
	p, err := m.openPartition(id, c.Name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("open %s-%d: %w", c.Name, c.Partition, unopenable(err))
		m.unopened[id] = err
		return nil, err
	}
	delete(m.unopened, id)
	m.partitions[id] = p
	return p, nil
}

// unopenable tells a disk that fails, which ends the broker, from a directory that is not what it should be: that one
// partition is not served, and the others are.
func unopenable(err error) error {
	if errors.Is(err, partlog.ErrIdentity) || errors.Is(err, partlog.ErrUnsupportedVersion) {
		return fmt.Errorf("%w: %w", ErrNotLeaderOrFollower, err)
	}
	return fmt.Errorf("%w: %w", ErrStorage, err)
}

func (m *Manager) openPartition(id fsm.PartitionID, topic string) (*Partition, error) {
	dir := m.partitionDir(id)
	if err := m.takeBack(id, dir); err != nil {
		return nil, err
	}
	opts := m.cfg.Log
	opts.TopicID, opts.Partition = id.Topic, id.Partition
	s := topicconfig.Of(m.image.Load(), m.cfg.Static, topic)
	opts.SegmentBytes = int64(s.SegmentBytes)
	log, err := partlog.Open(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open log in %s: %w", dir, err)
	}
	p := newPartition(id, topic, log, m.checkpointed[id])
	p.world = m.world
	if r := log.Recovered(); r.CutAt >= 0 {
		m.logger.Warn("a log was cut at its opening", "partition", p.name(), "what", r.String())
	}
	return p, nil
}

// putAway closes a replica that the metadata no longer gives us and renames its directory into stray/.
func (m *Manager) putAway(id fsm.PartitionID, img *fsm.Image) {
	m.fetchers.release(id)
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
	m.stray(id, img)
}

// putAwayUnknown looks, once after the start, for replicas on disk that the metadata does not give us.
func (m *Manager) putAwayUnknown(img *fsm.Image) {
	ids, err := partitionsOnDisk(filepath.Join(m.cfg.Dir, partitionsDir))
	if err != nil {
		m.report("the data directory cannot be listed", err)
		return
	}
	for _, id := range ids {
		if _, err := m.partition(id); errors.Is(err, ErrUnknownPartition) {
			m.stray(id, img)
		}
	}
}

// stray moves a closed replica into stray/, unless the metadata is in doubt: then it stays where it is until the
// next start looks again.
func (m *Manager) stray(id fsm.PartitionID, img *fsm.Image) {
	if !m.cfg.Trusted() {
		m.logger.Warn("a replica is no longer ours, but the metadata failed its checks: it stays (I22)", "topic_id", id.Topic, "partition", id.Partition)
		return
	}
	to, err := m.moveToStray(id, img)
	if err != nil {
		m.report("a replica could not be put away", err)
		return
	}
	m.logger.Info("a replica is no longer ours and was put away", "topic_id", id.Topic, "partition", id.Partition, "to", to, "metadata_offset", img.AppliedOffset())
}
