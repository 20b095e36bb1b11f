package controller

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// recoveryModel says who must be elected after a restore, as a beginner would: everything is looked up by full scans.
type recoveryModel struct {
	*world
	// logs of each broker by partition, as the broker's disk has them.
	logs map[int32]map[fsm.PartitionID]modelLog
	// told is what each broker reported in which broker epoch, since the claim.
	told map[int32]modelReport
	// late is the first report of a broker after an election that it was missing in.
	late map[fsm.PartitionID]map[int32]modelLog
	// elected and lossy count elections, and those without all reports.
	elected, lossy int
}

type modelLog struct {
	epoch int32
	end   int64
}

func (l modelLog) less(m modelLog) bool {
	return l.epoch < m.epoch || l.epoch == m.epoch && l.end < m.end
}

type modelReport struct {
	epoch int64
	logs  map[fsm.PartitionID]modelLog
}

var emptyLog = modelLog{epoch: -1}

// log is what a broker reported of a partition, false when its present incarnation has not reported.
func (m *recoveryModel) log(broker int32, id fsm.PartitionID) (modelLog, bool) {
	r, ok := m.told[broker]
	b, known := m.img.Broker(broker)
	if !ok || !known || b.Epoch != r.epoch {
		return emptyLog, false
	}
	if l, held := r.logs[id]; held {
		return l, true
	}
	return emptyLog, true
}

// verdict is who wins a partition, -1 for nobody, and who would stand against it: the missing, and those that are down
// with more.
func (m *recoveryModel) verdict(id fsm.PartitionID, p fsm.Partition) (winner int32, against []int32) {
	winner = -1
	var best modelLog
	for _, r := range p.Replicas {
		b, known := m.img.Broker(r)
		l, reported := m.log(r, id)
		if reported && known && b.Active() && (winner == -1 || best.less(l)) {
			winner, best = r, l
		}
	}
	for _, r := range p.Replicas {
		if _, reported := m.log(r, id); !reported {
			against = append(against, r)
		}
	}
	for _, r := range p.Replicas {
		if l, reported := m.log(r, id); reported && winner >= 0 && best.less(l) {
			against = append(against, r)
		}
	}
	return winner, against
}

func (m *recoveryModel) awaiting() map[fsm.PartitionID]fsm.Partition {
	list := map[fsm.PartitionID]fsm.Partition{}
	for topic := range m.img.Topics() {
		for i, p := range topic.Partitions() {
			if p.AwaitingInventory {
				list[fsm.PartitionID{Topic: topic.ID(), Partition: i}] = p
			}
		}
	}
	return list
}

// elect runs an election and judges every partition that awaited inventories before it.
func (m *recoveryModel) elect(forced bool) {
	before := m.awaiting()
	type want struct {
		winner  int32
		against []int32
	}
	wants := map[fsm.PartitionID]want{}
	for id, p := range before {
		w, against := m.verdict(id, p)
		wants[id] = want{w, against}
	}
	old := m.img
	if forced {
		d := ElectAwaiting(m.img, m.env, &controllerv1.ElectAwaitingRequest{Now: true})
		if d.Refused != nil {
			m.t.Fatalf("%v", d.Refused)
		}
		m.take(d.Batches, nil)
	} else {
		d := ElectFromInventories(m.img, m.env)
		m.take(d.Batches, d.Keep)
	}
	for topic := range m.img.Topics() {
		for i, p := range topic.Partitions() {
			id := fsm.PartitionID{Topic: topic.ID(), Partition: i}
			was, _ := old.Partition(id)
			w, awaited := wants[id]
			if !awaited || w.winner < 0 || (!forced && len(w.against) > 0) {
				if fmt.Sprint(was) != fmt.Sprint(p) {
					m.t.Fatalf("%v changed without reason: %v -> %v", id, was, p)
				}
				continue
			}
			m.judge(id, was, p, w.winner, w.against)
		}
	}
}

