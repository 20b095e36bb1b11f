package torture

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/skiffmq/skiff/cmd/skiff/up"
)

// Kind is what is done to a node.
type Kind string

// The kinds of fault.
const (
	// Kill is SIGKILL, and a start after a while.
	Kill Kind = "kill"
	// Stop is SIGTERM, and a start after a while.
	Stop Kind = "stop"
	// Pause is SIGSTOP, and SIGCONT after a while.
	Pause Kind = "pause"
	// KillAtSyscall is SIGKILL when the process enters its n-th call of some system calls from now, and a start after a while.
	KillAtSyscall Kind = "kill at syscall"
	// Strand pauses the followers of a partition for a moment, kills its leader meanwhile, and lets all go on.
	Strand Kind = "strand"
	// FillDisk leaves no room on the node's file system for a while.
	FillDisk Kind = "fill disk"
	// Isolate unplugs the node's cable for a while: nobody reaches it, clients included.
	Isolate Kind = "isolate"
	// Blackhole has what the node and all others send to each other vanish for a while, one way or both. Clients reach it.
	Blackhole Kind = "blackhole"
	// CutLink does the same between the node and one other.
	CutLink Kind = "cut link"
)

// everyKind lists them.
var everyKind = []Kind{Kill, Stop, Pause, KillAtSyscall, Strand, FillDisk, Isolate, Blackhole, CutLink}

// networkKinds are done to the wires between nodes.
var networkKinds = []Kind{Isolate, Blackhole, CutLink}

// Way is what vanishes of the traffic between a node and others.
type Way string

// The ways.
const (
	BothWays Way = "both ways"
	Outbound Way = "outbound"
	Inbound  Way = "inbound"
)

var everyWay = []Way{BothWays, Outbound, Inbound}

// Fault is one thing that is done to one node.
type Fault struct {
	Kind Kind
	// Role of the node, up.Quorum or up.Broker.
	Role string
	// Chosen tells that the node is the active controller, or the leader of Partition. Otherwise it is the Pick'th of its role.
	Chosen    bool
	Partition int32
	Pick      int
	// For is how long the node is kept from working.
	For time.Duration
	// Calls are the system calls and Nth is which of them kills, for KillAtSyscall.
	Calls string
	Nth   int
	// Way is what vanishes, for Blackhole and CutLink; Other is which of the other nodes is at the end of a CutLink.
	Way   Way
	Other int
}

// String gives the fault in words.
func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ", f.Kind)
	switch {
	case f.Role == up.Quorum && f.Chosen:
		b.WriteString("the active controller")
	case f.Role == up.Quorum:
		fmt.Fprintf(&b, "quorum node #%d", f.Pick)
	case f.Chosen:
		fmt.Fprintf(&b, "the leader of partition %d", f.Partition)
	default:
		fmt.Fprintf(&b, "broker #%d", f.Pick)
	}
	switch f.Kind {
	case KillAtSyscall:
		fmt.Fprintf(&b, " number %d of %s,", f.Nth, f.Calls)
	case Blackhole:
		fmt.Fprintf(&b, " %s", f.Way)
	case CutLink:
		fmt.Fprintf(&b, " to node #%d of the others, %s,", f.Other, f.Way)
	case Kill, Stop, Pause, Strand, FillDisk, Isolate:
	}
	fmt.Fprintf(&b, " for %v", f.For)
	return b.String()
}

// Step is the faults of one moment: one, or one of each role.
type Step struct {
	Number int
	Faults []Fault
	// Settle tells to wait for full ISRs afterwards; otherwise progress on every partition is enough for the next step.
	Settle bool
	// Rest is how long nothing is done after recovery.
	Rest time.Duration
}

// String gives the step in words.
func (s Step) String() string {
	words := make([]string, 0, len(s.Faults))
	for _, f := range s.Faults {
		words = append(words, f.String())
	}
	until := "progress"
	if s.Settle {
		until = "full ISRs"
	}
	return fmt.Sprintf("step %d: %s; until %s, rest %v", s.Number, strings.Join(words, " + "), until, s.Rest)
}

// Limits of what a schedule draws.
const (
	pickMax      = 3 // nodes of a role
	nthInTurn    = 16
	nthMax       = 400
	downMost     = 5 * time.Second
	pauseMost    = 8 * time.Second
	cutMost      = 8 * time.Second
	othersMax    = 5 // nodes besides one
	strandFor    = time.Second
	restMost     = time.Second
	overlapOneIn = 3
	settleOneIn  = 2
)

// syscallSets are what may kill: each set is the calls that do one thing.
var syscallSets = []string{"pwrite64,pwritev,pwritev2", "fsync,fdatasync,sync_file_range", "write,writev", "rename,renameat,renameat2"}

