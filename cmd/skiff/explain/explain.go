// Package explain says in words why a partition or a broker is in the state that it is in, from an image and from what the
// quorum's history has on it. It asks nobody and is pure.
package explain

import (
	"fmt"
	"time"

	"github.com/skiffmq/skiff/fsm"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// Explanation is what is so, why, and what would change it.
type Explanation struct {
	// Subject is what is explained.
	Subject string `json:"subject"`
	// State in a sentence.
	State string `json:"state"`
	// Healthy says that there is nothing to be explained.
	Healthy bool `json:"healthy"`
	// Because are the causes, most important first.
	Because []string `json:"because"`
	// Needs is what must happen before the state gets better, and who can make it happen.
	Needs []string `json:"needs"`
	// Story are the decisions that led here, oldest first.
	Story []string `json:"story"`
}

func (e *Explanation) because(format string, args ...any) {
	e.Healthy = false
	e.Because = append(e.Because, fmt.Sprintf(format, args...))
}

func (e *Explanation) needs(format string, args ...any) {
	e.Needs = append(e.Needs, fmt.Sprintf(format, args...))
}

// Facts are what an explanation is made of.
type Facts struct {
	// Image is the metadata at the moment that is explained.
	Image *fsm.Image
	// Events of the history that concern the subject, oldest first, up to that moment.
	Events []*quorumv1.HistoryEvent
	// Fencings are the events of brokers' registrations, oldest first, up to that moment.
	Fencings []*quorumv1.HistoryEvent
}

// tell words an event in one line.
func tell(e *quorumv1.HistoryEvent, change *quorumv1.HistoryChange) string {
	line := fmt.Sprintf("%s at %d, controller epoch %d: %s", clock(e.GetTimeMs()), e.GetMetadataOffset(), e.GetControllerEpoch(), change.GetText())
	if why := reason(e); why != "" {
		line += ", because " + why
	}
	return line
}

// reason of an event: the controller's, or who asked for it.
func reason(e *quorumv1.HistoryEvent) string {
	if text := e.GetReason().GetText(); text != "" {
		return text
	}
	c := e.GetCause()
	switch {
	case c.GetRequestKind() == "":
		return ""
	case c.GetPrincipal() != "" && c.GetClientAddress() != "":
		return fmt.Sprintf("%s asked for %s from %s", c.GetPrincipal(), c.GetRequestKind(), c.GetClientAddress())
	case c.GetPrincipal() != "":
		return fmt.Sprintf("%s asked for %s", c.GetPrincipal(), c.GetRequestKind())
	}
	return "of a request " + c.GetRequestKind()
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// story are the changes of one subject.
func story(events []*quorumv1.HistoryEvent, kind, subject string) []string {
	lines := []string{}
	for _, e := range events {
		for _, c := range e.GetChanges() {
			if c.GetKind() == kind && c.GetSubject() == subject {
				lines = append(lines, tell(e, c))
			}
		}
	}
	return lines
}

// Topic tells the events of a topic as a whole.
func Topic(events []*quorumv1.HistoryEvent, name string) []string {
	return story(events, "topic", name)
}
