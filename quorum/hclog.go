package quorum

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// repeatInterval is the least time between two lines that say the same.
const repeatInterval = 10 * time.Second

// quietly gives a logger for hashicorp's libraries: their routine is at DEBUG, and what they repeat (several times a
// second while a peer is down) is logged at most every 10 s.
func quietly(logger hclog.Logger) hclog.Logger {
	return &quietLogger{Logger: logger, repeats: &repeats{}}
}

// routine are messages that hashicorp/raft logs as errors and that every stop of a process or a peer brings.
var routine = map[string]bool{
	"failed to decode incoming command": true,
	"failed to flush response":          true,
}

// quietLogger is what Raft logs to.
type quietLogger struct {
	hclog.Logger
	repeats *repeats
}

// repeats remembers when each message was logged last. Messages are constants of the library's source, so there is a
// bounded number of them.
type repeats struct {
	mu   sync.Mutex
	last map[string]quiet // by message; guarded by mu
}

type quiet struct {
	until      time.Time
	suppressed int
}

// due tells whether the message is to be logged now, and how often it was not since the last time.
func (r *repeats) due(message string) (suppressed int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = make(map[string]quiet)
	}
	q, now := r.last[message], time.Now()
	if now.Before(q.until) {
		q.suppressed++
		r.last[message] = q
		return 0, false
	}
	r.last[message] = quiet{until: now.Add(repeatInterval)}
	return q.suppressed, true
}

// Info lines of Raft are routine; what matters of them this package logs itself.
func (l *quietLogger) Info(message string, args ...any) { l.Logger.Debug(message, args...) }

// Warn logs a repeated message rarely.
func (l *quietLogger) Warn(message string, args ...any) { l.rarely(l.Logger.Warn, message, args) }

// Error logs a repeated message rarely, and a routine one at DEBUG.
func (l *quietLogger) Error(message string, args ...any) {
	if routine[message] {
		l.Logger.Debug(message, args...)
		return
	}
	l.rarely(l.Logger.Error, message, args)
}

func (l *quietLogger) rarely(log func(string, ...any), message string, args []any) {
	suppressed, ok := l.repeats.due(message)
	if !ok {
		return
	}
	if suppressed > 0 {
		args = append(append([]any(nil), args...), "not-logged-before", suppressed)
	}
	log(message, args...)
}

// Log sorts a line by its level.
func (l *quietLogger) Log(level hclog.Level, message string, args ...any) {
	switch level {
	case hclog.Info:
		l.Info(message, args...)
	case hclog.Warn:
		l.Warn(message, args...)
	case hclog.Error:
		l.Error(message, args...)
	case hclog.NoLevel, hclog.Trace, hclog.Debug, hclog.Off:
		l.Logger.Log(level, message, args...)
	}
}

// With keeps the logger quiet.
func (l *quietLogger) With(args ...any) hclog.Logger {
	return &quietLogger{Logger: l.Logger.With(args...), repeats: l.repeats}
}

// Named keeps the logger quiet.
func (l *quietLogger) Named(name string) hclog.Logger {
	return &quietLogger{Logger: l.Logger.Named(name), repeats: l.repeats}
}
