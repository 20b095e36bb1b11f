package active

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// genesis is the image that every node of a test begins with.
func genesis(t testing.TB) *fsm.Image {
	t.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId:          fsm.UUID{1}.String(),
		Lineage:            fsm.LineageID{Number: 1, UUID: fsm.UUID{2}}.Proto(),
		NextMetadataOffset: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// node is one quorum node: a Core on a model of Raft's log.
type node struct {
	t    testing.TB
	core *Core
	now  time.Time
	term uint64
	img  *fsm.Image
	// proposals were handed over by the Core and are not answered yet, in order.
	proposals []Propose
	// probes were asked for and are not answered yet, in order.
	probes  []Probe
	answers map[*Op]Outcome
	notes   []Note
	halted  error
}

func newNode(t testing.TB, mutate ...func(*Config)) *node {
	n := &node{t: t, img: genesis(t), now: time.UnixMilli(1_700_000_000_000), answers: map[*Op]Outcome{}}
	rnd := rand.New(rand.NewPCG(1, 2))
	cfg := Config{
		NodeID: 101, DirectoryID: fsm.UUID{3}, IncarnationID: fsm.UUID{4},
		Image: func() *fsm.Image { return n.img },
		Env: func() *controller.Env {
			return &controller.Env{Now: n.now, Rand: rnd, Limits: controller.DefaultLimits(), Defaults: controller.KafkaDefaults()}
		},
		SessionTimeout: 9 * time.Second,
	}
	for _, m := range mutate {
		m(&cfg)
	}
	n.core = NewCore(cfg)
	return n
}

func withDepth(depth int) func(*Config) { return func(c *Config) { c.Depth = depth } }

// step gives events to the Core and carries out its effects.
func (n *node) step(events ...Event) {
	n.t.Helper()
	for _, e := range n.core.Step(n.now, events...) {
		switch e := e.(type) {
		case Propose:
			n.proposals = append(n.proposals, e)
		case Settle:
			if had, twice := n.answers[e.Op]; twice {
				n.t.Fatalf("%s was answered twice: %+v, then %+v", e.Op.kind, had, e.Outcome)
			}
			n.answers[e.Op] = e.Outcome
		case Probe:
			n.probes = append(n.probes, e)
		case Note:
			n.notes = append(n.notes, e)
		case Halt:
			n.halted = e.Err
		}
	}
}

// lead tells the Core that it leads in a term.
func (n *node) lead(term uint64) {
	n.t.Helper()
	n.term = term
	n.step(LeadershipHint{Leading: true, Term: term})
}

// claimed makes the Core lead, and commits its claim.
func (n *node) claimed(term uint64) {
	n.t.Helper()
	n.lead(term)
	n.commit(n.takeProposal())
	if n.core.phase != Open {
		n.t.Fatalf("phase is %s after the claim was applied", n.core.phase)
	}
}

// takeProposal removes the oldest proposal.
func (n *node) takeProposal() Propose {
	n.t.Helper()
	if len(n.proposals) == 0 {
		n.t.Fatal("nothing was proposed")
	}
	p := n.proposals[0]
	n.proposals = n.proposals[1:]
	return p
}

func (n *node) envelope(p Propose) *metadatav1.Envelope {
	n.t.Helper()
	env, err := fsm.DecodeEnvelope(p.Entry)
	if err != nil {
		n.t.Fatal(err)
	}
	return env
}

// apply folds an entry in the present term and tells the Core that it was seen, but answers nobody.
func (n *node) apply(p Propose) fsm.Result {
	n.t.Helper()
	return n.applyEnvelope(n.envelope(p))
}

func (n *node) applyEnvelope(env *metadatav1.Envelope) fsm.Result {
	n.t.Helper()
	res := fsm.Apply(n.img, fsm.Entry{Envelope: env, ControllerEpoch: n.img.EpochBase() + int64(n.term)})
	if res.Outcome == fsm.Broken {
		n.t.Fatalf("entry is broken: %v", res.Err)
	}
	if res.Alarm != nil {
		n.t.Fatalf("digest alarm: %v", res.Alarm)
	}
	n.img = res.Image
	n.step(NewObserved(res, env))
	return res
}

// commit folds an entry and answers its proposer.
func (n *node) commit(p Propose) fsm.Result {
	n.t.Helper()
	res := n.apply(p)
	n.answer(p, Answer{Result: res})
	return res
}

func (n *node) answer(p Propose, a Answer) {
	n.t.Helper()
	if p.Claim {
		n.step(ClaimAnswered{ID: p.ID, Answer: a})
	} else {
		n.step(ProposalAnswered{ID: p.ID, Answer: a})
	}
}

// anotherClaims applies the claim of another node in a term.
func (n *node) anotherClaims(term uint64) {
	n.t.Helper()
	n.term = term
	n.applyEnvelope(foreignClaim(n.img, byte(term)))
}

func foreignClaim(img *fsm.Image, nonce byte) *metadatav1.Envelope {
	other := NewCore(Config{NodeID: 102, DirectoryID: fsm.UUID{5}, IncarnationID: fsm.UUID{6}})
	return other.claimEnvelope(time.UnixMilli(img.LastBatchTimeMs()), img, fsm.UUID{9, nonce})
}

// want checks how a request was answered.
func (n *node) want(op *Op, code controllerv1.ErrorCode) Outcome {
	n.t.Helper()
	out, ok := n.answers[op]
	if !ok {
		n.t.Fatalf("%s was not answered", op.kind)
	}
	got := controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED
	var r *controller.Refusal
	if errors.As(out.Err, &r) {
		got = r.Code
	}
	if got != code {
		n.t.Fatalf("%s was answered %v, want %s", op.kind, out.Err, code)
	}
	return out
}

func (n *node) wantUnanswered(ops ...*Op) {
	n.t.Helper()
	for _, op := range ops {
		if out, ok := n.answers[op]; ok {
			n.t.Fatalf("%s was answered %+v before it was committed and applied here (I4)", op.kind, out)
		}
	}
}

func (n *node) has(key string) bool {
	_, ok := n.img.ConfigValue(brokerDefaults, key)
	return ok
}

// Short names of the codes that the tests expect.
const (
	done     = controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED
	tryAgain = controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER
	exists   = controllerv1.ErrorCode_ERROR_CODE_TOPIC_ALREADY_EXISTS
	unknown  = controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN
	ourFault = controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_SERVER_ERROR
)

// brokerDefaults is the resource that the tests' requests write to: it needs neither topics nor brokers.
var brokerDefaults = fsm.BrokerResource("")

// put sets a key that must not be there yet, so that a request done twice, or on an old image, shows.
func put(img *fsm.Image, env *controller.Env, key string) controller.Decision[string] {
	if _, ok := img.ConfigValue(brokerDefaults, key); ok {
		return controller.Decision[string]{Refused: &controller.Refusal{Code: exists, Message: key + " is there already"}}
	}
	return controller.Decision[string]{Batches: []*metadatav1.Batch{setBatch(img, env, key)}, Reply: "put " + key}
}

// get answers whether a key is there.
func get(img *fsm.Image, _ *controller.Env, key string) controller.Decision[bool] {
	_, ok := img.ConfigValue(brokerDefaults, key)
	return controller.Decision[bool]{Reply: ok}
}

// putMany sets keys in a batch each.
func putMany(img *fsm.Image, env *controller.Env, keys []string) controller.Decision[string] {
	var d controller.Decision[string]
	for _, key := range keys {
		d.Batches = append(d.Batches, setBatch(img, env, key))
	}
	d.Reply = "put many"
	return d
}

func setBatch(img *fsm.Image, env *controller.Env, key string) *metadatav1.Batch {
	return &metadatav1.Batch{
		TimeMs:    max(env.Now.UnixMilli(), img.LastBatchTimeMs()),
		RequestId: env.RequestID.Bytes(),
		Cause:     env.Cause,
		Reason:    &metadatav1.Reason{Code: "test"},
		Records: []*metadatav1.Record{{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
			ResourceType: brokerDefaults.Type, Key: key, Value: proto.String("1"),
		}}}},
	}
}

func putOp(key string) *Op {
	return NewOp(put, key, &metadatav1.Cause{RequestKind: "put " + key}, fsm.UUID{})
}
func getOp(key string) *Op {
	return NewOp(get, key, &metadatav1.Cause{RequestKind: "get " + key}, fsm.UUID{})
}

func putOps(prefix string, count int) ([]*Op, []Event) {
	ops, events := make([]*Op, count), make([]Event, count)
	for i := range ops {
		ops[i] = putOp(fmt.Sprintf("%s%d", prefix, i))
		events[i] = Submitted{ops[i]}
	}
	return ops, events
}
