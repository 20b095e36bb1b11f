package controller

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// heartbeatInput is a broker as it stands, and what its heartbeat says.
type heartbeatInput struct {
	state      brokerState
	leads      bool
	behind     bool // of the broker's own registration
	wantFence  bool
	wantStop   bool
	goodbye    bool
	others     bool // every active broker has applied the hand-over
	inShutdown bool // a fenced broker that was shutting down
}

var heartbeatTable = []struct {
	name string
	in   heartbeatInput
	want brokerState
}{
	{"fenced, wants to stop", heartbeatInput{state: stateFenced, wantStop: true}, stateShutdownNow},
	{"fenced, wants both", heartbeatInput{state: stateFenced, wantStop: true, wantFence: true}, stateShutdownNow},
	{"fenced, behind, wants to stop", heartbeatInput{state: stateFenced, wantStop: true, behind: true}, stateShutdownNow},
	{"fenced, ready", heartbeatInput{state: stateFenced}, stateUnfenced},
	{"fenced, ready, behind", heartbeatInput{state: stateFenced, behind: true}, stateFenced},
	{"fenced, not ready", heartbeatInput{state: stateFenced, wantFence: true}, stateFenced},
	{"fenced while shutting down, ready", heartbeatInput{state: stateFenced, inShutdown: true}, stateFenced},
	{"unfenced, wants both, leads", heartbeatInput{state: stateUnfenced, wantFence: true, wantStop: true, leads: true}, stateShutdownNow},
	{"unfenced, wants both", heartbeatInput{state: stateUnfenced, wantFence: true, wantStop: true}, stateShutdownNow},
	{"unfenced, wants to be fenced", heartbeatInput{state: stateUnfenced, wantFence: true, leads: true}, stateFenced},
	{"unfenced, wants to stop, leads", heartbeatInput{state: stateUnfenced, wantStop: true, leads: true}, stateControlledShutdown},
	{"unfenced, wants to stop", heartbeatInput{state: stateUnfenced, wantStop: true}, stateShutdownNow},
	{"unfenced, steady", heartbeatInput{state: stateUnfenced, leads: true}, stateUnfenced},
	{"unfenced, behind", heartbeatInput{state: stateUnfenced, behind: true}, stateUnfenced},
	{"shutting down, leads", heartbeatInput{state: stateControlledShutdown, leads: true, others: true, wantStop: true}, stateControlledShutdown},
	{"shutting down, handed over", heartbeatInput{state: stateControlledShutdown, others: true, wantStop: true}, stateShutdownNow},
	{"shutting down, handed over, silent about it", heartbeatInput{state: stateControlledShutdown, others: true}, stateShutdownNow},
	{"shutting down, others behind", heartbeatInput{state: stateControlledShutdown, wantStop: true}, stateControlledShutdown},
	{"shutting down, wants to be fenced", heartbeatInput{state: stateControlledShutdown, wantFence: true}, stateControlledShutdown},
	{"goodbye, unfenced, leads", heartbeatInput{state: stateUnfenced, goodbye: true, leads: true}, stateShutdownNow},
	{"goodbye, fenced", heartbeatInput{state: stateFenced, goodbye: true}, stateShutdownNow},
	{"goodbye, shutting down, leads", heartbeatInput{state: stateControlledShutdown, goodbye: true, leads: true}, stateShutdownNow},
}

// TestNextStateFollowsKafkasTable runs every row of BrokerHeartbeatManager.calculateNextBrokerState, and what
// a goodbye adds to it.
func TestNextStateFollowsKafkasTable(t *testing.T) {
	for _, row := range heartbeatTable {
		t.Run(row.name, func(t *testing.T) { checkNextState(t, row.in, row.want) })
	}
}

func checkNextState(t *testing.T, in heartbeatInput, want brokerState) {
	w := newWorld(t)
	w.up(1)
	w.up(2)
	if in.leads {
		w.create("foo", []int32{1})
	}
	w.setState(1, in.state, in.inShutdown)
	b, _ := w.img.Broker(1)
	shutdownOffset := w.img.AppliedOffset()
	w.liveness.Touch(1, b.Epoch, 0, w.env.Now)
	w.liveness.SetControlledShutdownOffset(1, shutdownOffset)
	other, _ := w.img.Broker(2)
	if in.others {
		w.liveness.Touch(2, other.Epoch, shutdownOffset, w.env.Now)
	}
	req := &controllerv1.SessionRequest{
		BrokerId: 1, BrokerEpoch: b.Epoch, MetadataOffset: b.Epoch,
		WantFence: in.wantFence, WantShutDown: in.wantStop, Goodbye: in.goodbye,
	}
	if in.behind {
		req.MetadataOffset = b.Epoch - 1
	}
	if got := w.env.nextState(w.img, b, req); got != want {
		t.Errorf("next state %d, want %d", got, want)
	}
	d := Heartbeat(w.img, w.env, req)
	fenced, stop := want == stateFenced || want == stateShutdownNow, want == stateShutdownNow
	if d.Reply.GetIsFenced() != fenced || d.Reply.GetShouldShutDown() != stop || d.Reply.GetIsCaughtUp() == in.behind {
		t.Errorf("answer %v, want fenced %t, may stop %t, caught up %t", d.Reply, fenced, stop, !in.behind)
	}
	if !NeedsDecision(w.img, req) && (len(d.Batches) > 0 || d.Remember != nil || want != in.state && want != stateShutdownNow) {
		t.Errorf("NeedsDecision is false, and the decision is %v", d.Batches)
	}
}

