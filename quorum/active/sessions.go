package active

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// Sessions notes when brokers were heard. A heartbeat is stamped when it arrives, by the goroutine that received it,
// and waits for nothing: neither a decision nor the loop holds the lock for longer than a map takes.
type Sessions struct {
	now func() time.Time
	// wake has the Core take what was noted, at once.
	wake func()

	// mu guards news and closings.
	mu sync.Mutex
	// news holds the last contact of each broker since the Core last took them. Invariant: the callers put in registered
	// brokers only, so it has no more keys than there are brokers.
	news map[int32]Contact
	// closings holds the last closing of each broker since then. The same invariant.
	closings map[int32]Closing
}

func newSessions(now func() time.Time, wake func()) *Sessions {
	return &Sessions{now: now, wake: wake, news: map[int32]Contact{}, closings: map[int32]Closing{}}
}

// Touch notes that a registered broker was heard now, in this broker epoch, with this metadata offset applied.
func (s *Sessions) Touch(id int32, brokerEpoch, metadataOffset int64) {
	at := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.news[id]; ok && old.BrokerEpoch > brokerEpoch {
		return
	}
	s.news[id] = Contact{BrokerID: id, BrokerEpoch: brokerEpoch, MetadataOffset: metadataOffset, At: at}
}

// Closed notes that a registered broker, in this broker epoch, has just closed its last session without a goodbye.
func (s *Sessions) Closed(id int32, brokerEpoch int64) {
	at := s.now()
	s.mu.Lock()
	s.closings[id] = Closing{BrokerID: id, BrokerEpoch: brokerEpoch, At: at}
	s.mu.Unlock()
	s.wake()
}

// drain returns what was noted since the last call: contacts by broker id, closings by time.
func (s *Sessions) drain() ([]Contact, []Closing) {
	s.mu.Lock()
	news, closed := s.news, s.closings
	s.news, s.closings = make(map[int32]Contact, len(news)), map[int32]Closing{}
	s.mu.Unlock()
	contacts := make([]Contact, 0, len(news))
	for _, c := range news {
		contacts = append(contacts, c)
	}
	slices.SortFunc(contacts, func(a, b Contact) int { return cmp.Compare(a.BrokerID, b.BrokerID) })
	closings := slices.SortedFunc(maps.Values(closed), func(a, b Closing) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.BrokerID, b.BrokerID))
	})
	return contacts, closings
}
