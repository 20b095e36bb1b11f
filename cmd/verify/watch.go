package verify

import "fmt"

// The kinds of violation that somebody who watches all nodes sees.
const (
	// WentBack: an epoch, a lineage or an offset fell where it may only grow (I6, I9).
	WentBack Kind = "went back"
	// Differs: two nodes hold different images at one (lineage, metadata offset) (I1).
	Differs Kind = "differs"
	// TwoLeaders: a partition had two leaders in one leader epoch (I9, I14).
	TwoLeaders Kind = "two leaders"
)

// Sighting is what one node said of itself at one time.
type Sighting struct {
	// Node and PID name the process: its image may only grow, that of the process after it begins at what its disk holds.
	Node string
	PID  int
	// Lineage is the number and uuid of the image's lineage.
	Lineage     uint64
	LineageUUID string
	// Offset is the metadata offset of the image, ControllerEpoch its controller epoch.
	Offset, ControllerEpoch int64
	// Digest of the image.
	Digest string
	// BrokerEpoch of a broker's registration, -1 for others and before it.
	BrokerEpoch int64
}

// Leadership is what one broker said of a partition at one time.
type Leadership struct {
	// Broker and PID name the process.
	Broker string
	PID    int
	// Topic, Partition, LeaderEpoch and Leader are what it said.
	Topic               TopicID
	Partition           int32
	LeaderEpoch, Leader int32
}

// Watch judges what nodes say of themselves, sighting by sighting. It is not safe for concurrent use.
type Watch struct {
	violations []Violation
	images     map[process]Sighting
	brokers    map[string]int64
	digests    map[version]Sighting
	epochs     map[process]map[partitionID]int32
	leaders    map[leaderTerm]Leadership
	sightings  int
}

type process struct {
	node string
	pid  int
}

type version struct {
	lineage string
	offset  int64
}

type partitionID struct {
	topic     TopicID
	partition int32
}

type leaderTerm struct {
	partitionID
	epoch int32
}

// NewWatch returns a Watch that has seen nothing.
func NewWatch() *Watch {
	return &Watch{
		images: map[process]Sighting{}, brokers: map[string]int64{}, digests: map[version]Sighting{},
		epochs: map[process]map[partitionID]int32{}, leaders: map[leaderTerm]Leadership{},
	}
}

// Sightings is how many it was given.
func (w *Watch) Sightings() int { return w.sightings }

// Violations are what it has found.
func (w *Watch) Violations() []Violation { return w.violations }

func (w *Watch) found(kind Kind, format string, args ...any) {
	w.violations = append(w.violations, Violation{kind, fmt.Sprintf(format, args...)})
}

// See judges a sighting.
func (w *Watch) See(s Sighting) {
	w.sightings++
	p := process{s.Node, s.PID}
	if before, seen := w.images[p]; seen {
		w.seeGrowth(before, s)
	}
	w.images[p] = s
	if s.BrokerEpoch >= 0 {
		if before := w.brokers[s.Node]; s.BrokerEpoch < before {
			w.found(WentBack, "%s: broker epoch %d after %d", s.Node, s.BrokerEpoch, before)
		}
		w.brokers[s.Node] = s.BrokerEpoch
	}
	if s.Digest == "" {
		return
	}
	v := version{s.LineageUUID, s.Offset}
	if before, seen := w.digests[v]; seen && before.Digest != s.Digest {
		w.found(Differs, "at metadata offset %d of lineage %d %s has digest %s, %s has %s", s.Offset, s.Lineage, before.Node, before.Digest, s.Node, s.Digest)
	}
	w.digests[v] = s
}

// seeGrowth compares two sightings of one process.
func (w *Watch) seeGrowth(before, now Sighting) {
	for _, x := range []struct {
		what        string
		before, now int64
	}{
		{"lineage", int64(before.Lineage), int64(now.Lineage)},
		{"metadata offset", before.Offset, now.Offset},
		{"controller epoch", before.ControllerEpoch, now.ControllerEpoch},
	} {
		if x.now < x.before {
			w.found(WentBack, "%s (pid %d): %s %d after %d", now.Node, now.PID, x.what, x.now, x.before)
		}
	}
}

// SeeLeader judges what a broker says of a partition.
func (w *Watch) SeeLeader(l Leadership) {
	w.sightings++
	p, id := process{l.Broker, l.PID}, partitionID{l.Topic, l.Partition}
	if w.epochs[p] == nil {
		w.epochs[p] = map[partitionID]int32{}
	}
	if before := w.epochs[p][id]; l.LeaderEpoch < before {
		w.found(WentBack, "%s: partition %d: leader epoch %d after %d", l.Broker, l.Partition, l.LeaderEpoch, before)
	}
	w.epochs[p][id] = l.LeaderEpoch
	if l.Leader < 0 { // a leader that a broker does not know how to reach is told as none
		return
	}
	term := leaderTerm{id, l.LeaderEpoch}
	if before, seen := w.leaders[term]; seen && before.Leader != l.Leader {
		w.found(TwoLeaders, "partition %d in leader epoch %d: %s says %d, %s says %d", l.Partition, l.LeaderEpoch, before.Broker, before.Leader, l.Broker, l.Leader)
	}
	w.leaders[term] = l
}
