package kafka

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Stats is what the server counts of itself.
type Stats struct {
	// Connections that are open.
	Connections int
	// ConnectionsRefused because too many were open.
	ConnectionsRefused int64
	// ConnectionsBroken were closed by us because of what the peer sent.
	ConnectionsBroken int64
	// InFlightBytes of large requests, which Limits.InFlightBytesMax bounds.
	InFlightBytes int64
	// APIs in the order of the table.
	APIs []APIStats
}

// APIStats is what the server counts of one API.
type APIStats struct {
	// Name as Kafka gives it.
	Name string
	// Requests that were handled.
	Requests int64
	// Time that handling took, what was parked included, writing excluded.
	Time time.Duration
}

// counters are the sources of Stats.
type counters struct {
	refused, broken atomic.Int64
	// apis are side by side with Server.apis.
	apis []apiCounters
}

// apiCounters are the sources of APIStats.
type apiCounters struct {
	requests, nanoseconds atomic.Int64
}

// observe counts one request.
func (c *apiCounters) observe(took time.Duration) {
	c.requests.Add(1)
	c.nanoseconds.Add(int64(took))
}

// Stats returns what the server has counted. It may be called at any time.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	open := len(s.conns)
	s.mu.Unlock()
	stats := Stats{
		Connections:        open,
		ConnectionsRefused: s.counters.refused.Load(),
		ConnectionsBroken:  s.counters.broken.Load(),
		InFlightBytes:      s.limits.InFlightBytesMax - s.inFlight.room(),
	}
	for i := range s.apis {
		c := &s.counters.apis[i]
		stats.APIs = append(stats.APIs, APIStats{
			Name: kmsg.NameForKey(s.apis[i].key), Requests: c.requests.Load(), Time: time.Duration(c.nanoseconds.Load()),
		})
	}
	return stats
}