// judge verifies one election.
func (m *recoveryModel) judge(id fsm.PartitionID, was, p fsm.Partition, winner int32, against []int32) {
	m.elected++
	if p.Leader != winner || !slices.Equal(p.ISR, []int32{winner}) || p.AwaitingInventory || p.Recovering != (len(against) > 0) {
		m.t.Fatalf("%v: want leader %d against %v, got %v", id, winner, against, p)
	}
	for _, r := range p.Replicas {
		if l, _ := m.log(r, id); p.LeaderEpoch <= l.epoch || p.LeaderEpoch <= was.LeaderEpoch {
			m.t.Fatalf("I9: %v has leader epoch %d after %d, and broker %d reported %d", id, p.LeaderEpoch, was.LeaderEpoch, r, l.epoch)
		}
	}
	e, recorded := m.img.RecoveryElection(id)
	if recorded != (len(against) > 0) {
		m.t.Fatalf("%v: election against %v, recorded %v", id, against, e)
	}
	delete(m.late, id)
	if !recorded {
		return
	}
	m.lossy++
	l, _ := m.log(winner, id)
	if e.Leader != winner || e.LeaderEpoch != p.LeaderEpoch || e.LogEndOffset != l.end || e.LastLeaderEpoch != l.epoch || !slices.Equal(e.Missing, against) {
		m.t.Fatalf("%v: election %v, want leader %d with %v against %v", id, e, winner, l, against)
	}
	m.late[id] = map[int32]modelLog{}
	for _, r := range against {
		if l, reported := m.log(r, id); reported {
			m.late[id][r] = l
		}
	}
}

// report sends what a broker's disk has.
func (m *recoveryModel) report(broker int32) {
	b, ok := m.img.Broker(broker)
	if !ok {
		return
	}
	r := NewInventoryReport(broker, b.Epoch, m.img.NextOffset())
	for id, l := range m.logs[broker] {
		part := &controllerv1.ReplicaInventory{TopicId: id.Topic.Bytes(), PartitionId: id.Partition, LastLeaderEpoch: l.epoch, LogEndOffset: l.end}
		if err := r.Add([]*controllerv1.ReplicaInventory{part}); err != nil {
			m.t.Fatalf("%v", err)
		}
	}
	r.Seal()
	d := ReportInventory(m.img, m.env, r)
	if void := b.Epoch == fsm.VoidEpoch; void != (d.Refused != nil) {
		m.t.Fatalf("broker %d in epoch %d: %v", broker, b.Epoch, d.Refused)
	} else if void {
		return
	}
	m.take(d.Batches, d.Keep)
	m.told[broker] = modelReport{epoch: b.Epoch, logs: maps.Clone(m.logs[broker])}
	for id, late := range m.late {
		e, _ := m.img.RecoveryElection(id)
		if _, told := late[broker]; slices.Contains(e.Missing, broker) && !told {
			l, held := m.logs[broker][id]
			if !held {
				l = emptyLog
			}
			late[broker] = l
		}
	}
	m.checkLate()
}

// checkLate compares what is recorded of late brokers.
func (m *recoveryModel) checkLate() {
	for id, late := range m.late {
		e, ok := m.img.RecoveryElection(id)
		if !ok || len(e.Late) != len(late) {
			m.t.Fatalf("%v: %v, want late %v", id, e, late)
		}
		for _, l := range e.Late {
			if late[l.Broker] != (modelLog{l.LastLeaderEpoch, l.LogEndOffset}) {
				m.t.Fatalf("%v: broker %d is recorded with %v, want %v", id, l.Broker, l, late[l.Broker])
			}
		}
	}
}

func (m *recoveryModel) take(batches []*metadatav1.Batch, keep func(*Inventories)) {
	for _, b := range batches {
		m.fold(b)
	}
	if keep != nil {
		keep(m.env.Inventories)
	}
}

// register has a broker start: the same process again, or a new one.
func (m *recoveryModel) register(broker int32, same bool) {
	req := m.registration(broker)
	if was, ok := m.img.Broker(broker); ok && same {
		m.incarnations[broker]--
		req.IncarnationId = was.IncarnationID.Bytes()
	}
	tell(m.world, RegisterBroker(m.img, m.env, req), nil)
}

