package controller

import (
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// cmdBrokers brings brokers up: registered, caught up and unfenced. It says nothing.
func (w *world) cmdBrokers(d *datadriven.TestData) string {
	for _, arg := range d.CmdArgs {
		id := toID(w.t, arg.Key)
		tell(w, RegisterBroker(w.img, w.env, w.registration(id)), nil)
		b, _ := w.img.Broker(id)
		w.heartbeat(&controllerv1.SessionRequest{BrokerId: id, BrokerEpoch: b.Epoch, MetadataOffset: w.img.AppliedOffset()})
	}
	return ""
}

func (w *world) registration(id int32) *controllerv1.RegisterRequest {
	w.incarnations[id]++
	w.stopped[id] = false
	req := &controllerv1.RegisterRequest{
		ClusterId:           testClusterID(),
		BrokerId:            id,
		IncarnationId:       incarnation(id, w.incarnations[id]).Bytes(),
		PreviousBrokerEpoch: -1,
		Directories:         [][]byte{directory(id).Bytes()},
		Listeners:           []*metadatav1.Listener{{Name: "PLAINTEXT", Host: fmt.Sprintf("b%d", id), Port: 9092}},
		Features:            fsm.FeaturesProto(fsm.Supported()),
	}
	if rack, ok := w.racks[id]; ok {
		req.Rack = &rack
	}
	return req
}

// cmdRegister registers one broker: "register 1", with "same" for the same incarnation, "clean" after a clean stop and
// the fields that a story wants to be wrong.
func (w *world) cmdRegister(d *datadriven.TestData) string {
	o := w.options(d)
	id := toID(w.t, d.CmdArgs[0].Key)
	req := w.registration(id)
	if o.has("same") {
		w.incarnations[id]--
		req.IncarnationId = incarnation(id, w.incarnations[id]).Bytes()
	}
	if b, ok := w.img.Broker(id); ok && o.has("clean") {
		req.PreviousBrokerEpoch = b.Epoch
	}
	req.ClusterId = o.text("cluster", req.GetClusterId())
	if o.has("no-cluster") {
		req.ClusterId = ""
	}
	w.spoilDirectories(o, req)
	w.spoilEndpoints(o, req)
	return tell(w, RegisterBroker(w.img, w.env, req), func(r *controllerv1.RegisterResponse) string {
		return fmt.Sprintf("broker epoch %s, catch up to %s, session %d ms\n", offsetText(r.GetBrokerEpoch()), offsetText(r.GetMetadataOffset()), r.GetSessionTimeoutMs())
	})
}

// spoilDirectories reads dirs=7,8: the directories that brokers 7 and 8 have in stories; "reserved", "short" and
// "none" name bad ones.
func (w *world) spoilDirectories(o options, req *controllerv1.RegisterRequest) {
	if !o.has("dirs") {
		return
	}
	req.Directories = nil
	for _, text := range o.list("dirs") {
		switch text {
		case "none":
		case "reserved":
			req.Directories = append(req.Directories, fsm.UUID{15: 1}.Bytes())
		case "short":
			req.Directories = append(req.Directories, []byte{1, 2, 3})
		default:
			req.Directories = append(req.Directories, directory(toID(w.t, text)).Bytes())
		}
	}
}

func (w *world) spoilEndpoints(o options, req *controllerv1.RegisterRequest) {
	if o.has("host") {
		req.Listeners[0].Host = o.text("host", "")
	}
	if o.has("port") {
		req.Listeners[0].Port = uint32(o.number("port", 0))
	}
	if o.has("no-listeners") {
		req.Listeners = nil
	}
	if o.has("no-features") {
		req.Features = nil
	}
	if o.has("old-features") {
		req.Features = []*metadatav1.Feature{{Name: FeatureName, MinLevel: 1, MaxLevel: 1}}
	}
	if o.has("feature") { // feature=name,min,max
		f := o.list("feature")
		req.Features = []*metadatav1.Feature{{Name: f[0], MinLevel: toID(w.t, f[1]), MaxLevel: toID(w.t, f[2])}}
	}
}

// cmdHeartbeat sends one heartbeat: "heartbeat 1 want-shut-down", "heartbeat 1 offset=3 want-fence".
func (w *world) cmdHeartbeat(d *datadriven.TestData) string {
	o := w.options(d)
	id := toID(w.t, d.CmdArgs[0].Key)
	req := &controllerv1.SessionRequest{BrokerId: id, MetadataOffset: int64(o.number("offset", int(w.img.AppliedOffset())))}
	if b, ok := w.img.Broker(id); ok {
		req.BrokerEpoch = b.Epoch
	}
	req.BrokerEpoch = int64(o.number("epoch", int(req.GetBrokerEpoch())))
	req.WantFence, req.WantShutDown, req.Goodbye = o.has("want-fence"), o.has("want-shut-down"), o.has("goodbye")
	if req.GetGoodbye() {
		w.stopped[id] = true
	}
	return w.heartbeat(req)
}

// heartbeat does what the active controller does: it touches the session when the heartbeat arrives, and decides if
// that is needed. What needs no decision must not change anything and needs no soft state.
func (w *world) heartbeat(req *controllerv1.SessionRequest) string {
	if b, ok := w.img.Broker(req.GetBrokerId()); ok && b.Epoch == req.GetBrokerEpoch() {
		w.liveness.Touch(b.ID, b.Epoch, req.GetMetadataOffset(), w.env.Now)
	}
	needed := NeedsDecision(w.img, req)
	env := *w.env
	if !needed {
		env.Liveness = nil
	}
	decision := Heartbeat(w.img, &env, req)
	if !needed && (len(decision.Batches) > 0 || decision.Remember != nil) {
		w.t.Errorf("NeedsDecision is false, but the heartbeat %v decides %v", req, decision.Batches)
	}
	return tell(w, decision, func(r *controllerv1.SessionResponse) string {
		if r.GetError() != nil {
			return errorText(r.GetError()) + "\n"
		}
		var said []string
		for _, s := range []struct {
			is   bool
			text string
		}{{r.GetIsCaughtUp(), "caught up"}, {!r.GetIsCaughtUp(), "behind"}, {r.GetIsFenced(), "fenced"}, {r.GetShouldShutDown(), "may stop"}} {
			if s.is {
				said = append(said, s.text)
			}
		}
		return strings.Join(said, ", ") + "\n"
	})
}

// cmdTick lets time pass: "tick 10s without=2,3". The brokers that are not left out send a heartbeat every second, and
// the controller looks for expired sessions as often.
func (w *world) cmdTick(d *datadriven.TestData) string {
	o := w.options(d)
	left, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		w.t.Fatalf("tick: %v", err)
	}
	silent := toIDs(w.t, o.list("without"))
	var out strings.Builder
	for left != 0 {
		step := min(left, time.Second)
		left -= step
		w.env.Now = w.env.Now.Add(step)
		w.beatAll(silent)
		out.WriteString(tell(w, ExpireSessions(w.img, w.env), nil))
	}
	return out.String()
}

