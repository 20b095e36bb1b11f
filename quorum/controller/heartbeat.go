package controller

import (
	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// brokerState is where a broker stands in its life, as the controller wants it.
//
//	              caught up, ready          leads something, wants to stop
//	FENCED ------------------------> UNFENCED ------------------> CONTROLLED SHUTDOWN
//	  ^  \                            /    \                        |  leads nothing, and every
//	  |   \ wants to stop            /      \ wants to stop,        |  active broker knows it
//	  |    \                        /        \ leads nothing        v
//	  |     `------------------------------------------------> SHUTDOWN NOW
//	  `--- not ready, session over --'
type brokerState int

const (
	stateFenced brokerState = iota
	stateUnfenced
	stateControlledShutdown
	stateShutdownNow
)

func stateOf(b *fsm.Broker) brokerState {
	switch {
	case b.Fenced:
		return stateFenced
	case b.InControlledShutdown:
		return stateControlledShutdown
	}
	return stateUnfenced
}

// isCaughtUp compares with the broker's own registration, a target that does not move while the metadata grows.
func isCaughtUp(b *fsm.Broker, req *controllerv1.SessionRequest) bool {
	return req.GetMetadataOffset() >= b.Epoch
}

// NeedsDecision tells whether a heartbeat may change the metadata or depends on what other brokers have applied. If it
// does not, [Heartbeat] answers it from any image and needs no soft state, so that the session's own goroutine can.
func NeedsDecision(img *fsm.Image, req *controllerv1.SessionRequest) bool {
	b, ok := holder(img, req.GetBrokerId(), req.GetBrokerEpoch())
	if !ok {
		return false
	}
	switch stateOf(b) {
	case stateFenced:
		return req.GetGoodbye() || mayUnfence(b, req)
	case stateUnfenced:
		return req.GetGoodbye() || req.GetWantFence() || req.GetWantShutDown()
	case stateControlledShutdown, stateShutdownNow:
	}
	return true
}

func mayUnfence(b *fsm.Broker, req *controllerv1.SessionRequest) bool {
	// Only a new incarnation leaves controlled shutdown.
	return !req.GetGoodbye() && !req.GetWantShutDown() && !req.GetWantFence() && !b.InControlledShutdown && isCaughtUp(b, req)
}

// Heartbeat decides what a heartbeat changes (Kafka's BrokerHeartbeatManager). In the steady state it changes nothing.
func Heartbeat(img *fsm.Image, env *Env, req *controllerv1.SessionRequest) Decision[*controllerv1.SessionResponse] {
	b, ok := holder(img, req.GetBrokerId(), req.GetBrokerEpoch())
	if !ok {
		return Decision[*controllerv1.SessionResponse]{Reply: &controllerv1.SessionResponse{
			Sequence:        req.GetSequence(),
			Error:           staleBroker(b, req.GetBrokerId(), req.GetBrokerEpoch()),
			IsFenced:        true,
			ControllerEpoch: img.ControllerEpoch(),
		}}
	}
	next := env.nextState(img, b, req)
	d := env.transit(img, b, next, req)
	d.Reply = &controllerv1.SessionResponse{
		Sequence:        req.GetSequence(),
		IsCaughtUp:      isCaughtUp(b, req),
		IsFenced:        next == stateFenced || next == stateShutdownNow,
		ShouldShutDown:  next == stateShutdownNow,
		ControllerEpoch: img.ControllerEpoch(),
	}
	return d
}

// holder returns the registration of a broker, and whether this broker epoch holds it. A registration of an earlier
// lineage is void: nobody holds it.
func holder(img *fsm.Image, id int32, epoch int64) (*fsm.Broker, bool) {
	b, ok := img.Broker(id)
	return b, ok && b.Epoch == epoch && epoch != fsm.VoidEpoch
}

// staleBroker is the answer to a broker epoch that does not hold the registration b, which is nil if there is none.
func staleBroker(b *fsm.Broker, id int32, epoch int64) *controllerv1.Error {
	const stale = controllerv1.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH
	switch {
	case b == nil:
		return itemError(stale, "broker %d is not registered", id)
	case b.Epoch == fsm.VoidEpoch:
		return itemError(stale, "broker %d is not registered in this lineage; it must register again", id)
	}
	return itemError(stale, "broker %d is registered with broker epoch %d, not %d", id, b.Epoch, epoch)
}

// nextState is Kafka's table (BrokerHeartbeatManager.calculateNextBrokerState), with the goodbye of a process besides.
func (e *Env) nextState(img *fsm.Image, b *fsm.Broker, req *controllerv1.SessionRequest) brokerState {
	now := stateOf(b)
	switch {
	case req.GetGoodbye():
		return stateShutdownNow
	case now == stateFenced && req.GetWantShutDown():
		return stateShutdownNow
	case now == stateFenced && mayUnfence(b, req):
		return stateUnfenced
	case now == stateUnfenced && req.GetWantFence() && req.GetWantShutDown():
		return stateShutdownNow
	case now == stateUnfenced && req.GetWantFence():
		return stateFenced
	case now == stateUnfenced && req.GetWantShutDown() && img.NumLedBy(b.ID) > 0:
		return stateControlledShutdown
	case now == stateUnfenced && req.GetWantShutDown():
		return stateShutdownNow
	case now == stateControlledShutdown && img.NumLedBy(b.ID) == 0 && e.handedOver(img, b.ID):
		return stateShutdownNow
	}
	return now
}

// handedOver tells whether every active broker has applied the changes that took the leaderships away. A controller
// that has just taken over does not know the offset of those changes; all it has applied itself contains them.
func (e *Env) handedOver(img *fsm.Image, broker int32) bool {
	offset, ok := e.Liveness.ControlledShutdownOffset(broker)
	if !ok {
		offset = img.AppliedOffset()
	}
	return offset <= e.Liveness.LowestActiveOffset(img)
}

// transit makes the records that take the broker to its next state.
func (e *Env) transit(img *fsm.Image, b *fsm.Broker, next brokerState, req *controllerv1.SessionRequest) Decision[*controllerv1.SessionResponse] {
	var d Decision[*controllerv1.SessionResponse]
	switch next {
	case stateFenced, stateShutdownNow:
		if !b.Fenced {
			d.Batches = e.batches(img, fenceReason(b, req), e.fence(img, []*fsm.Broker{b}))
		}
		if !b.Fenced || req.GetGoodbye() {
			d.Remember = afterFencing(b.ID, req.GetGoodbye())
		}
	case stateUnfenced:
		if b.Fenced {
			d.Batches = e.unfence(img, b)
		}
	case stateControlledShutdown:
		records := e.beginShutdown(img, b)
		why := reason("controlled_shutdown", "broker %d hands over its leaderships before it stops", b.ID)
		d.Batches = e.batches(img, why, records)
		offset := img.AppliedOffset() + int64(len(records))
		d.Remember = func(l *Liveness) { l.SetControlledShutdownOffset(b.ID, offset) }
	}
	return d
}

func afterFencing(broker int32, goodbye bool) func(*Liveness) {
	return func(l *Liveness) {
		l.ClearControlledShutdownOffset(broker)
		if goodbye {
			l.Forget(broker)
		}
	}
}

func fenceReason(b *fsm.Broker, req *controllerv1.SessionRequest) *metadatav1.Reason {
	switch {
	case req.GetGoodbye():
		return reason("broker_goodbye", "broker %d said goodbye", b.ID)
	case req.GetWantFence() && req.GetWantShutDown():
		return reason("broker_wants_fence", "broker %d asked to be fenced and to stop", b.ID)
	case req.GetWantFence():
		return reason("broker_wants_fence", "broker %d asked to be fenced", b.ID)
	}
	return reason("broker_stopped", "broker %d leads nothing and may stop", b.ID)
}

// fence makes the records that fence brokers: partition changes first, the registrations last.
func (e *Env) fence(img *fsm.Image, brokers []*fsm.Broker) []*metadatav1.Record {
	gone := make([]int32, len(brokers))
	for i, b := range brokers {
		gone[i] = b.ID
	}
	records := e.leaveISRs(img, gone)
	for _, b := range brokers {
		records = append(records, registrationChange(&metadatav1.BrokerRegistrationChange{
			BrokerId: b.ID, BrokerEpoch: b.Epoch, Fenced: proto.Bool(true),
		}))
	}
	return records
}

// unfence makes the batches that unfence a broker. The registration comes first, because a fenced broker must not lead
// (I7). The broker joins no ISR by this; the leaders ask for that when it has caught up.
func (e *Env) unfence(img *fsm.Image, b *fsm.Broker) []*metadatav1.Batch {
	records := []*metadatav1.Record{registrationChange(&metadatav1.BrokerRegistrationChange{
		BrokerId: b.ID, BrokerEpoch: b.Epoch, Fenced: proto.Bool(false),
	})}
	records = append(records, e.electLeaderless(img, activeWith(img, b.ID))...)
	return e.batches(img, reason("broker_unfenced", "broker %d has caught up and is ready", b.ID), records)
}

// beginShutdown makes the records that take a broker into controlled shutdown, and what is left to do on a repetition.
func (e *Env) beginShutdown(img *fsm.Image, b *fsm.Broker) []*metadatav1.Record {
	var records []*metadatav1.Record
	if !b.InControlledShutdown {
		records = append(records, registrationChange(&metadatav1.BrokerRegistrationChange{
			BrokerId: b.ID, BrokerEpoch: b.Epoch, InControlledShutdown: proto.Bool(true),
		}))
	}
	return append(records, e.leaveISRs(img, []int32{b.ID})...)
}

func registrationChange(rec *metadatav1.BrokerRegistrationChange) *metadatav1.Record {
	return &metadatav1.Record{Kind: &metadatav1.Record_BrokerRegistrationChange{BrokerRegistrationChange: rec}}
}
