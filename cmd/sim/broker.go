package main

import (
	"time"

	"github.com/skiffmq/skiff/brokerd/lifecycle"
	"github.com/skiffmq/skiff/brokerd/partlog/partlogtest"
	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// broker is one broker: the real lifecycle, the real fold over a follow stream, and the real partitions on model disks.
type broker struct {
	proc
	s  *Sim
	id int32

	// dark is set while the host has no power.
	dark bool

	// The disk.
	durable       *fsm.Image // the metadata log as far as it is synced
	logged        *fsm.Image // as far as it is written
	previousEpoch int64      // of a clean stop, else -1
	disks         map[fsm.PartitionID]*disk

	// What follows is lost with the process.
	incarnation fsm.UUID
	img         *fsm.Image
	life        lifecycle.Life
	applying    bool
	stream      *stream
	heardAt     int64
	// slowAsk, if set, makes the next wish wait at the controller.
	slowAsk func() time.Duration
	// shade is the image as the deltas tell it.
	shade *shade
	// claimEpoch is the controller epoch of the last claim that was heard.
	claimEpoch int64
	// ctrl is the node that is taken for the active controller.
	ctrl     *node
	talk     dialog
	replicas map[fsm.PartitionID]*hosted
	fetchers map[int32]*fetcher
	wishes   map[fsm.PartitionID]*replica.Wish
	asking   bool
}

// disk is one replica's directory, and what the run knows to be in it.
type disk struct {
	fs     *partlogtest.CrashFS
	shadow []record
	// high is the checkpointed high watermark.
	high int64
	// short is set when a power cut took bytes that the shadow still has.
	short bool
}

// record is one record of a partition's log.
type record struct {
	epoch int32
	value uint64
}

// dialog is the conversation with the active controller.
type dialog struct {
	registering        bool
	sequence, answered int64
	waitingSince       int64
	// link is the session, nil before the first heartbeat.
	link            *link
	controllerEpoch int64
	timer           uint64
}

func (b *broker) boot() {
	b.start()
	b.incarnation = b.s.uuid()
	b.img, b.life, b.applying, b.stream = b.logged, lifecycle.New(), false, nil
	b.claimEpoch = 0
	b.talk, b.ctrl, b.asking, b.dark = dialog{}, nil, false, false
	b.replicas, b.fetchers = map[fsm.PartitionID]*hosted{}, map[int32]*fetcher{}
	b.wishes = map[fsm.PartitionID]*replica.Wish{}
	b.shade = newShade()
	if b.img != nil {
		b.shade.fold(fsm.Diff(b.s.empty, b.img))
	}
	b.s.tracef("%s starts", b.name)
	b.follow()
	b.keepFollowing()
	b.converse()
	b.every(b.s.opt.Lag/2, b.shrinkAll)
	b.every(5*time.Second, b.checkpoint)
	b.every(time.Second, func() { b.logged, b.durable = b.img, b.img })
}

// every does something for as long as the process lives.
func (b *broker) every(d time.Duration, fn func()) {
	b.s.agenda.after(d, &b.proc, func() {
		fn()
		b.every(d, fn)
	})
}

// die ends the process. What was written stays; with the power gone only what was synced.
func (b *broker) die(power bool) {
	if !b.up {
		return
	}
	b.s.tracef("%s dies, power lost: %v", b.name, power)
	b.dark = power
	if !power { // the system of a host that lives closes the connections
		b.hangUp()
	}
	b.stop()
	b.logged = b.img
	if power {
		b.logged = b.durable
	}
	b.replicas, b.fetchers, b.wishes = nil, nil, nil
	for _, id := range sortedKeys(b.disks) {
		d := b.disks[id]
		if !power {
			d.fs = d.fs.Kill()
			continue
		}
		if b.s.rnd.IntN(2) == 0 {
			d.fs = d.fs.PowerCut()
		} else {
			d.fs = d.fs.TornPowerCut(b.s.rnd)
		}
		b.s.check.powerLost(b, id)
	}
}

// metadataChanged gives the metadata to the partitions, from the moment on when it holds our own registration.
func (b *broker) metadataChanged(d *fsm.Delta) {
	b.logged = b.img
	b.s.check.heardOf(b, d)
	switch {
	case b.applying:
		b.apply(d)
	default:
		me, ok := b.img.Broker(b.id)
		if !ok || me.IncarnationID != b.incarnation {
			break
		}
		b.applying = true
		b.life = b.life.CaughtUp()
		b.apply(fsm.Diff(b.s.empty, b.img))
		b.life = b.life.NowReady()
		b.poke()
		return
	}
	if epoch := b.img.ControllerEpoch(); epoch != b.claimEpoch || b.life.Eager() {
		b.claimEpoch = epoch
		b.poke()
	}
}

// converse sends the next heartbeat, or registers, and plans the one after.
func (b *broker) converse() {
	b.talk.timer++
	mine := b.talk.timer
	if b.life.MustRegister() {
		b.register()
	} else {
		b.heartbeat()
	}
	b.s.agenda.after(b.interval(), &b.proc, func() {
		if b.talk.timer == mine {
			b.converse()
		}
	})
}

// poke lets the controller hear of news at once.
func (b *broker) poke() {
	if !b.life.MustRegister() {
		b.heartbeat()
	}
}

func (b *broker) interval() time.Duration {
	switch {
	case b.life.MustRegister():
		return 100 * time.Millisecond
	case b.life.Eager():
		return lifecycle.EagerInterval
	}
	return b.s.opt.Session / 6
}

// controller is the node to talk to.
func (b *broker) controller() *node {
	if b.ctrl == nil {
		b.ctrl = b.s.nodes[b.s.rnd.IntN(len(b.s.nodes))]
		if b.img != nil && b.s.rnd.IntN(2) == 0 {
			if claim, ok := b.img.Claim(); ok {
				b.ctrl = b.s.nodeByID(claim.NodeID)
			}
		}
	}
	return b.ctrl
}

func (b *broker) register() {
	if b.talk.registering {
		return
	}
	b.talk.registering = true
	req := &controllerv1.RegisterRequest{
		ClusterId: b.s.empty.ClusterID(), BrokerId: b.id, IncarnationId: b.incarnation.Bytes(), PreviousBrokerEpoch: b.previousEpoch,
		Directories: [][]byte{{0xb0, byte(b.id), 1, 15: 0}},
		Listeners:   []*metadatav1.Listener{{Name: "PLAINTEXT", Host: b.name, Port: 9092}},
		Features:    []*metadatav1.Feature{{Name: controller.FeatureName, MinLevel: 1, MaxLevel: 1}},
	}
	ask(b, controller.RegisterBroker, req, "Register", func(resp *controllerv1.RegisterResponse, err error) {
		b.talk.registering = false
		if err != nil {
			return
		}
		b.life = b.life.Registered(resp.GetBrokerEpoch())
		b.s.tracef("%s is registered with broker epoch %d", b.name, resp.GetBrokerEpoch())
		b.poke()
	})
}

// heartbeat sends one. A controller that does not answer for half a session is left.
func (b *broker) heartbeat() {
	t, s := &b.talk, b.s
	if t.sequence > t.answered && s.agenda.now-t.waitingSince > int64(s.opt.Session/2) || b.overtaken() {
		b.turnAway()
	}
	if t.sequence == t.answered {
		t.waitingSince = s.agenda.now
	}
	t.sequence++
	says := b.life.Says()
	applied := int64(-1)
	if b.img != nil {
		applied = b.img.AppliedOffset()
	}
	if s.rnd.IntN(8) == 0 && !says.WantShutDown {
		says.WantFence = false // brokers of another make ask early; the controller knows whether they have caught up
	}
	req := &controllerv1.SessionRequest{
		BrokerId: b.id, BrokerEpoch: b.life.Epoch, MetadataOffset: applied,
		WantFence: says.WantFence, WantShutDown: says.WantShutDown, Sequence: t.sequence,
	}
	n, life := b.controller(), b.proc.life
	l := b.linkTo(n)
	s.net.send(&b.proc, &n.proc, func() {
		n.heartbeat(l, req, func(resp *controllerv1.SessionResponse) {
			s.net.send(&n.proc, &b.proc, func() {
				if b.proc.life == life && b.talk.link == l {
					b.answered(resp)
				}
			})
		})
	})
}

// turnAway leaves the node that was taken for the active controller.
func (b *broker) turnAway() {
	b.hangUp()
	b.ctrl = nil
	b.talk = dialog{timer: b.talk.timer, registering: b.talk.registering}
}

func (b *broker) overtaken() bool {
	return b.talk.controllerEpoch > 0 && b.img != nil && b.img.ControllerEpoch() > b.talk.controllerEpoch
}

// answered takes the answer to a heartbeat; nil means that the node is not the active controller.
func (b *broker) answered(resp *controllerv1.SessionResponse) {
	if resp == nil {
		b.turnAway()
		b.s.agenda.after(50*time.Millisecond, &b.proc, b.poke)
		return
	}
	b.talk.answered = max(b.talk.answered, resp.GetSequence())
	b.talk.waitingSince = b.s.agenda.now
	b.talk.controllerEpoch = max(b.talk.controllerEpoch, resp.GetControllerEpoch())
	before := b.life
	if resp.GetError().GetCode() == controllerv1.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH {
		b.life = b.life.Stale()
	} else if resp.GetError() == nil {
		b.life = b.life.Answered(resp.GetIsFenced(), resp.GetShouldShutDown())
	}
	if before.State != b.life.State {
		b.s.tracef("%s is %s", b.name, b.life.State)
		if b.life.State == lifecycle.StateShuttingDown {
			b.stopCleanly()
			return
		}
	}
	if before != b.life {
		b.converse()
	}
}

// shutDown asks to be let go.
func (b *broker) shutDown() {
	if !b.up {
		return
	}
	b.s.tracef("%s wants to stop", b.name)
	b.life = b.life.Stop()
	if b.life.State == lifecycle.StateShuttingDown {
		b.stopCleanly()
		return
	}
	b.converse()
	b.s.agenda.after(20*time.Second, &b.proc, b.stopCleanly)
}

// stopCleanly closes the logs, says goodbye and ends.
func (b *broker) stopCleanly() {
	epoch := b.life.Epoch
	for _, id := range sortedKeys(b.replicas) {
		h := b.replicas[id]
		b.disks[id].high = h.solo.State().High
		if err := h.solo.Close(); err != nil {
			b.s.fail(17, "%s cannot close the log of %s: %v", b.name, b.s.check.name(id), err)
		}
	}
	if n := b.ctrl; n != nil && epoch >= 0 {
		req := &controllerv1.SessionRequest{BrokerId: b.id, BrokerEpoch: epoch, MetadataOffset: b.img.AppliedOffset(), WantFence: true, WantShutDown: true, Goodbye: true}
		l := b.linkTo(n)
		nobody := func(*controllerv1.SessionResponse) {}
		if b.s.rnd.IntN(2) == 0 { // one is on its way
			before := &controllerv1.SessionRequest{BrokerId: b.id, BrokerEpoch: epoch, MetadataOffset: b.img.AppliedOffset(), WantShutDown: true}
			b.s.net.send(&b.proc, &n.proc, func() { n.heartbeat(l, before, nobody) })
		}
		b.s.net.send(&b.proc, &n.proc, func() { n.heartbeat(l, req, nobody) })
	}
	b.die(false)
	b.previousEpoch = epoch
}
