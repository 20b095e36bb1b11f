package controller

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skiffmq/skiff/fsm"
)

const (
	// herdWindow is the time in which closed sessions count as one event. More than max(1, a third) of the brokers in it
	// have a common cause, and then sessions decide. A broker that was heard since, or came back as another process, is
	// not counted: it is not gone, and says nothing of one that goes now.
	herdWindow = time.Second
	// closingSettles is how long the probe of a closed session waits for the other members of a herd, and for the broker
	// to open another session. It is what a kill costs besides the commit.
	closingSettles = 50 * time.Millisecond
	// claimSettles is how long brokers have to find a new active controller before the silent ones are probed.
	claimSettles = time.Second
	// maxProbes bounds the connections that are attempted at a time (I20).
	maxProbes = 16
)

// ProbeResult is what an attempt to connect to a broker showed.
type ProbeResult int

// The results of a probe.
const (
	// ProbeAccepted: somebody listens. The broker may be paused all the same.
	ProbeAccepted ProbeResult = iota
	// ProbeRefused: the host answered that nobody listens (ECONNREFUSED).
	ProbeRefused
	// ProbeTimedOut: there was no answer in time.
	ProbeTimedOut
	// ProbeFailed: any other error, for example a host that cannot be reached.
	ProbeFailed

	// NumProbeResults is their number.
	NumProbeResults = iota
)

// String names the result as metrics do.
func (r ProbeResult) String() string {
	switch r {
	case ProbeAccepted:
		return "accepted"
	case ProbeRefused:
		return "refused"
	case ProbeTimedOut:
		return "timed_out"
	case ProbeFailed:
		return "failed"
	}
	return "unknown"
}

// Suspicion says that the process of a broker may be gone.
type Suspicion struct {
	BrokerID    int32
	BrokerEpoch int64
	// Since is when the session was closed, or the claim opened. A broker that was heard later lives.
	Since time.Time
	// AfterClaim tells that the broker was not heard since the claim; otherwise its session was closed without goodbye.
	AfterClaim bool

	// due is when to probe.
	due time.Time
}

// Probe is a connection to be attempted, over which nothing is sent.
type Probe struct {
	// ID is unique in the Watch that asked for the probe.
	ID          uint64
	BrokerID    int32
	BrokerEpoch int64
	// Address is host:port: the registered listener, or what it once led to when it was connected to.
	Address string

	// registered is the address of the listener in the metadata.
	registered string
	// suspicion that the probe is to settle, nil if it only finds out whether the address is reachable.
	suspicion *Suspicion
}

// RefusedProbe is proof that the process of a broker is gone.
type RefusedProbe struct {
	Suspicion
	// Address that refused.
	Address string
}

// Watch is the soft state by which a quorum node learns of a dead broker before its session ends. It has no lock.
//
// A refused connection proves something only where a connection was possible before: a firewall refuses, too. So every
// quorum node, active or not, connects once to each broker that is unfenced, and once more at a claim where that did
// not work. What it remembers holds for one broker epoch and one registered address, until the broker is fenced; and a
// suspicion is settled at the very address that accepted then, whatever else the name leads to.
type Watch struct {
	nextID uint64
	// reached holds the unfenced brokers that were tried.
	reached map[int32]reach
	// untried are unfenced brokers that are not in reached.
	untried []int32
	// inFlight holds the probes that are not answered yet: at most one for each broker, at most maxProbes.
	inFlight map[int32]Probe

	// suspects exist only on the active controller. Invariant: they are unfenced when they come in.
	suspects map[int32]*Suspicion
	// closings of the last herdWindow, one for each broker, in order. They stay when the suspicion is settled.
	closings []closing
	// claimedAt is when the claim was opened; silentAt is when silent brokers become suspects, zero when they have.
	claimedAt, silentAt time.Time
	herds               uint64
}

