package explain

import (
	"fmt"
	"strings"

	"github.com/skiffmq/skiff/fsm"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// voidEpoch is the broker epoch of a registration that a restore made void.
const voidEpoch = -1

// Broker explains a broker's registration.
func Broker(f Facts, id int32) Explanation {
	e := Explanation{Subject: fmt.Sprintf("broker %d", id), Healthy: true, Because: []string{}, Needs: []string{}}
	e.Story = story(f.Fencings, "broker", fmt.Sprint(id))
	b, ok := f.Image.Broker(id)
	if !ok {
		e.State = "not registered"
		e.because("no broker has registered with this id, or it was unregistered")
		e.needs("start brokerd with node.id=%d", id)
		return e
	}
	e.State = fmt.Sprintf("%s, broker epoch %d, %d replicas, leads %d", stateOf(b), b.Epoch, f.Image.NumReplicasOf(id), f.Image.NumLedBy(id))
	switch {
	case b.Epoch == voidEpoch:
		e.because("the metadata was restored, and the broker has not registered with the new lineage yet")
		e.needs("the broker must reach the quorum; one of another lineage ends with exit code 78 and says so")
	case b.Fenced:
		e.fenced(f, b)
	case b.InControlledShutdown:
		e.because("it asked to shut down, and gives up its leaderships first")
	}
	return e
}

func stateOf(b *fsm.Broker) string {
	switch {
	case b.Fenced:
		return "fenced"
	case b.InControlledShutdown:
		return "in controlled shutdown"
	}
	return "active"
}

// fenced says why, and what an unfencing waits for (KIP-631: a broker is unfenced when it has caught up with the metadata
// and asks for it).
func (e *Explanation) fenced(f Facts, b *fsm.Broker) {
	if last := lastFencing(f.Fencings, b.ID); last != nil {
		e.because("it was fenced at %d (%s): %s", last.GetMetadataOffset(), clock(last.GetTimeMs()), orUnknown(reason(last)))
	} else if registered := lastChange(f.Fencings, b.ID, "registered"); registered != nil {
		e.because("it registered at %d (%s) and has not been unfenced since", registered.GetMetadataOffset(), clock(registered.GetTimeMs()))
	} else {
		e.because("when and why it was fenced is not in the history any more")
	}
	e.needs("the broker must run, reach the quorum and send heartbeats with broker epoch %d", b.Epoch)
	e.needs("it must have applied the metadata up to offset %d; it is unfenced with the next heartbeat after that", b.Epoch)
}

func orUnknown(text string) string {
	if text == "" {
		return "no reason is recorded"
	}
	return text
}

// lastFencing is the newest event in which the broker was fenced, if no registration came after it.
func lastFencing(events []*quorumv1.HistoryEvent, id int32) *quorumv1.HistoryEvent {
	fencing := lastChange(events, id, "was fenced")
	registered := lastChange(events, id, "registered")
	if fencing == nil || registered != nil && registered.GetMetadataOffset() > fencing.GetMetadataOffset() {
		return nil
	}
	return fencing
}

// lastChange is the newest event with a change of the broker whose text has the word.
func lastChange(events []*quorumv1.HistoryEvent, id int32, word string) *quorumv1.HistoryEvent {
	for i := len(events) - 1; i >= 0; i-- {
		for _, c := range events[i].GetChanges() {
			if c.GetKind() == "broker" && c.GetSubject() == fmt.Sprint(id) && strings.Contains(c.GetText(), word) {
				return events[i]
			}
		}
	}
	return nil
}
