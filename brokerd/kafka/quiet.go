package kafka

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// quietPeriod is how often a line of one kind may appear.
const quietPeriod = time.Second

// quiet logs what a peer can provoke as often as it likes: each kind of line at most once per quietPeriod, with the number
// of lines that were left out since the last one.
type quiet struct {
	logger hclog.Logger

	// mu guards the following.
	mu sync.Mutex
	// kinds by the text of the line; the texts are constants, so their number is bounded.
	kinds map[string]*quietKind
}

// quietKind is what quiet remembers of one kind of line.
type quietKind struct {
	last    time.Time
	omitted int
}

// newQuiet returns a quiet that writes to logger.
func newQuiet(logger hclog.Logger) *quiet {
	return &quiet{logger: logger, kinds: map[string]*quietKind{}}
}

// warn logs text, which must be a constant, with args, or counts it.
func (q *quiet) warn(text string, args ...any) {
	if omitted, now := q.admit(text, time.Now()); now {
		if omitted > 0 {
			args = append(args, "omitted", omitted)
		}
		q.logger.Warn(text, args...)
	}
}

// admit tells whether a line of this kind may appear now, and how many did not since the last one.
func (q *quiet) admit(text string, now time.Time) (omitted int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kind := q.kinds[text]
	if kind == nil {
		kind = &quietKind{}
		q.kinds[text] = kind
	}
	if !kind.last.IsZero() && now.Sub(kind.last) < quietPeriod {
		kind.omitted++
		return 0, false
	}
	omitted, kind.omitted, kind.last = kind.omitted, 0, now
	return omitted, true
}