// reach is what trying to connect to a broker showed.
type reach struct {
	brokerEpoch int64
	registered  string
	// remote is the address that accepted, "" if none did.
	remote string
}

type closing struct {
	*Suspicion
	at time.Time
}

// NewWatch makes an empty state.
func NewWatch() *Watch {
	return &Watch{reached: map[int32]reach{}, inFlight: map[int32]Probe{}, suspects: map[int32]*Suspicion{}}
}

// Herds counts the closings that came in a herd.
func (w *Watch) Herds() uint64 { return w.herds }

// Look takes the brokers of an image: it forgets those that are not unfenced, and plans to try those that are new.
func (w *Watch) Look(img *fsm.Image) {
	before := w.reached
	w.reached, w.untried = make(map[int32]reach, len(before)), nil
	for b := range img.Brokers() {
		address, ok := probedAddress(b)
		if !ok {
			continue
		}
		if r, tried := before[b.ID]; tried && r.brokerEpoch == b.Epoch && r.registered == address {
			w.reached[b.ID] = r
		} else {
			w.untried = append(w.untried, b.ID)
		}
	}
}

// probedAddress is the registered listener of an unfenced broker.
func probedAddress(b *fsm.Broker) (string, bool) {
	if b.Fenced || len(b.Listeners) == 0 {
		return "", false
	}
	return b.Listeners[0].Address(), true
}

// Claimed begins the watch of an active controller. Brokers that could not be reached are tried again.
func (w *Watch) Claimed(img *fsm.Image, now time.Time) {
	w.Rest()
	w.claimedAt, w.silentAt = now, now.Add(claimSettles)
	maps.DeleteFunc(w.reached, func(_ int32, r reach) bool { return r.remote == "" })
	w.Look(img)
}

// Rest ends the watch of an active controller: it suspects nobody.
func (w *Watch) Rest() {
	clear(w.suspects)
	w.closings, w.silentAt = nil, time.Time{}
}

// Closed notes that a broker closed its last session without a goodbye, at the time given. Times do not go back.
func (w *Watch) Closed(img *fsm.Image, live *Liveness, broker int32, brokerEpoch int64, at time.Time) {
	if b, ok := img.Broker(broker); !ok || b.Fenced || b.Epoch != brokerEpoch {
		return
	}
	s := &Suspicion{BrokerID: broker, BrokerEpoch: brokerEpoch, Since: at, due: at.Add(closingSettles)}
	w.suspect(img, live, closing{Suspicion: s, at: at})
}

// suspect applies the herd rule.
func (w *Watch) suspect(img *fsm.Image, live *Liveness, news closing) {
	w.closings = slices.DeleteFunc(w.closings, func(c closing) bool {
		return c.BrokerID == news.BrokerID || news.at.Sub(c.at) > herdWindow || live.clears(c.Suspicion)
	})
	w.closings = append(w.closings, news)
	if len(w.closings) <= w.herdLimit(img) {
		w.suspects[news.BrokerID] = news.Suspicion
		return
	}
	w.herds++
	for _, c := range w.closings {
		delete(w.suspects, c.BrokerID) // an answer that is on its way means nothing any more
	}
}

// herdLimit is how many brokers may close within the window. Those that were fenced meanwhile count as brokers, too.
func (w *Watch) herdLimit(img *fsm.Image) int {
	brokers := 0
	for b := range img.Brokers() {
		if !b.Fenced || slices.ContainsFunc(w.closings, func(c closing) bool { return c.BrokerID == b.ID }) {
			brokers++
		}
	}
	return max(1, brokers/3)
}

