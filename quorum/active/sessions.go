package active

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Sessions notes when brokers were heard. A heartbeat is stamped when it arrives, by the goroutine that received it,
// and waits for nothing: neither a decision nor the loop holds the lock for longer than a map takes.
type Sessions struct {
	now func() time.Time

	// mu guards news.
	mu sync.Mutex
	// news holds the last contact of each broker since the Core last took them. Invariant: the callers put in registered
	// brokers only, so it has no more keys than there are brokers.
	news map[int32]Contact
}

func newSessions(now func() time.Time) *Sessions {
	return &Sessions{now: now, news: map[int32]Contact{}}
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

// drain returns what was noted since the last call, by broker id.
func (s *Sessions) drain() []Contact {
	s.mu.Lock()
	news := s.news
	s.news = make(map[int32]Contact, len(news))
	s.mu.Unlock()
	contacts := make([]Contact, 0, len(news))
	for _, c := range news {
		contacts = append(contacts, c)
	}
	slices.SortFunc(contacts, func(a, b Contact) int { return cmp.Compare(a.BrokerID, b.BrokerID) })
	return contacts
}