func (w *world) beatAll(silent []int32) {
	for b := range w.img.Brokers() {
		if !contains(silent, b.ID) && !w.stopped[b.ID] {
			w.liveness.Touch(b.ID, b.Epoch, w.img.AppliedOffset(), w.env.Now)
		}
	}
}

func contains(ids []int32, id int32) bool {
	for _, other := range ids {
		if other == id {
			return true
		}
	}
	return false
}

func (w *world) cmdFence(d *datadriven.TestData) string {
	why := reason("broker_process_gone", "broker %s refuses connections", d.CmdArgs[0].Key)
	return tell(w, FenceBroker(w.img, w.env, toID(w.t, d.CmdArgs[0].Key), why), nil)
}

func (w *world) cmdUnregister(d *datadriven.TestData) string {
	req := &controllerv1.UnregisterBrokerRequest{BrokerId: toID(w.t, d.CmdArgs[0].Key)}
	return tell(w, rehearsed(w, UnregisterBroker, req), nil)
}

// cmdFailover makes another controller active: it knows the image and nothing else.
func (w *world) cmdFailover(*datadriven.TestData) string {
	w.liveness.Reset(w.img, w.env.Now)
	w.env.Inventories.Reset(w.env.Now)
	w.watch.Claimed(w.img, w.env.Now)
	return ""
}

func (w *world) cmdProducerIDs(d *datadriven.TestData) string {
	o := w.options(d)
	req := &controllerv1.ReserveProducerIDsRequest{BrokerId: toID(w.t, d.CmdArgs[0].Key)}
	if b, ok := w.img.Broker(req.GetBrokerId()); ok {
		req.BrokerEpoch = b.Epoch
	}
	req.BrokerEpoch = int64(o.number("epoch", int(req.GetBrokerEpoch())))
	return tell(w, ReserveProducerIDs(w.img, w.env, req), func(r *controllerv1.ReserveProducerIDsResponse) string {
		return fmt.Sprintf("producer ids %d to %d\n", r.GetFirstProducerId(), r.GetFirstProducerId()+int64(r.GetCount())-1)
	})
}

func (w *world) cmdRegisterController(d *datadriven.TestData) string {
	o := w.options(d)
	id := toID(w.t, d.CmdArgs[0].Key)
	rec := &metadatav1.ControllerRegistered{
		NodeId:        id,
		DirectoryId:   directory(id).Bytes(),
		IncarnationId: incarnation(id, byte(o.number("incarnation", 1))).Bytes(),
		Listeners:     []*metadatav1.Listener{{Name: "CONTROLLER", Host: o.text("host", "c"), Port: uint32(o.number("port", 9093))}},
	}
	if o.has("features") {
		rec.Features = fsm.FeaturesProto(fsm.Supported())
	}
	if o.has("no-directory") {
		rec.DirectoryId = nil
	}
	return tell(w, RegisterController(w.img, w.env, rec), nil)
}
