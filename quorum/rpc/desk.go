package rpc

import (
	"fmt"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
)

// Desk is what the edge of an active controller knows of brokers: their open sessions, and whose heartbeat is being
// decided. It says what becomes of each heartbeat. It has no lock, clock or goroutine: the server keeps it behind a
// mutex, a simulator calls it as it is. T is what its owner needs to have a heartbeat decided.
//
// One heartbeat of each broker is decided at a time, whatever the number of its sessions: the next one asks again. A
// goodbye is said only once, and waits.
type Desk[T any] struct {
	// deciding holds the brokers with a heartbeat that is being decided, each with the goodbye that waits behind it.
	deciding map[int32]waiting[T]
	// open counts the sessions of each broker: only the end of the last one says something.
	open map[int32]int
}

// waiting is a goodbye that is decided next, if there is one.
type waiting[T any] struct {
	goodbye T
	there   bool
}

// NewDesk makes an empty Desk.
func NewDesk[T any]() *Desk[T] {
	return &Desk[T]{deciding: map[int32]waiting[T]{}, open: map[int32]int{}}
}

// BrokerSession is what the Desk has to remember of one session.
type BrokerSession struct {
	// broker is set by the first heartbeat. The epoch is that of the last one, which said goodbye if leaving is set.
	broker  int32
	begun   bool
	epoch   int64
	leaving bool
}

// Fate is what becomes of a heartbeat.
type Fate int

// The fates.
const (
	// Answered: Handling.Answer goes out.
	Answered Fate = iota
	// ToDecide: the owner has the heartbeat decided now, and after it whatever Decided returns.
	ToDecide
	// Waits: the heartbeat is a goodbye; Decided will return it.
	Waits
	// Refused: Handling.Refusal ends the session.
	Refused
)

// Handling is what the Desk says of a heartbeat.
type Handling struct {
	Fate Fate
	// Heard tells that its arrival counts for the broker's session in liveness.
	Heard   bool
	Answer  *controllerv1.SessionResponse
	Refusal *controller.Refusal
}

// Take takes a heartbeat that arrived in a session; call is kept, or to be used, where it has to be decided.
func (d *Desk[T]) Take(s *BrokerSession, img *fsm.Image, req *controllerv1.SessionRequest, call T) Handling {
	id := req.GetBrokerId()
	if s.begun && s.broker != id {
		return Handling{Fate: Refused, Refusal: &controller.Refusal{
			Code:    controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
			Message: fmt.Sprintf("a heartbeat of broker %d came on the session of broker %d", id, s.broker),
		}}
	}
	if !s.begun {
		s.broker, s.begun = id, true
		d.open[id]++
	}
	s.epoch, s.leaving = req.GetBrokerEpoch(), req.GetGoodbye()
	h := Handling{Heard: registered(img, id, s.epoch) && !s.leaving}
	if !controller.NeedsDecision(img, req) {
		h.Answer = steady(img, req)
		return h
	}
	switch next, busy := d.deciding[id]; {
	case !busy:
		d.deciding[id] = waiting[T]{}
		h.Fate = ToDecide
	case s.leaving && !next.there:
		d.deciding[id] = waiting[T]{goodbye: call, there: true}
		h.Fate = Waits
	default:
		h.Answer = asItIs(img, req)
	}
	return h
}

// Decided ends the decision about a broker. It returns the goodbye that came meanwhile and is to be decided now.
func (d *Desk[T]) Decided(broker int32) (goodbye T, ok bool) {
	next := d.deciding[broker]
	if !next.there {
		delete(d.deciding, broker)
		return goodbye, false
	}
	d.deciding[broker] = waiting[T]{}
	return next.goodbye, true
}

// End notes the end of a session; byPeer tells that its broker ended it. It returns the broker and the epoch that may be
// gone: it ended its last session without a goodbye.
func (d *Desk[T]) End(s *BrokerSession, img *fsm.Image, byPeer bool) (broker int32, epoch int64, gone bool) {
	if !s.begun {
		return -1, -1, false
	}
	s.begun = false
	d.open[s.broker]--
	others := d.open[s.broker]
	if others == 0 {
		delete(d.open, s.broker)
	}
	return s.broker, s.epoch, byPeer && others == 0 && !s.leaving && registered(img, s.broker, s.epoch)
}

// Verdict is what a decision about a heartbeat leads to.
type Verdict struct {
	Answer *controllerv1.SessionResponse
	// Over tells that this node is not active any more: there is no answer, and the session ends.
	Over bool
	// Gone tells that a goodbye was not decided: the broker is gone without one.
	Gone bool
}

// Judge makes an answer of what a decision returned. What could not be decided now is answered with the state as it is:
// the next heartbeat asks again.
func Judge(img *fsm.Image, req *controllerv1.SessionRequest, decided *controllerv1.SessionResponse, err error) Verdict {
	switch {
	case active.IsRefused(err, controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER):
		return Verdict{Over: true}
	case err != nil:
		return Verdict{Answer: asItIs(img, req), Gone: req.GetGoodbye() && registered(img, req.GetBrokerId(), req.GetBrokerEpoch())}
	}
	return Verdict{Answer: decided}
}

// registered tells whether the image has this broker in this broker epoch, which no earlier lineage gave it.
func registered(img *fsm.Image, id int32, epoch int64) bool {
	b, ok := img.Broker(id)
	return ok && b.Epoch == epoch && epoch != fsm.VoidEpoch
}

// steady answers a heartbeat that changes nothing.
func steady(img *fsm.Image, req *controllerv1.SessionRequest) *controllerv1.SessionResponse {
	env := &controller.Env{Now: time.UnixMilli(img.LastBatchTimeMs()), Limits: controller.DefaultLimits(), Cause: &metadatav1.Cause{}}
	resp := controller.Heartbeat(img, env, req).Reply
	if resp.GetMetadataOffset() == 0 {
		resp.MetadataOffset = img.AppliedOffset()
	}
	return resp
}

// asItIs answers a heartbeat with the broker's state in the image.
func asItIs(img *fsm.Image, req *controllerv1.SessionRequest) *controllerv1.SessionResponse {
	resp := &controllerv1.SessionResponse{
		Sequence:        req.GetSequence(),
		IsFenced:        true,
		ControllerEpoch: img.ControllerEpoch(),
		MetadataOffset:  img.AppliedOffset(),
	}
	if b, ok := img.Broker(req.GetBrokerId()); ok {
		resp.IsFenced = b.Fenced
		resp.IsCaughtUp = req.GetMetadataOffset() >= b.Epoch
	}
	return resp
}