func (m *recoveryModel) beat(broker int32, wish func(*controllerv1.SessionRequest)) {
	b, ok := m.img.Broker(broker)
	if !ok {
		return
	}
	req := &controllerv1.SessionRequest{BrokerId: broker, BrokerEpoch: b.Epoch, MetadataOffset: m.img.AppliedOffset()}
	wish(req)
	m.heartbeat(req)
}

// reborn restores the cluster. Most brokers are there at once.
func (m *recoveryModel) reborn(pick func(int) int) {
	m.rebirths++
	img, err := fsm.Rebirth(m.img, fsm.Birth{ClusterID: m.img.ClusterID(), UUID: fsm.UUID{0xaa, 3, 15: m.rebirths}})
	if err != nil {
		m.t.Fatalf("%v", err)
	}
	m.img, m.late = img, map[fsm.PartitionID]map[int32]modelLog{}
	m.claimed()
	for b := range m.img.Brokers() {
		if pick(4) > 0 {
			m.register(b.ID, true)
			m.beat(b.ID, func(*controllerv1.SessionRequest) {})
			m.write(pick, b.ID)
		}
	}
}

// claimed is another controller: it knows the image and nothing else.
func (m *recoveryModel) claimed() {
	m.liveness.Reset(m.img, m.env.Now)
	m.env.Inventories.Reset(m.env.Now)
	m.told = map[int32]modelReport{}
}

// TestElectionsFromInventoriesLikeTheModel drives restores at random beside a model.
func TestElectionsFromInventoriesLikeTheModel(t *testing.T) {
	elected, lossy := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := &recoveryModel{
			world: newWorld(t), logs: map[int32]map[fsm.PartitionID]modelLog{}, told: map[int32]modelReport{},
			late: map[fsm.PartitionID]map[int32]modelLog{},
		}
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }
		const brokers = 3
		for b := int32(1); b <= brokers; b++ {
			m.register(b, false)
			m.beat(b, func(*controllerv1.SessionRequest) {})
		}
		create := &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{{Name: "t", NumPartitions: 3, ReplicationFactor: int32(1 + pick(brokers))}}}
		tell(m.world, CreateTopics(m.img, m.env, create), nil)
		m.reborn(pick)
		for range rapid.IntRange(10, 80).Draw(t, "steps") {
			m.step(pick, int32(1+pick(brokers)))
		}
		elected, lossy = elected+m.elected, lossy+m.lossy
	})
	t.Logf("%d elections, %d of them without all reports", elected, lossy)
	if lossy == 0 || lossy == elected {
		t.Fatal("the walks do not meet both kinds of elections")
	}
}

func (m *recoveryModel) step(pick func(int) int, broker int32) {
	switch pick(12) {
	case 0, 1:
		m.register(broker, pick(2) == 0)
	case 2, 3:
		m.beat(broker, func(*controllerv1.SessionRequest) {})
	case 4:
		m.beat(broker, func(r *controllerv1.SessionRequest) { r.WantFence = true })
	case 5:
		m.write(pick, broker)
	case 6, 7, 8:
		m.report(broker)
	case 9:
		m.elect(true)
	case 10:
		if pick(3) == 0 {
			m.reborn(pick)
			return
		}
		m.claimed()
	default:
		m.elect(false)
	}
}

// write changes the disk of a broker.
func (m *recoveryModel) write(pick func(int) int, broker int32) {
	if m.logs[broker] == nil {
		m.logs[broker] = map[fsm.PartitionID]modelLog{}
	}
	for topic := range m.img.Topics() {
		id := fsm.PartitionID{Topic: topic.ID(), Partition: int32(pick(int(topic.NumPartitions())))}
		m.logs[broker][id] = modelLog{epoch: []int32{0, 1, 70_000, 200_000}[pick(4)], end: int64(pick(4))}
		if pick(5) == 0 {
			delete(m.logs[broker], id)
		}
	}
}
