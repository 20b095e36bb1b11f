package active

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// Event is something that happened to the Core. The kinds are in this file.
type Event interface{ event() }

// LeadershipHint says that this node believes to lead, or not to lead, in a Raft term. It may be late or wrong: only the
// answer to a claim proves anything.
type LeadershipHint struct {
	Leading bool
	Term    uint64
}

// Submitted brings a request.
type Submitted struct{ Op *Op }

// ProposalAnswered brings the answer to the entry with this id.
type ProposalAnswered struct {
	ID     uint64
	Answer Answer
}

// ClaimAnswered brings the answer to the claim with this id.
type ClaimAnswered struct {
	ID     uint64
	Answer Answer
}

// Contacts brings the broker heartbeats that arrived since the last step, each with the time of its arrival.
type Contacts struct{ Contacts []Contact }

// Contact is the arrival of a broker's heartbeat.
type Contact struct {
	BrokerID       int32
	BrokerEpoch    int64
	MetadataOffset int64
	At             time.Time
}

// Closings brings the sessions that brokers closed without a goodbye since the last step.
type Closings struct{ Closings []Closing }

// Closing is the end of a broker's last session, at the time at which it was noticed.
type Closing struct {
	BrokerID    int32
	BrokerEpoch int64
	At          time.Time
}

// BrokersChanged says that brokers may have been unfenced, or registered other listeners, in the image of this node.
type BrokersChanged struct{}

// ProbeAnswered brings the result of a probe.
type ProbeAnswered struct {
	ID       uint64
	BrokerID int32
	Result   controller.ProbeResult
	// Remote is the host:port that accepted.
	Remote string
}

// Tick says that the time given by Core.NextTick has come.
type Tick struct{}

// Restored says that the image of this node was replaced by a snapshot.
type Restored struct{}

// Observed says what the fold on this node made of an entry of the log.
type Observed struct {
	// Applied is true if the entry took effect, false if it was dropped.
	Applied bool
	// Claim is true for the entry of a ControllerClaimed.
	Claim bool
	// ClaimOffset is the claim that the entry was decided in; for a claim it is the offset of that claim itself.
	ClaimOffset int64
	// FirstOffset is the metadata offset that the entry asked for.
	FirstOffset int64
	// Nonce of a claim.
	Nonce fsm.UUID
}

// OpDeadline says that the caller of a request does not wait any longer.
type OpDeadline struct{ Op *Op }

func (LeadershipHint) event()   {}
func (Submitted) event()        {}
func (ProposalAnswered) event() {}
func (ClaimAnswered) event()    {}
func (Contacts) event()         {}
func (Closings) event()         {}
func (BrokersChanged) event()   {}
func (ProbeAnswered) event()    {}
func (Tick) event()             {}
func (Restored) event()         {}
func (Observed) event()         {}
func (OpDeadline) event()       {}

// NewObserved describes an entry as the fold left it. Result must be Applied or Dropped.
func NewObserved(res fsm.Result, env *metadatav1.Envelope) Observed {
	if foreign(res) {
		return Observed{ClaimOffset: -1, FirstOffset: -1}
	}
	o := Observed{
		Applied:     res.Outcome == fsm.Applied,
		ClaimOffset: env.GetClaimOffset(),
		FirstOffset: env.GetFirstMetadataOffset(),
	}
	if claim := claimRecord(env); claim != nil {
		o.Claim = true
		o.ClaimOffset, o.FirstOffset = res.FirstOffset, res.FirstOffset
		if nonce, err := fsm.UUIDFromBytes(claim.GetNonce()); err == nil {
			o.Nonce = nonce
		}
	}
	return o
}

// foreign tells whether an entry is of another cluster or lineage. Its claim and offset say nothing about ours, even if
// they are the same numbers.
func foreign(res fsm.Result) bool {
	m := res.Mismatch
	return res.Outcome == fsm.Dropped && m != nil && (m.Check == "cluster_id" || m.Check == "lineage")
}

// claimRecord returns the ControllerClaimed of an entry that opens a claim, else nil.
func claimRecord(env *metadatav1.Envelope) *metadatav1.ControllerClaimed {
	if env.ClaimOffset != nil || len(env.GetBatches()) != 1 || len(env.GetBatches()[0].GetRecords()) != 1 {
		return nil
	}
	return env.GetBatches()[0].GetRecords()[0].GetControllerClaimed()
}

// Effect is something that the Core wants done. The kinds are in this file.
type Effect interface{ effect() }

// Propose wants an entry to be handed to the Log. Its answer comes back as ClaimAnswered or ProposalAnswered.
type Propose struct {
	ID      uint64
	Claim   bool
	Entry   []byte
	Timeout time.Duration
}

// Settle answers a request.
type Settle struct {
	Op      *Op
	Outcome Outcome
}

// Probe wants a connection to be attempted, and closed without a byte. Its result comes back as ProbeAnswered.
type Probe struct {
	controller.Probe
	Timeout time.Duration
}

// Note wants a line in the log of the process.
type Note struct {
	Level   hclog.Level
	Message string
	Args    []any
}

// Halt ends the loop: the node must not lead any longer.
type Halt struct{ Err error }

func (Propose) effect() {}
func (Settle) effect()  {}
func (Probe) effect()   {}
func (Note) effect()    {}
func (Halt) effect()    {}
