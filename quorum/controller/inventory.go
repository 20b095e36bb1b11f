package controller

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// Bounds of what one broker may report (I20).
const (
	maxReportReplicas = 2_000_000
	maxReportStrays   = 200_000
)

// Inventories is what brokers have reported of their logs. It is soft state of one claim, beside [Liveness]: it has no
// lock, its owner guards it, and losing it is never unsafe, because brokers report again at a new claim. A nil one is
// empty.
type Inventories struct {
	// since is when this controller began to listen.
	since   time.Time
	reports map[int32]*InventoryReport
}

// NewInventories returns an empty state.
func NewInventories() *Inventories { return &Inventories{reports: map[int32]*InventoryReport{}} }

// Reset begins anew, as a controller does that has just opened its claim.
func (v *Inventories) Reset(now time.Time) {
	v.since = now
	clear(v.reports)
}

// Report takes in a whole inventory; it replaces the broker's earlier one, unless that is one of a later incarnation.
func (v *Inventories) Report(r *InventoryReport) {
	if was, ok := v.reports[r.broker]; !ok || was.epoch <= r.epoch {
		v.reports[r.broker] = r
	}
}

// Forget drops what a broker has reported.
func (v *Inventories) Forget(broker int32) { delete(v.reports, broker) }

// Reported tells whether the present incarnation of a broker has reported. What an earlier one had may be gone.
func (v *Inventories) Reported(img *fsm.Image, broker int32) bool { return v.of(img, broker) != nil }

// of returns the report of a broker's present incarnation.
func (v *Inventories) of(img *fsm.Image, broker int32) *InventoryReport {
	if v == nil {
		return nil
	}
	r, ok := v.reports[broker]
	if !ok {
		return nil
	}
	if _, held := holder(img, broker, r.epoch); !held {
		return nil
	}
	return r
}

// InventoryReport is the inventory of one incarnation of a broker. It is written until Seal and not afterwards.
type InventoryReport struct {
	broker int32
	epoch  int64
	// offset is the metadata offset next after what the broker had applied when it looked.
	offset int64
	// replicas by partition, one for each once the report is sealed.
	replicas []heldReplica
	strays   int
}

// heldReplica is one log of a broker.
type heldReplica struct {
	id              fsm.PartitionID
	lastLeaderEpoch int32
	start, end      int64
	// stray is nil for a replica that the broker's metadata gives it.
	stray *controllerv1.StrayReplica
}

// noReplica is the log of a broker that has none.
var noReplica = heldReplica{lastLeaderEpoch: -1}

// NewInventoryReport begins the report of a broker that holds this broker epoch. metadataOffset is next after what it
// had applied when it looked.
func NewInventoryReport(broker int32, brokerEpoch, metadataOffset int64) *InventoryReport {
	return &InventoryReport{broker: broker, epoch: brokerEpoch, offset: metadataOffset}
}

// Add takes in a part of the report. An error says what is wrong with it.
func (r *InventoryReport) Add(part []*controllerv1.ReplicaInventory) error {
	if len(r.replicas)+len(part) > maxReportReplicas {
		return fmt.Errorf("broker %d reports more than %d replicas", r.broker, maxReportReplicas)
	}
	for _, p := range part {
		h, err := heldFrom(p)
		if err != nil {
			return fmt.Errorf("broker %d: %w", r.broker, err)
		}
		if h.stray != nil {
			r.strays++
		}
		r.replicas = append(r.replicas, h)
	}
	if r.strays > maxReportStrays {
		return fmt.Errorf("broker %d reports more than %d strays", r.broker, maxReportStrays)
	}
	return nil
}

func heldFrom(p *controllerv1.ReplicaInventory) (heldReplica, error) {
	topic, err := fsm.UUIDFromBytes(p.GetTopicId())
	if err != nil || topic.IsZero() || p.GetPartitionId() < 0 {
		return heldReplica{}, fmt.Errorf("it names no partition: topic id of %d bytes, partition %d", len(p.GetTopicId()), p.GetPartitionId())
	}
	h := heldReplica{
		id:              fsm.PartitionID{Topic: topic, Partition: p.GetPartitionId()},
		lastLeaderEpoch: p.GetLastLeaderEpoch(), start: p.GetLogStartOffset(), end: p.GetLogEndOffset(), stray: p.GetStray(),
	}
	if h.lastLeaderEpoch < -1 || h.start < 0 || h.end < h.start {
		return heldReplica{}, fmt.Errorf("the log of %s-%d reaches from %d to %d in leader epoch %d", topic, h.id.Partition, h.start, h.end, h.lastLeaderEpoch)
	}
	return h, nil
}