// Next returns the probes to begin now. Each of them must be answered.
func (w *Watch) Next(img *fsm.Image, live *Liveness, now time.Time) []Probe {
	w.suspectSilent(img, live, now)
	var probes []Probe
	for _, id := range slices.Sorted(maps.Keys(w.suspects)) {
		s := w.suspects[id]
		if _, busy := w.inFlight[id]; busy || now.Before(s.due) || len(w.inFlight) >= maxProbes {
			continue
		}
		b, ok := img.Broker(id)
		if !ok || b.Epoch != s.BrokerEpoch || live.clears(s) {
			delete(w.suspects, id)
			continue
		}
		if p, ok := w.begin(b, s); ok {
			probes = append(probes, p)
		} else {
			delete(w.suspects, id)
		}
	}
	return append(probes, w.tryNext(img)...)
}

// tryNext begins to connect to brokers that were not tried yet.
func (w *Watch) tryNext(img *fsm.Image) []Probe {
	var probes []Probe
	w.untried = slices.DeleteFunc(w.untried, func(id int32) bool {
		if _, busy := w.inFlight[id]; busy || len(w.inFlight) >= maxProbes {
			return false
		}
		if b, ok := img.Broker(id); ok {
			if p, ok := w.begin(b, nil); ok {
				probes = append(probes, p)
			}
		}
		return true
	})
	return probes
}

// suspectSilent suspects the brokers that a new active controller has not heard.
func (w *Watch) suspectSilent(img *fsm.Image, live *Liveness, now time.Time) {
	if w.silentAt.IsZero() || now.Before(w.silentAt) {
		return
	}
	w.silentAt = time.Time{}
	for b := range img.Brokers() {
		s := &Suspicion{BrokerID: b.ID, BrokerEpoch: b.Epoch, Since: w.claimedAt, AfterClaim: true, due: now}
		if !b.Fenced && !live.clears(s) {
			w.suspect(img, live, closing{Suspicion: s, at: now})
		}
	}
}

// begin puts a probe in flight, if there is something to connect to.
func (w *Watch) begin(b *fsm.Broker, s *Suspicion) (Probe, bool) {
	address, ok := probedAddress(b)
	if !ok {
		return Probe{}, false
	}
	w.nextID++
	p := Probe{ID: w.nextID, BrokerID: b.ID, BrokerEpoch: b.Epoch, Address: address, registered: address, suspicion: s}
	if r := w.reached[b.ID]; r.remote != "" && r.brokerEpoch == b.Epoch && r.registered == address {
		p.Address = r.remote
	}
	w.inFlight[b.ID] = p
	return p, true
}

// Answered takes the result of a probe; remote is the address that accepted. It returns a refusal that proves the
// broker's process to be gone: the suspicion still stands, and the same address accepted before.
func (w *Watch) Answered(broker int32, id uint64, result ProbeResult, remote string) (RefusedProbe, bool) {
	p, ok := w.inFlight[broker]
	if !ok || p.ID != id {
		return RefusedProbe{}, false
	}
	delete(w.inFlight, broker)
	before := w.reached[broker]
	known := before.remote != "" && before.remote == p.Address && before.brokerEpoch == p.BrokerEpoch && before.registered == p.registered
	if result == ProbeAccepted || !known {
		if result != ProbeAccepted {
			remote = ""
		}
		w.reached[broker] = reach{brokerEpoch: p.BrokerEpoch, registered: p.registered, remote: remote}
	}
	if p.suspicion == nil || w.suspects[broker] != p.suspicion {
		return RefusedProbe{}, false
	}
	delete(w.suspects, broker)
	return RefusedProbe{Suspicion: *p.suspicion, Address: p.Address}, known && result == ProbeRefused
}

// NextDue is when Next has something new to say without any news, the zero time if it does not.
func (w *Watch) NextDue() time.Time {
	if len(w.inFlight) >= maxProbes {
		return w.silentAt
	}
	due := w.silentAt
	for id, s := range w.suspects {
		if _, busy := w.inFlight[id]; !busy && (due.IsZero() || s.due.Before(due)) {
			due = s.due
		}
	}
	return due
}

// byBroker orders refusals.
func byBroker(a, b RefusedProbe) int { return cmp.Compare(a.BrokerID, b.BrokerID) }
