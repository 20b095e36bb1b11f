package controller

import (
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
)

// cmdClose ends sessions without a goodbye, now: "close 1 2".
func (w *world) cmdClose(d *datadriven.TestData) string {
	var out strings.Builder
	for _, arg := range d.CmdArgs {
		id, herds := toID(w.t, arg.Key), w.watch.Herds()
		b, ok := w.img.Broker(id)
		if !ok {
			w.t.Fatalf("broker %d is not registered", id)
		}
		w.watch.Closed(w.img, w.liveness, id, b.Epoch, w.env.Now)
		if w.watch.Herds() > herds {
			fmt.Fprintf(&out, "broker %d closes in a herd\n", id)
		}
	}
	return out.String()
}

// cmdWait lets time pass in which nobody is heard, and shows which probes begin: "wait 50ms", "wait 1s heard=2".
func (w *world) cmdWait(d *datadriven.TestData) string {
	o := w.options(d)
	passes, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		w.t.Fatalf("wait: %v", err)
	}
	w.env.Now = w.env.Now.Add(passes)
	for _, id := range toIDs(w.t, o.list("heard")) {
		b, _ := w.img.Broker(id)
		w.liveness.Touch(id, b.Epoch, w.img.AppliedOffset(), w.env.Now)
	}
	return w.probes()
}

// probes begins what is due.
func (w *world) probes() string {
	w.watch.Look(w.img)
	var out strings.Builder
	for _, p := range w.watch.Next(w.img, w.liveness, w.env.Now) {
		if _, twice := w.probing[p.BrokerID]; twice {
			w.t.Errorf("two probes of broker %d are in flight", p.BrokerID)
		}
		w.probing[p.BrokerID] = p
		fmt.Fprintf(&out, "probe broker %d at %s\n", p.BrokerID, p.Address)
	}
	if due := w.watch.NextDue(); !due.IsZero() && !due.After(w.env.Now) {
		w.t.Errorf("what is due at %s has not begun at %s", due, w.env.Now)
	}
	return out.String()
}

// cmdAnswer brings the results of probes: "answer 1=accepted 2=refused at=10.0.0.2:9092". The refused are fenced
// together.
func (w *world) cmdAnswer(d *datadriven.TestData) string {
	o := w.options(d)
	var gone []RefusedProbe
	for _, arg := range d.CmdArgs {
		if arg.Key == "at" {
			continue
		}
		id := toID(w.t, arg.Key)
		p, ok := w.probing[id]
		if !ok {
			w.t.Fatalf("no probe of broker %d is in flight", id)
		}
		delete(w.probing, id)
		remote := o.text("at", fmt.Sprintf("10.0.0.%d:9092", id))
		if r, ok := w.watch.Answered(id, p.ID, w.result(arg.Vals[0]), remote); ok {
			gone = append(gone, r)
		}
	}
	out := tell(w, FenceRefused(w.img, w.env, gone), func(ids []int32) string {
		if len(ids) == 0 {
			return "nobody is fenced\n"
		}
		return ""
	})
	return out + w.probes()
}

func (w *world) result(text string) ProbeResult {
	for r := range ProbeResult(NumProbeResults) {
		if r.String() == text {
			return r
		}
	}
	w.t.Fatalf("%q is no result", text)
	return ProbeFailed
}
