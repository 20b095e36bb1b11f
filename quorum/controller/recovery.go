package controller

import (
	"cmp"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// ballot is what is known of the replicas of a partition that awaits inventories.
type ballot struct {
	id fsm.PartitionID
	p  fsm.Partition
	// reports of the replicas that have reported, in replica order.
	reports []reportedReplica
	// missing have not reported, in replica order. A replica that has the partition as a stray counts as missing: it
	// reports again when it has taken it back.
	missing []int32
	// winner has the greatest log of the brokers that are up, nil when none of them has reported. Of equal logs the first
	// in replica order wins: by the rules of replication their records are the same.
	winner *reportedReplica
	// epoch is the greatest leader epoch that anybody knows of.
	epoch int32
}

// reportedReplica is what one replica reported.
type reportedReplica struct {
	broker  int32
	present bool
	active  bool
	held    heldReplica
}

// newBallot collects what is known.
func (e *Env) newBallot(img *fsm.Image, id fsm.PartitionID, p fsm.Partition) *ballot {
	b := &ballot{id: id, p: p, epoch: p.LeaderEpoch}
	up := active(img)
	for _, broker := range p.Replicas {
		r := e.Inventories.of(img, broker)
		if r == nil {
			b.missing = append(b.missing, broker)
			continue
		}
		h, present := r.replica(id)
		if h.stray != nil {
			b.missing = append(b.missing, broker)
			continue
		}
		b.reports = append(b.reports, reportedReplica{broker: broker, present: present, active: up(broker), held: h})
		b.epoch = max(b.epoch, h.lastLeaderEpoch)
	}
	for i := range b.reports {
		if r := &b.reports[i]; r.active && (b.winner == nil || r.held.compare(&b.winner.held) > 0) {
			b.winner = r
		}
	}
	return b
}

// compare orders logs as an election does: by the last leader epoch, then by the length.
func (h *heldReplica) compare(o *heldReplica) int {
	return cmp.Or(cmp.Compare(h.lastLeaderEpoch, o.lastLeaderEpoch), cmp.Compare(h.end, o.end))
}

// complete tells that nobody can have more than the winner: every replica has reported, and none that is down has more.
func (b *ballot) complete() bool {
	return b.electable() && len(b.missing) == 0 && len(b.ahead()) == 0
}

// electable tells that somebody can be elected at all.
func (b *ballot) electable() bool { return b.winner != nil && b.epoch < math.MaxInt32 }

// ahead are the replicas that have reported more than the winner, and are down.
func (b *ballot) ahead() []reportedReplica {
	var list []reportedReplica
	for _, r := range b.reports {
		if b.winner != nil && r.held.compare(&b.winner.held) > 0 {
			list = append(list, r)
		}
	}
	return list
}

// elect makes the records of the election. One that not all replicas stand behind is a recovery election: the leader
// recovers, and what may be lost is recorded.
func (b *ballot) elect() []*metadatav1.Record {
	rec := &metadatav1.PartitionChange{
		TopicId: b.id.Topic.Bytes(), PartitionId: b.id.Partition,
		Isr: &metadatav1.BrokerIDs{Ids: []int32{b.winner.broker}}, Leader: proto.Int32(b.winner.broker),
		LeaderEpoch: proto.Int32(b.epoch + 1), AwaitingInventory: proto.Bool(false),
	}
	e := b.recovery()
	if e == nil {
		return []*metadatav1.Record{changeRecord(rec)}
	}
	rec.Recovering = proto.Bool(true)
	return []*metadatav1.Record{changeRecord(rec), recoveryRecord(b.id, e)}
}

// recovery is what is recorded of an election that not all replicas stand behind, nil for one that they do.
func (b *ballot) recovery() *fsm.RecoveryElection {
	if b.complete() {
		return nil
	}
	e := &fsm.RecoveryElection{
		Leader: b.winner.broker, LeaderEpoch: b.epoch + 1,
		LastLeaderEpoch: b.winner.held.lastLeaderEpoch, LogEndOffset: b.winner.held.end,
		Missing: slices.Clone(b.missing),
	}
	for _, r := range b.ahead() {
		e.Missing = append(e.Missing, r.broker)
		e.Late = append(e.Late, r.held.late(r.broker))
	}
	slices.SortFunc(e.Late, func(a, b fsm.LateInventory) int { return cmp.Compare(a.Broker, b.Broker) })
	return e
}

// ElectFromInventories elects leaders of the partitions of which every replica has reported its log: the one with the
// greatest (last leader epoch, log end). Nothing can be lost by that which a replica still has. The reply tells whether
// another run has more to do.
func ElectFromInventories(img *fsm.Image, env *Env) Decision[bool] {
	var records []*metadatav1.Record
	more := false
	for id := range img.Awaiting() {
		p, _ := img.Partition(id)
		if !env.allReported(img, p.Replicas) {
			continue
		}
		b := env.newBallot(img, id, p)
		if !b.complete() {
			continue
		}
		if more = len(records) >= env.Limits.MaxRecoveriesPerRun; more {
			break
		}
		records = append(records, b.elect()...)
	}
	why := reason("inventories_complete", "all replicas of %d partitions have reported their logs", len(records))
	return Decision[bool]{Batches: env.batches(img, why, records), Reply: more}
}

// allReported is a quick look before a ballot is made.
func (e *Env) allReported(img *fsm.Image, replicas []int32) bool {
	for _, broker := range replicas {
		if e.Inventories.of(img, broker) == nil {
			return false
		}
	}
	return true
}

// ElectAwaiting elects leaders with the reports there are (the operator's go), after recovery.election.wait or at once.
// Each partition is judged alone; with none named all that await inventories are meant. At most so many leaders are
// elected as fit one batch, in which each election stands with the record of what it may cost.
func ElectAwaiting(img *fsm.Image, env *Env, req *controllerv1.ElectAwaitingRequest) Decision[*controllerv1.ElectAwaitingResponse] {
	if left := env.recoveryWaitLeft(); left > 0 && !req.GetNow() && img.NumAwaiting() > 0 {
		return refuse[*controllerv1.ElectAwaitingResponse](controllerv1.ErrorCode_ERROR_CODE_POLICY_VIOLATION,
			"brokers may report their logs for %d ms more; wait, or elect now and give up what they have beyond the others", left.Milliseconds())
	}
	r := &goAhead{img: img, env: env, reply: &controllerv1.ElectAwaitingResponse{}, size: proto.Size(env.emptyBatch(img, goReason()))}
	if len(req.GetPartitions()) == 0 {
		for id := range img.Awaiting() {
			if r.reply.GetRemaining() > 0 { // the batch is full
				r.reply.Remaining++
				continue
			}
			r.judge(id)
		}
	}
	for _, tp := range req.GetPartitions() {
		r.judgeNamed(tp)
	}
	if req.GetValidateOnly() {
		return Decision[*controllerv1.ElectAwaitingResponse]{Reply: r.reply}
	}
	batches, refused := env.oneBatch(img, goReason(), r.records)
	if refused != nil {
		return Decision[*controllerv1.ElectAwaitingResponse]{Refused: refused}
	}
	return Decision[*controllerv1.ElectAwaitingResponse]{Batches: batches, Reply: r.reply}
}

func goReason() *metadatav1.Reason {
	return reason("recovery_election_requested", "leaders were asked for with the inventories there are")
}

// goAhead is one ElectAwaiting request on its way to a decision.
type goAhead struct {
	img     *fsm.Image
	env     *Env
	reply   *controllerv1.ElectAwaitingResponse
	records []*metadatav1.Record
	size    int
	// judged are the partitions that were named already.
	judged map[fsm.PartitionID]bool
}

func (g *goAhead) judgeNamed(tp *controllerv1.TopicPartition) {
	topic, ok := g.img.TopicByName(tp.GetTopic())
	if !ok {
		g.refuse(tp, controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "there is no topic %.60q", tp.GetTopic())
		return
	}
	id := fsm.PartitionID{Topic: topic.ID(), Partition: tp.GetPartitionId()}
	p, ok := topic.Partition(tp.GetPartitionId())
	switch {
	case !ok:
		g.refuse(tp, controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, "topic %s has no partition %d", topic.Name(), tp.GetPartitionId())
	case !p.AwaitingInventory:
		g.refuse(tp, controllerv1.ErrorCode_ERROR_CODE_ELECTION_NOT_NEEDED, "the partition awaits no inventory")
	case g.judged[id]:
		g.refuse(tp, controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "the partition is named twice")
	default:
		if g.judged == nil {
			g.judged = map[fsm.PartitionID]bool{}
		}
		g.judged[id] = true
		g.judge(id)
	}
}

// judge elects a leader of a partition that awaits inventories, if anybody can lead.
func (g *goAhead) judge(id fsm.PartitionID) {
	topic, _ := g.img.Topic(id.Topic)
	p, _ := topic.Partition(id.Partition)
	b := g.env.newBallot(g.img, id, p)
	if !b.electable() {
		g.refuse(&controllerv1.TopicPartition{Topic: topic.Name(), PartitionId: id.Partition}, controllerv1.ErrorCode_ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE,
			"none of the replicas %v is up and has reported its log", p.Replicas)
		return
	}
	records, size := b.elect(), 0
	for _, r := range records {
		size += proto.Size(r) + 6
	}
	if len(g.records)+len(records) > g.env.Limits.MaxRecordsPerBatch || g.size+size > g.env.Limits.MaxBatchBytes {
		g.reply.Remaining++
		return
	}
	g.records, g.size = append(g.records, records...), g.size+size
	g.reply.Elections = append(g.reply.Elections, b.told(topic))
}

func (g *goAhead) refuse(tp *controllerv1.TopicPartition, code controllerv1.ErrorCode, format string, args ...any) {
	if len(g.reply.GetRefused()) == maxListed {
		g.reply.Remaining++
		return
	}
	g.reply.Refused = append(g.reply.Refused, &controllerv1.ElectLeaderResult{
		Topic: tp.GetTopic(), PartitionId: tp.GetPartitionId(), Error: itemError(code, format, args...),
	})
}

// told is the election as the operator sees it.
func (b *ballot) told(topic *fsm.Topic) *controllerv1.RecoveryElection {
	if e := b.recovery(); e != nil {
		return electionTold(topic, b.id, e)
	}
	return &controllerv1.RecoveryElection{
		Topic: topic.Name(), TopicId: b.id.Topic.Bytes(), PartitionId: b.id.Partition,
		Leader: b.winner.broker, LeaderEpoch: b.epoch + 1, LogEndOffset: b.winner.held.end,
	}
}

func electionTold(topic *fsm.Topic, id fsm.PartitionID, e *fsm.RecoveryElection) *controllerv1.RecoveryElection {
	told := &controllerv1.RecoveryElection{
		Topic: topic.Name(), TopicId: id.Topic.Bytes(), PartitionId: id.Partition,
		Leader: e.Leader, LeaderEpoch: e.LeaderEpoch, LogEndOffset: e.LogEndOffset, Missing: slices.Clone(e.Missing),
	}
	for _, l := range e.Late {
		told.Late = append(told.Late, &controllerv1.ReplicaReport{
			BrokerId: l.Broker, Present: l.LogEndOffset > 0 || l.LastLeaderEpoch >= 0, LastLeaderEpoch: l.LastLeaderEpoch,
			LogStartOffset: l.LogStartOffset, LogEndOffset: l.LogEndOffset,
		})
	}
	return told
}
