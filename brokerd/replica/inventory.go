package replica

import (
	"errors"
	"io/fs"
	"slices"
	"sync"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/stray"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// awaiting are the partitions of this broker whose leader waits for inventories.
type awaiting struct {
	mu sync.Mutex
	// mu guards the following.
	set map[fsm.PartitionID]struct{}
	// came counts partitions that began to wait.
	came uint64
	// late are logs as they were when this broker learned that their partition got a leader without its report. It then
	// cuts them to the leader's, and what it had is still wanted: it says what the election cost.
	late map[fsm.PartitionID]*controllerv1.ReplicaInventory
}

func (a *awaiting) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set = nil
}

// note takes in what changed.
func (a *awaiting) note(local fsm.LocalChanges) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range local.Deleted {
		delete(a.set, fsm.PartitionID{Topic: c.Topic, Partition: c.Partition})
	}
	for _, list := range [][]fsm.LocalPartition{local.Led, local.Followed} {
		for _, c := range list {
			a.noteOne(fsm.PartitionID{Topic: c.Topic, Partition: c.Partition}, c.New.AwaitingInventory)
		}
	}
}

func (a *awaiting) noteOne(id fsm.PartitionID, waits bool) {
	_, waited := a.set[id]
	switch {
	case waits && !waited:
		if a.set == nil {
			a.set = map[fsm.PartitionID]struct{}{}
		}
		a.set[id] = struct{}{}
		a.came++
	case !waits:
		delete(a.set, id)
	}
}

// keep remembers a log as it is, unless it is remembered already.
func (a *awaiting) keep(p *Partition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.late[p.id]; ok {
		return
	}
	if a.late == nil {
		a.late = map[fsm.PartitionID]*controllerv1.ReplicaInventory{}
	}
	a.late[p.id] = p.inventory()
}

// kept returns what was remembered of a log, nil if nothing was. What is not wanted any longer is forgotten.
func (a *awaiting) kept(id fsm.PartitionID, wanted bool) *controllerv1.ReplicaInventory {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !wanted {
		delete(a.late, id)
	}
	return a.late[id]
}

func (a *awaiting) get() (waiting int, came uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.set), a.came
}

// InventoryState tells what a report of the inventory would be about.
type InventoryState struct {
	// Image is the metadata that every role of this broker stands by, nil before the first. A report speaks for it.
	Image *fsm.Image
	// Generation grows when partitions newly await inventories and when the strays change.
	Generation uint64
	// Awaiting is how many partitions of this broker await inventories.
	Awaiting int
	// Strays tells whether there are any.
	Strays bool
}

// InventoryState may be called from any goroutine and does not wait.
func (m *Manager) InventoryState() InventoryState {
	img := m.applied.Load() // first: what is asked after it is at least as new
	waiting, came := m.awaiting.get()
	return InventoryState{Image: img, Generation: came + m.strays.Changes(), Awaiting: waiting, Strays: m.strays.Any()}
}

// tellInventory tells whoever reports the inventory that there may be news: the broker's own registration, partitions
// that wait, strays.
func (m *Manager) tellInventory(d *fsm.Delta) {
	_, came := m.awaiting.get()
	generation := came + m.strays.Changes()
	mine := func(b fsm.BrokerDelta) bool { return b.ID == m.cfg.NodeID }
	if generation != m.told || slices.ContainsFunc(d.Brokers, mine) {
		m.told = generation
		m.cfg.InventoryChanged()
	}
}

// Inventory lists the logs that this broker holds and the controller may ask for, and every stray. While partitions await
// inventories it lists all logs; else those without a leader and those that also names: their partitions got a leader
// without this broker's report, and they are told as they were then. The log of a partition that
// awaits inventories stands still: the role that let it grow ended before the partition began to wait.
func (m *Manager) Inventory(also func(fsm.PartitionID) bool) ([]*controllerv1.ReplicaInventory, error) {
	waiting, _ := m.awaiting.get()
	held := m.held()
	list := []*controllerv1.ReplicaInventory{}
	for _, p := range held {
		late := also(p.id)
		if r := m.awaiting.kept(p.id, late); r != nil {
			list = append(list, r)
		} else if waiting > 0 || late || p.leaderless() {
			list = append(list, p.inventory())
		}
	}
	strays, err := m.strays.List()
	if err != nil {
		return nil, err
	}
	for _, st := range strays {
		if r := m.strayInventory(st); r != nil {
			list = append(list, r)
		}
	}
	return list, nil
}

// keepLate remembers the log of a partition that is about to be followed, if its leader was elected without our report.
func (m *Manager) keepLate(p *Partition, img *fsm.Image) {
	e, ok := img.RecoveryElection(p.id)
	if ok && LateIn(e, m.cfg.NodeID) {
		m.awaiting.keep(p)
	}
}

// LateIn tells whether an election was made without a broker's report, and still is.
func LateIn(e *fsm.RecoveryElection, broker int32) bool {
	reported := slices.ContainsFunc(e.Late, func(l fsm.LateInventory) bool { return l.Broker == broker })
	return slices.Contains(e.Missing, broker) && !reported
}

// leaderless tells whether the partition has no leader as far as this broker knows.
func (p *Partition) leaderless() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leaderID == noLeader
}

func (p *Partition) inventory() *controllerv1.ReplicaInventory {
	return &controllerv1.ReplicaInventory{
		TopicId: p.id.Topic.Bytes(), PartitionId: p.id.Partition, LastLeaderEpoch: p.log.LastRecordEpoch(),
		LogStartOffset: p.log.StartOffset(), LogEndOffset: p.log.EndOffset(), Clean: !p.log.Recovered().Unclean,
	}
}

// strayInventory describes a stray; nil if it is gone meanwhile. Of a log that says nothing of itself only the topic is
// told.
func (m *Manager) strayInventory(st stray.Stray) *controllerv1.ReplicaInventory {
	s, err := m.strays.Inspect(st.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		m.logger.Warn("the log of a stray cannot be read", "stray", st.Name, "error", err)
		s = partlog.Summary{LastEpoch: partlog.NoEpoch}
	}
	about := &controllerv1.StrayReplica{
		TopicName: st.Topic.Name, NumPartitions: st.Topic.Partitions, ReplicationFactor: st.Topic.ReplicationFactor,
		SinceMs: st.Since.UnixMilli(), SizeBytes: s.SizeBytes,
	}
	for _, c := range st.Topic.Configs {
		about.Configs = append(about.Configs, &controllerv1.StrayConfig{Key: c.Key, Value: c.Value})
	}
	return &controllerv1.ReplicaInventory{
		TopicId: st.ID.Topic.Bytes(), PartitionId: st.ID.Partition, LastLeaderEpoch: s.LastEpoch,
		LogStartOffset: s.StartOffset, LogEndOffset: s.EndOffset, Clean: s.Clean, Stray: about,
	}
}