// TestSteadyHeartbeatsDecideNothing: the session's goroutine answers them, without soft state.
func TestSteadyHeartbeatsDecideNothing(t *testing.T) {
	w := newWorld(t)
	b := w.up(1)
	req := &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: b.Epoch, MetadataOffset: w.img.AppliedOffset(), Sequence: 7}
	if NeedsDecision(w.img, req) {
		t.Error("a steady heartbeat needs a decision")
	}
	d := Heartbeat(w.img, &Env{}, req)
	want := &controllerv1.SessionResponse{Sequence: 7, IsCaughtUp: true, ControllerEpoch: w.img.ControllerEpoch()}
	if !proto.Equal(d.Reply, want) || d.Batches != nil || d.Remember != nil {
		t.Errorf("answer %v with batches %v, want %v", d.Reply, d.Batches, want)
	}
}

// TestCatchUpTargetIsFixedAtRegistration: metadata written after the registration does not move it.
func TestCatchUpTargetIsFixedAtRegistration(t *testing.T) {
	w := newWorld(t)
	w.up(2)
	d := RegisterBroker(w.img, w.env, w.registration(1))
	tell(w, d, nil)
	target := d.Reply.GetMetadataOffset()
	for i := range 20 {
		w.create(string(rune('a'+i)), []int32{2})
	}
	req := &controllerv1.SessionRequest{BrokerId: 1, BrokerEpoch: d.Reply.GetBrokerEpoch(), MetadataOffset: target}
	w.heartbeat(req)
	if b, _ := w.img.Broker(1); b.Fenced {
		t.Errorf("broker 1 has applied %d of %d and is still fenced", target, w.img.AppliedOffset())
	}
}

// up registers and unfences a broker.
func (w *world) up(id int32) *fsm.Broker {
	tell(w, RegisterBroker(w.img, w.env, w.registration(id)), nil)
	b, _ := w.img.Broker(id)
	w.heartbeat(&controllerv1.SessionRequest{BrokerId: id, BrokerEpoch: b.Epoch, MetadataOffset: w.img.AppliedOffset()})
	b, _ = w.img.Broker(id)
	return b
}

// create makes a topic by hand, a list of replicas for each partition.
func (w *world) create(name string, replicas ...[]int32) {
	t := &controllerv1.CreatableTopic{Name: name, NumPartitions: -1, ReplicationFactor: -1}
	for i, ids := range replicas {
		t.Assignments = append(t.Assignments, &controllerv1.ReplicaAssignment{PartitionId: int32(i), BrokerIds: ids})
	}
	d := CreateTopics(w.img, w.env, &controllerv1.CreateTopicsRequest{Topics: []*controllerv1.CreatableTopic{t}})
	if d.Refused != nil || d.Reply.GetTopics()[0].GetError() != nil {
		w.t.Fatalf("create %s: %v %v", name, d.Refused, d.Reply)
	}
	tell(w, d, nil)
}

// setState puts a broker into a state, whatever leads there. What a state forbids must not be asked for.
func (w *world) setState(id int32, state brokerState, inShutdown bool) {
	b, _ := w.img.Broker(id)
	change := &metadatav1.BrokerRegistrationChange{BrokerId: id, BrokerEpoch: b.Epoch}
	if state == stateFenced {
		change.Fenced = proto.Bool(true)
	}
	if state == stateControlledShutdown || inShutdown {
		change.InControlledShutdown = proto.Bool(true)
	}
	if change.Fenced == nil && change.InControlledShutdown == nil {
		return
	}
	batch := w.env.emptyBatch(w.img, reason("test", "set state"))
	batch.Records = []*metadatav1.Record{registrationChange(change)}
	w.fold(batch)
}

// TestHeartbeatsOfAReplacedProcessDoNotRenew: a session is of exactly one broker epoch.
func TestHeartbeatsOfAReplacedProcessDoNotRenew(t *testing.T) {
	w := newWorld(t)
	old := w.up(1)
	now := w.up(1)
	w.env.Now = w.env.Now.Add(10 * time.Second)
	w.liveness.Touch(1, old.Epoch, 0, w.env.Now)
	if got := w.liveness.Expired(w.img, w.env.Now); len(got) != 1 {
		t.Errorf("expired %v, want broker 1", got)
	}
	if w.liveness.Alive(1, now.Epoch, w.env.Now) || w.liveness.Alive(1, old.Epoch, w.env.Now) {
		t.Error("the session is alive by news of the replaced process")
	}
}