// Seal ends the report. Of several logs of one partition the one that the broker's metadata gives it counts, else the
// youngest stray, which is the one that a role would take back.
func (r *InventoryReport) Seal() {
	slices.SortFunc(r.replicas, func(a, b heldReplica) int {
		return cmp.Or(comparePartitions(a.id, b.id), cmp.Compare(b.youth(), a.youth()))
	})
	r.replicas = slices.CompactFunc(r.replicas, func(a, b heldReplica) bool { return a.id == b.id })
}

// youth orders the logs that one broker has of one partition.
func (h *heldReplica) youth() int64 {
	if h.stray == nil {
		return 1<<63 - 1
	}
	return h.stray.GetSinceMs()
}

func comparePartitions(a, b fsm.PartitionID) int {
	return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
}

// Len is the number of replicas in the report.
func (r *InventoryReport) Len() int { return len(r.replicas) }

// replica returns what the report says of a partition, false when the broker holds no log of it.
func (r *InventoryReport) replica(id fsm.PartitionID) (heldReplica, bool) {
	i, found := slices.BinarySearchFunc(r.replicas, id, func(h heldReplica, id fsm.PartitionID) int { return comparePartitions(h.id, id) })
	if !found {
		return noReplica, false
	}
	return r.replicas[i], true
}

// ReportInventory takes in the inventory of a broker. It must be of the present incarnation, and made after the broker
// had applied its own registration: before that it may still have led partitions by older metadata, and written to them
// after it looked. A report that comes too late for an election is recorded as what the election may have cost.
func ReportInventory(img *fsm.Image, env *Env, r *InventoryReport) Decision[*controllerv1.ReportInventoryResponse] {
	b, ok := holder(img, r.broker, r.epoch)
	if !ok {
		stale := staleBroker(b, r.broker, r.epoch)
		return refuse[*controllerv1.ReportInventoryResponse](stale.GetCode(), "%s", stale.GetMessage())
	}
	if r.offset <= b.Epoch {
		return refuse[*controllerv1.ReportInventoryResponse](controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
			"broker %d looked at its logs before it had applied its registration at metadata offset %d; it must look again", b.ID, b.Epoch)
	}
	late := lateReports(img, r)
	return Decision[*controllerv1.ReportInventoryResponse]{
		Batches: env.batches(img, reason("late_inventory", "broker %d reported after elections that it was missing in", b.ID), late),
		Reply:   &controllerv1.ReportInventoryResponse{Replicas: int32(r.Len())}, //nolint:gosec // maxReportReplicas bounds it
		Keep:    func(v *Inventories) { v.Report(r.kept(img)) },
	}
}

// kept is the report without what nobody will ask for: logs of partitions whose leader is known.
func (r *InventoryReport) kept(img *fsm.Image) *InventoryReport {
	k := *r
	k.replicas = nil
	var topic *fsm.Topic
	for _, h := range r.replicas {
		if topic == nil || topic.ID() != h.id.Topic {
			topic, _ = img.Topic(h.id.Topic)
		}
		if topic != nil {
			if p, ok := topic.Partition(h.id.Partition); ok && p.Leader != noLeader {
				continue
			}
		}
		k.replicas = append(k.replicas, h)
	}
	return &k
}

// lateReports are the records that add a broker's logs to the elections that it was missing in. The first report after
// an election counts: by the next one the broker may have cut its log to the elected one.
func lateReports(img *fsm.Image, r *InventoryReport) []*metadatav1.Record {
	var records []*metadatav1.Record
	for id, e := range img.RecoveryElections() {
		isLate := func(l fsm.LateInventory) bool { return l.Broker == r.broker }
		if !slices.Contains(e.Missing, r.broker) || slices.ContainsFunc(e.Late, isLate) {
			continue
		}
		h, _ := r.replica(id)
		now := *e
		now.Late = append(slices.Clone(e.Late), h.late(r.broker))
		slices.SortFunc(now.Late, func(a, b fsm.LateInventory) int { return cmp.Compare(a.Broker, b.Broker) })
		records = append(records, recoveryRecord(id, &now))
	}
	return records
}

func (h *heldReplica) late(broker int32) fsm.LateInventory {
	return fsm.LateInventory{Broker: broker, LastLeaderEpoch: h.lastLeaderEpoch, LogStartOffset: h.start, LogEndOffset: h.end}
}

func recoveryRecord(id fsm.PartitionID, e *fsm.RecoveryElection) *metadatav1.Record {
	return &metadatav1.Record{Kind: &metadatav1.Record_RecoveryElected{RecoveryElected: e.Record(id)}}
}
