package transport

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// strangerLog writes at most one line per kind and interval, so that a misdirected client that retries cannot fill
// the log. Its memory is bounded by the number of kinds and verdicts.
type strangerLog struct {
	mu   sync.Mutex
	last map[any]quiet // by kind or verdict; guarded by mu
}

// quiet is what happened since the last line.
type quiet struct {
	until      time.Time
	suppressed int
}

func (s *strangerLog) log(logger hclog.Logger, k kind, line string, conn net.Conn) {
	if suppressed, ok := s.due(k); ok {
		logger.Warn(line, "remote", conn.RemoteAddr().String(), "not-logged-before", suppressed)
	}
}

func (s *strangerLog) logRefusal(logger hclog.Logger, refused *RefusedError, conn net.Conn) {
	if suppressed, ok := s.due(refused.Verdict); ok {
		logger.Warn("refused a Raft connection", "from", refused.Peer.String(), "remote", conn.RemoteAddr(),
			"verdict", refused.Verdict.String(), "reason", refused.Reason, "not-logged-before", suppressed)
	}
}

// due tells whether a line of that key is to be written now, and how many were not written before it.
func (s *strangerLog) due(key any) (suppressed int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = make(map[any]quiet)
	}
	q, now := s.last[key], time.Now()
	if now.Before(q.until) {
		q.suppressed++
		s.last[key] = q
		return 0, false
	}
	s.last[key] = quiet{until: now.Add(strangerLogInterval)}
	return q.suppressed, true
}