// card is a kind of fault for a role.
type card struct {
	role string
	kind Kind
}

// Schedule deals steps. It is a pure function of its seed: the same seed deals the same steps.
type Schedule struct {
	rng        *rand.Rand
	cards      []card
	deck       []card
	partitions int
	steps      int
	// nth counts the kills at a set of system calls for a role: the first ones take each n in turn, later ones draw it.
	nth map[card]map[string]int
}

// allCards are every fault there is.
var allCards = []card{
	{up.Quorum, Kill}, {up.Quorum, Pause}, {up.Quorum, Stop}, {up.Quorum, KillAtSyscall}, {up.Quorum, KillAtSyscall}, {up.Quorum, FillDisk},
	{up.Broker, Kill}, {up.Broker, Pause}, {up.Broker, Stop}, {up.Broker, KillAtSyscall}, {up.Broker, KillAtSyscall}, {up.Broker, FillDisk},
	{up.Broker, Strand},
	{up.Quorum, Isolate}, {up.Quorum, Blackhole}, {up.Quorum, CutLink},
	{up.Broker, Isolate}, {up.Broker, Blackhole}, {up.Broker, CutLink},
}

// NewSchedule returns the schedule of a seed for a topic with so many partitions, with the kinds that may be dealt.
func NewSchedule(seed uint64, partitions int, kinds ...Kind) *Schedule {
	s := &Schedule{rng: rand.New(rand.NewPCG(seed, 1)), partitions: partitions, nth: map[card]map[string]int{}}
	for _, c := range allCards {
		if slices.Contains(kinds, c.kind) {
			s.cards = append(s.cards, c)
		}
	}
	return s
}

// Next deals the next step.
func (s *Schedule) Next() Step {
	s.steps++
	first := s.deal()
	step := Step{Number: s.steps, Faults: []Fault{s.fault(first)}}
	if first.kind != Strand && s.rng.IntN(overlapOneIn) == 0 {
		if second, ok := s.other(first.role); ok {
			step.Faults = append(step.Faults, s.fault(second))
		}
	}
	step.Settle = s.rng.IntN(settleOneIn) == 0
	step.Rest = s.upTo(0, restMost)
	return step
}

// deal takes the next card of a shuffled deck, so that even a short run sees many kinds.
func (s *Schedule) deal() card {
	if len(s.deck) == 0 {
		s.deck = slices.Clone(s.cards)
		s.rng.Shuffle(len(s.deck), func(i, j int) { s.deck[i], s.deck[j] = s.deck[j], s.deck[i] })
	}
	c := s.deck[0]
	s.deck = s.deck[1:]
	return c
}

// other draws a card of the other role; Strand suffers no other fault beside it.
func (s *Schedule) other(role string) (card, bool) {
	var fit []card
	for _, c := range s.cards {
		if c.role != role && c.kind != Strand {
			fit = append(fit, c)
		}
	}
	if len(fit) == 0 {
		return card{}, false
	}
	return fit[s.rng.IntN(len(fit))], true
}

// fault draws what a card leaves open.
func (s *Schedule) fault(c card) Fault {
	f := Fault{
		Kind: c.kind, Role: c.role, Chosen: c.kind == Strand || s.rng.IntN(3) > 0,
		Partition: int32(s.rng.IntN(s.partitions)), Pick: s.rng.IntN(pickMax),
	}
	switch c.kind {
	case Pause:
		f.For = s.upTo(200*time.Millisecond, pauseMost)
	case Strand:
		f.For = strandFor
	case KillAtSyscall:
		f.Calls = syscallSets[s.rng.IntN(len(syscallSets))]
		f.Nth = s.next(c, f.Calls)
		f.For = s.upTo(0, downMost)
	case Isolate, Blackhole, CutLink:
		f.For = s.upTo(200*time.Millisecond, cutMost)
		f.Way = everyWay[s.rng.IntN(len(everyWay))]
		f.Other = s.rng.IntN(othersMax)
	case Kill, Stop, FillDisk:
		f.For = s.upTo(0, downMost)
	}
	return f
}

// next gives each n in turn and then draws.
func (s *Schedule) next(c card, calls string) int {
	if s.nth[c] == nil {
		s.nth[c] = map[string]int{}
	}
	s.nth[c][calls]++
	if n := s.nth[c][calls]; n <= nthInTurn {
		return n
	}
	return 1 + s.rng.IntN(nthMax)
}

// upTo draws a duration of whole tens of milliseconds.
func (s *Schedule) upTo(least, most time.Duration) time.Duration {
	const grain = 10 * time.Millisecond
	return least + time.Duration(s.rng.Int64N(int64((most-least)/grain)+1))*grain
}
