package replica

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
)

// Apply turns news of the metadata into roles, in KRaft's order: replicas that are no longer ours, those we lead,
// those we follow. It is called on one goroutine, and only with metadata that the quorum has confirmed since this
// process started (I22). The first delta of each lineage is the whole image, compared with an empty one.
func (m *Manager) Apply(d *fsm.Delta, img *fsm.Image) {
	past := m.image.Swap(img)
	local := d.Local(m.cfg.NodeID)
	begins := past == nil || past.Lineage().ID != img.Lineage().ID
	if begins {
		past = m.begin(past, img)
		m.openAll(local.Led, local.Followed)
	}
	m.awaiting.note(local)
	for _, c := range local.Deleted {
		m.putAway(fsm.PartitionID{Topic: c.Topic, Partition: c.Partition}, past, img)
	}
	for _, c := range local.Led {
		m.lead(c, img)
	}
	for _, c := range local.Followed {
		m.follow(c, img)
	}
	if begins {
		m.putAwayUngiven(past, img)
		m.checkpointed = nil
	}
	m.fetchers.changed()
	m.reconsider(d, img)
	m.watchConfirmation(past, img)
	m.applied.Store(img)
	m.tellInventory(d)
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
	m.keepLate(p, img)
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
	changed := configured(d, m.cfg.NodeID)
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
func configured(d *fsm.Delta, self int32) func(topic string) bool {
	if len(d.Configs) == 0 {
		return nil
	}
	all := slices.Contains(d.Configs, fsm.BrokerResource("")) || slices.Contains(d.Configs, fsm.BrokerResource(strconv.Itoa(int(self))))
	return func(topic string) bool { return all || slices.Contains(d.Configs, fsm.TopicResource(topic)) }
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
	dir := m.strays.PartitionDir(id)
	if _, err := m.strays.TakeBack(id); err != nil {
		return nil, err
	}
	opts := m.logOptions(id)
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

func (m *Manager) logOptions(id fsm.PartitionID) partlog.Options {
	opts := m.cfg.Log
	opts.TopicID, opts.Partition = id.Topic, id.Partition
	return opts
}
