package active

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// Limits of the loop. Each queue and each entry has one (I20).
const (
	// MaxQueuedOps is the number of requests that may wait to be decided; the next one is refused with OVERLOADED.
	MaxQueuedOps = 4096
	// MaxQueuedBytes bounds the same queue by the encoded size of its requests.
	MaxQueuedBytes = 64 << 20
	// MaxInFlightBytes bounds the entries that are proposed and not yet answered.
	MaxInFlightBytes = 16 << 20
	// MaxOpTime is the longest that a request may wait for its answer, whatever its caller allows.
	MaxOpTime = 60 * time.Second
	// DefaultProposeTimeout is how long an entry may take before its outcome counts as unknown.
	DefaultProposeTimeout = 10 * time.Second

	// maxRemembered is the number of answered requests of the open claim that a retry can be matched with.
	maxRemembered = 4096
	// envelopeOverhead is kept free in an entry for the fields of the envelope around its batches.
	envelopeOverhead = 1024
	// batchOverhead is the most that an envelope adds to one batch: a tag and a length.
	batchOverhead = 8
	// minTick bounds how often the duties run, however short the session timeout is.
	minTick = 10 * time.Millisecond
	// ticksPerSession is how often the duties run in one session timeout, as in Kafka.
	ticksPerSession = 8
	// claimBackoffMin and claimBackoffMax bound the pause between claims that fail.
	claimBackoffMin = 20 * time.Millisecond
	claimBackoffMax = time.Second
)

// Errors of a [Log].
var (
	// ErrNotAppended is answered when the entry is certainly not in the log and never will be.
	ErrNotAppended = errors.New("entry was not appended")
	// ErrUnknown is answered when it cannot be told whether the entry is, or will be, in the log.
	ErrUnknown = errors.New("outcome of the entry is unknown")
	// ErrBroken is returned by Loop.Run when an entry passed the guard and did not fold (I3): the node that leads must
	// stop, and let another one lead.
	ErrBroken = errors.New("a committed entry does not fold")
)

// Log takes entries and says what became of them.
type Log interface {
	// Propose hands an entry to the log and returns at once. Exactly one Answer arrives, at the latest when timeout has
	// passed or the log is shut down. Entries reach the log in the order of the calls, which one goroutine makes.
	Propose(entry []byte, timeout time.Duration) <-chan Answer
}

// Answer says what became of a proposed entry.
type Answer struct {
	// Result is what the fold on this node made of the entry. It has no meaning if Err is set.
	Result fsm.Result
	// Err is ErrNotAppended or ErrUnknown, wrapped or not; any other error counts as ErrUnknown.
	Err error
}

// Config is what a Loop needs to know.
type Config struct {
	// NodeID, DirectoryID and IncarnationID stand in this node's claims.
	NodeID        int32
	DirectoryID   fsm.UUID
	IncarnationID fsm.UUID
	// Depth is the number of entries that may be in flight; 0 means 1.
	Depth int
	// Log takes the entries. The Core does not use it.
	Log Log
	// Image returns the image that is applied on this node, nil if there is none yet. A claim takes the cluster id and
	// the lineage from it; nothing is ever decided on it.
	Image func() *fsm.Image
	// Env returns a fresh environment of a decision: clock, dice, limits and defaults. The loop sets cause, request id
	// and liveness itself.
	Env func() *controller.Env
	// Registration describes this node in the metadata; it is recorded after each claim, if the image says something
	// else. Nil leaves it out.
	Registration *metadatav1.ControllerRegistered
	// SessionTimeout is how long an unfenced broker may be silent.
	SessionTimeout time.Duration
	// ElectInterval is the pause between two runs of preferred and of unclean leader elections; 0 means 5 minutes, as
	// leader.imbalance.check.interval.seconds.
	ElectInterval time.Duration
	// ProposeTimeout is given to the Log with each entry; 0 means DefaultProposeTimeout.
	ProposeTimeout time.Duration
	// Dial connects to a broker's listener for a probe. Nil probes nobody: then sessions decide alone. The Core does not
	// use it.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Logger is told of claims and of faults; nil discards.
	Logger hclog.Logger
}

// withDefaults returns c with what was left out filled in.
func (c Config) withDefaults() Config {
	c.Depth = max(c.Depth, 1)
	if c.ProposeTimeout <= 0 {
		c.ProposeTimeout = DefaultProposeTimeout
	}
	if c.SessionTimeout <= 0 {
		c.SessionTimeout = 9 * time.Second
	}
	if c.ElectInterval <= 0 {
		c.ElectInterval = 5 * time.Minute
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// tick is the time between two rounds of duties.
func (c Config) tick() time.Duration {
	return max(c.SessionTimeout/ticksPerSession, minTick)
}
