package verify

import (
	"slices"
	"testing"
)

// sighting is an honest one, of which a case changes something.
func sighting(doctor func(*Sighting)) Sighting {
	s := Sighting{Node: "b1", PID: 10, Lineage: 2, LineageUUID: "u", Offset: 100, ControllerEpoch: 7, Digest: "d100", BrokerEpoch: 50}
	if doctor != nil {
		doctor(&s)
	}
	return s
}

func TestWatchFindsEachDoctoredSighting(t *testing.T) {
	for name, c := range map[string]struct {
		doctor func(*Sighting)
		want   []Kind
	}{
		"the same again":                  {nil, nil},
		"growth":                          {func(s *Sighting) { s.Offset, s.Digest, s.ControllerEpoch, s.BrokerEpoch = 101, "d101", 8, 101 }, nil},
		"a new process reads its disk":    {func(s *Sighting) { s.PID, s.Offset, s.Digest, s.ControllerEpoch, s.BrokerEpoch = 11, 40, "d40", 3, -1 }, nil},
		"another node with the same":      {func(s *Sighting) { s.Node, s.BrokerEpoch = "c1", -1 }, nil},
		"a metadata offset fell":          {func(s *Sighting) { s.Offset, s.Digest = 99, "d99" }, []Kind{WentBack}},
		"a controller epoch fell":         {func(s *Sighting) { s.ControllerEpoch = 6 }, []Kind{WentBack}},
		"a lineage fell":                  {func(s *Sighting) { s.Lineage, s.LineageUUID = 1, "t" }, []Kind{WentBack}},
		"a broker epoch fell":             {func(s *Sighting) { s.PID, s.BrokerEpoch = 11, 49 }, []Kind{WentBack}},
		"another node with another image": {func(s *Sighting) { s.Node, s.Digest = "c1", "x" }, []Kind{Differs}},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWatch()
			w.See(sighting(nil))
			w.See(sighting(c.doctor))
			if got := kinds(w.Violations()); !slices.Equal(got, c.want) {
				t.Fatalf("violations %v, want %v", w.Violations(), c.want)
			}
		})
	}
}

func TestWatchFindsEachDoctoredLeadership(t *testing.T) {
	honest := Leadership{Broker: "b1", PID: 10, Topic: TopicID{1}, Partition: 3, LeaderEpoch: 5, Leader: 2}
	for name, c := range map[string]struct {
		doctor func(*Leadership)
		want   []Kind
	}{
		"the same again":           {func(*Leadership) {}, nil},
		"the next leader":          {func(l *Leadership) { l.LeaderEpoch, l.Leader = 6, 1 }, nil},
		"a broker that is behind":  {func(l *Leadership) { l.Broker, l.LeaderEpoch, l.Leader = "b2", 4, 1 }, nil},
		"a leader out of reach":    {func(l *Leadership) { l.Broker, l.Leader = "b2", -1 }, nil},
		"another topic":            {func(l *Leadership) { l.Topic, l.Leader, l.LeaderEpoch = TopicID{2}, 1, 0 }, nil},
		"a leader epoch fell":      {func(l *Leadership) { l.LeaderEpoch, l.Leader = 4, 1 }, []Kind{WentBack}},
		"two leaders in one epoch": {func(l *Leadership) { l.Broker, l.Leader = "b2", 1 }, []Kind{TwoLeaders}},
		"two leaders, told by one": {func(l *Leadership) { l.Leader = 3 }, []Kind{TwoLeaders}},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWatch()
			w.SeeLeader(honest)
			l := honest
			c.doctor(&l)
			w.SeeLeader(l)
			if got := kinds(w.Violations()); !slices.Equal(got, c.want) {
				t.Fatalf("violations %v, want %v", w.Violations(), c.want)
			}
		})
	}
}
