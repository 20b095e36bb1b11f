package replica

import (
	"errors"
	"slices"
	"time"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// Solo drives one Partition by hand, for a caller who brings clock, metadata and network of his own and is the only
// goroutine: the simulator. Its methods are what Manager, the fetchers and the proposer do with a partition, without
// their goroutines. The high watermark's checkpoint and the strays are Manager's and not here.
type Solo struct{ p *Partition }

// SoloWorld is what a partition may know of the world at the moment of a call.
type SoloWorld struct {
	Now    time.Time
	LagMax time.Duration
	// Image is the metadata as this broker has applied it.
	Image *fsm.Image
}

// NewSolo wraps an open log. High is the checkpointed high watermark, a hint. World is asked in every call.
func NewSolo(id fsm.PartitionID, topic string, log *partlog.Log, high int64, world func() SoloWorld) *Solo {
	p := newPartition(id, topic, log, high)
	p.world = func(s topicconfig.Settings) view {
		w := world()
		return view{now: w.Now, lag: w.LagMax, minISR: int(s.MinInSyncReplicas), member: func(id int32) (int64, bool) {
			b, ok := w.Image.Broker(id)
			if !ok {
				return noEpoch, false
			}
			return b.Epoch, b.Active()
		}}
	}
	return &Solo{p: p}
}

// Lead takes the role of the leader, or news of it; see Manager.Apply.
func (s *Solo) Lead(part fsm.Partition, settings topicconfig.Settings, self int32) error {
	return s.p.becomeLeader(registration{Partition: part, settings: settings, self: self})
}

// Follow takes the role of a follower, or news of it, and tells whether fetching starts anew.
func (s *Solo) Follow(part fsm.Partition, settings topicconfig.Settings, self int32) (newEpoch bool, err error) {
	return s.p.becomeFollower(registration{Partition: part, settings: settings, self: self})
}

// Reconsider judges the high watermark anew because brokers changed.
func (s *Solo) Reconsider() { s.p.reconsider() }

// Close ends the role and closes the log.
func (s *Solo) Close() error { return s.p.close() }

// Append is Manager.Append of this partition.
func (s *Solo) Append(records []byte, o AppendOptions) (Appended, error) {
	return s.p.append(records, o)
}

// Replicated tells whether an append is decided, and how; nil when the ISR has it (I13).
func (s *Solo) Replicated(a Appended) (decided bool, err error) { return s.p.replicated(a) }

// Read is one look of Manager.Fetch at this partition. Who and epoch are the follower's, note is set on the first look
// at a request. A wish is returned when the follower may join the ISR.
func (s *Solo) Read(f FetchPartition, who int32, epoch int64, note bool) (FetchResult, *Wish) {
	res, w := s.p.read(f, reader{replicaID: who, replicaEpoch: epoch, note: note}, room{bytes: f.MaxBytes, atLeastOne: true})
	if w == nil {
		return res, nil
	}
	return res, &Wish{*w}
}

// Position tells what to fetch next in a leader epoch.
func (s *Solo) Position(leaderEpoch int32) (FetchPartition, error) { return s.p.position(leaderEpoch) }

// Bring takes the leader's answer to a fetch that was sent in a leader epoch, and tells whether it cut records that
// had been below the high watermark.
func (s *Solo) Bring(leaderEpoch int32, res FetchResult) (cutBelowHigh bool, err error) {
	c := copied{leaderEpoch: leaderEpoch, records: res.Records, high: res.HighWatermark, logStart: res.LogStartOffset, diverging: res.Diverging}
	switch {
	case errors.Is(res.Err, ErrOffsetOutOfRange) && res.LogStartOffset >= 0:
		c.outOfRange = true
	case res.Err != nil:
		return false, res.Err
	}
	t, err := s.p.copy(c)
	return !t.none() && t.belowHigh(), err
}

// Wish is an ISR that a leader asks the controller for.
type Wish struct{ w wish }

// Item is the wish as the controller hears it from broker self in its broker epoch.
func (w Wish) Item(id fsm.PartitionID, self int32, brokerEpoch int64) *controllerv1.AlterPartition {
	a := &controllerv1.AlterPartition{
		TopicId: id.Topic.Bytes(), PartitionId: id.Partition, LeaderEpoch: w.w.leaderEpoch, PartitionEpoch: w.w.partitionEpoch,
	}
	for _, m := range w.w.isr {
		epoch := m.brokerEpoch
		if m.broker == self {
			epoch = brokerEpoch
		}
		a.NewIsr = append(a.NewIsr, &controllerv1.ISRMember{BrokerId: m.broker, BrokerEpoch: epoch})
	}
	return a
}

// Shrink wishes late members out of the ISR.
func (s *Solo) Shrink() *Wish {
	w, ok := s.p.shrink()
	if !ok {
		return nil
	}
	return &Wish{w}
}

// Wished tells whether w is still what the partition waits for.
func (s *Solo) Wished(w *Wish) bool { return s.p.wished(w.w) }

// Granted takes the controller's answer to a wish: the partition as committed.
func (s *Solo) Granted(w *Wish, r *controllerv1.AlterPartitionResult) {
	s.p.granted(w.w, r.GetIsr(), r.GetLeaderEpoch(), r.GetPartitionEpoch())
}

// Denied drops a wish that the controller refused for good.
func (s *Solo) Denied(w *Wish) { s.p.denied(w.w) }

// SoloState is what a partition believes.
type SoloState struct {
	// Leader and Follower tell the role; neither is set while there is none.
	Leader, Follower bool
	// LeaderID is the broker that is copied, -1 if there is none.
	LeaderID                    int32
	LeaderEpoch, PartitionEpoch int32
	// ISR is the committed one and MaximalISR the one that the high watermark waits for; a leader's only.
	ISR, MaximalISR []int32
	// EnoughInSync tells a leader that the ISR has min.insync.replicas.
	EnoughInSync bool
	// Start, High and End are log start, high watermark and log end.
	Start, High, End int64
	// Followers is what a leader knows of the others.
	Followers map[int32]SoloFollower
}

// SoloFollower is what a leader knows of a follower by its fetches.
type SoloFollower struct {
	// End is its log end, -1 until it fetched in this leader epoch.
	End int64
	// BrokerEpoch of its last fetch, -1 until it fetched.
	BrokerEpoch int64
}

// State tells what the partition believes.
func (s *Solo) State() SoloState {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	st := SoloState{
		Leader: s.p.leader != nil, Follower: s.p.follower != nil, LeaderID: s.p.leaderID,
		LeaderEpoch: s.p.leaderEpoch, PartitionEpoch: s.p.partitionEpoch,
		Start: s.p.log.StartOffset(), High: s.p.highWatermark(), End: s.p.log.EndOffset(),
	}
	if l := s.p.leader; l != nil {
		st.ISR, st.MaximalISR = slices.Clone(l.isr.committed), slices.Clone(l.isr.maximal())
		st.EnoughInSync = !l.underMinISR(s.p.view())
		st.Followers = make(map[int32]SoloFollower, len(l.followers))
		for id, p := range l.followers {
			st.Followers[id] = SoloFollower{End: p.end, BrokerEpoch: p.brokerEpoch}
		}
	}
	return st
}
