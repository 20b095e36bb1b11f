package main

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"time"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// Options of a run. A run is a function of them.
type Options struct {
	// Seed of every dice.
	Seed uint64
	// Steps bounds the events that happen before everything is put right; 0 leaves it to Duration.
	Steps int
	// Duration in virtual time before everything is put right.
	Duration time.Duration
	// Controllers, Brokers and DataTopics are how many there are.
	Controllers, Brokers, DataTopics int
	// Depth is the number of entries that may be in flight.
	Depth int
	// Session is the brokers' session timeout, Lag replica.lag.time.max.ms.
	Session, Lag time.Duration
	// ProposeTimeout bounds the wait for one entry.
	ProposeTimeout time.Duration
	// Think is the mean pause of a client.
	Think time.Duration
	// Admins are clients that create, delete and describe topics.
	Admins int
	// Disk is how long a round of replication in the quorum takes at most.
	Disk time.Duration
	// FaultMean is the mean time between faults; 0 is a calm run.
	FaultMean time.Duration
	// SegmentBytes at which a log rolls.
	SegmentBytes int64
	// FetchBytes bounds what a follower copies in one fetch of a partition.
	FetchBytes int
	// Lossy loses one message in so many; 0 loses none.
	Lossy int
	// BatchRecords bounds a metadata batch; 0 is the product's limit.
	BatchRecords int
	// Without are faults, by number, that do not happen.
	Without map[int]bool
	// Plant is a fault built into the system.
	Plant Plant
}

// DefaultOptions draws a cluster and a temper from a seed.
func DefaultOptions(seed uint64) Options {
	rnd := rand.New(rand.NewPCG(seed, 0x0f))
	o := Options{
		Seed: seed, Duration: 90 * time.Second, Controllers: 3 + 2*rnd.IntN(2), Brokers: 3 + rnd.IntN(3), DataTopics: 1 + rnd.IntN(3),
		Depth: 1, Session: 3 * time.Second, Lag: 4 * time.Second, ProposeTimeout: 5 * time.Second, Think: 100 * time.Millisecond,
		FaultMean: 1500 * time.Millisecond, SegmentBytes: 4096, FetchBytes: 1 << 20, Admins: 3, Disk: 3 * time.Millisecond,
	}
	if rnd.IntN(2) == 0 {
		o.Depth = 1 + rnd.IntN(4)
	}
	if rnd.IntN(4) == 0 {
		o.Lossy = 300
	}
	if rnd.IntN(4) == 0 { // a busy quorum on slow disks: several entries are in flight, and many requests share one
		o.Depth, o.Admins, o.Disk, o.Think, o.Duration = 4, 12, 60*time.Millisecond, 50*time.Millisecond, 45*time.Second
	}
	if rnd.IntN(3) == 0 {
		o.BatchRecords = 8
	}
	if rnd.IntN(2) == 0 { // a follower that is behind stays behind for a while
		o.FetchBytes = 300
	}
	return o
}

// Sim is one run.
type Sim struct {
	opt      Options
	plant    Plant
	rnd      *rand.Rand
	agenda   agenda
	net      *network
	raft     *raft
	nodes    []*node
	brokers  []*broker
	check    *checker
	files    *partlog.FileBudget
	empty    *fsm.Image
	limits   controller.Limits
	defaults controller.Defaults

	// values counts the records that were written, moment orders what clients saw.
	values uint64
	moment int64
	// names are the topic names that clients play with, retired those whose history is full.
	names, retired []*history
	named          int
	// quiet tells clients to stop.
	quiet bool
	// healed ends the faults.
	healed bool

	step      int
	violation *Violation
	trace     trace
	stats     Stats
}

// Stats tell what a run did: one that did little proves little.
type Stats struct {
	Steps                      int
	entries, faults            int
	produced, acked, consumed  int
	judged, undecided, excused int
	truncations, probes        int
	fencings                   map[string]int
	adminOps                   map[result]int
	dropped                    map[string]int
}

// New builds a cluster and plans its start, its clients and its faults.
func New(opt Options) *Sim {
	s := &Sim{
		opt: opt, plant: opt.Plant, rnd: rand.New(rand.NewPCG(opt.Seed, 0x51)), files: partlog.NewFileBudget(1 << 16),
		limits: controller.DefaultLimits(), defaults: controller.KafkaDefaults(),
		stats: Stats{adminOps: map[result]int{}, dropped: map[string]int{}, fencings: map[string]int{}},
	}
	s.agenda.now = epochStart
	s.trace.hash = fnv.New64a()
	if opt.BatchRecords > 0 {
		s.limits.MaxRecordsPerBatch = opt.BatchRecords
	}
	s.defaults.Topics = topicconfig.Static{"min.insync.replicas": "2", "unclean.leader.election.enable": s.plant.unclean()}
	s.defaults.ReplicationFactor = int32(min(3, opt.Brokers))
	s.empty = genesis()
	s.check = newChecker(s, s.empty)
	s.net = newNetwork(s)
	s.net.lossy = opt.Lossy
	s.raft = &raft{s: s, unruly: opt.FaultMean > 0}
	s.populate()
	s.raft.watch()
	s.watchSessions()
	if opt.FaultMean > 0 {
		for i, f := range planFaults(opt.Seed, opt.Duration, opt.FaultMean) {
			if !opt.Without[i] {
				s.agenda.after(f.at, nil, func() { s.tracef("fault %d", i); s.strike(f) })
			}
		}
	}
	return s
}

func (s *Sim) minISR() int { return 2 }

func genesis() *fsm.Image {
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{0xc1}.String(), Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{0x11}}.Proto(), NextMetadataOffset: 1,
	})
	if err != nil {
		panic(err) // the arguments are constants
	}
	return img
}

// populate makes the procs and starts them.
func (s *Sim) populate() {
	index := 0
	make := func(name string) proc {
		index++
		return proc{name: name, index: index}
	}
	for i := range s.opt.Controllers {
		s.nodes = append(s.nodes, &node{proc: make(fmt.Sprintf("c%d", i+1)), s: s, id: int32(101 + i), snapshot: s.empty})
	}
	for i := range s.opt.Brokers {
		s.brokers = append(s.brokers, &broker{proc: make(fmt.Sprintf("b%d", i+1)), s: s, id: int32(i + 1), previousEpoch: -1, disks: map[fsm.PartitionID]*disk{}})
	}
	for _, n := range s.nodes {
		n.boot()
	}
	for _, b := range s.brokers {
		b.boot()
	}
	for range 4 + s.opt.Admins/2 {
		s.names = append(s.names, s.newName())
	}
	for i := range s.opt.Admins {
		c := &adminClient{proc: make(fmt.Sprintf("admin%d", i+1)), s: s}
		c.start()
		c.loop()
	}
	for i := range s.opt.DataTopics {
		s.populateTopic(fmt.Sprintf("data%d", i+1), make)
	}
}

func (s *Sim) populateTopic(topic string, make func(string) proc) {
	founder := &founder{proc: make("founder of " + topic), s: s, topic: topic}
	founder.start()
	founder.loop()
	for j := range 2 {
		p := &producer{proc: make(fmt.Sprintf("producer%d of %s", j+1, topic)), s: s, topic: topic, last: map[fsm.PartitionID]int64{}, sequence: map[fsm.PartitionID]int32{}, epoch: map[fsm.PartitionID]int32{}, left: map[fsm.UUID]bool{}}
		p.pid = int64(p.index)
		p.start()
		p.loop()
	}
	c := &consumer{proc: make("consumer of " + topic), s: s, topic: topic, offset: map[fsm.PartitionID]int64{}}
	c.start()
	c.loop()
}

// Run lets the cluster live until Duration or Steps, puts everything right, waits until it must have recovered, and
// checks what is left. It returns the first violation, or nil.
func (s *Sim) Run() *Violation {
	end := int64(epochStart) + int64(s.opt.Duration)
	for s.violation == nil && (s.opt.Steps == 0 || s.step < s.opt.Steps) {
		if !s.happen(end) {
			break
		}
	}
	if s.violation != nil {
		return s.violation
	}
	s.heal()
	s.recover()
	s.stats.Steps = s.step
	return s.violation
}

// happen does the next thing before end; false when there is none.
func (s *Sim) happen(end int64) bool {
	e, ok := s.agenda.next(end)
	if !ok {
		return false
	}
	s.step++
	e.fn()
	return true
}

// recoveryTime is how long a cluster that was put right may take until everything is as it should be.
const recoveryTime = 90 * time.Second

// recover lets the clients go on for a moment, then stops them, and waits for the cluster to be whole.
func (s *Sim) recover() {
	s.let(5 * time.Second)
	s.quiet = true
	deadline := s.agenda.now + int64(recoveryTime)
	for s.violation == nil {
		s.let(time.Second)
		why := s.unwell()
		if why == "" {
			break
		}
		if s.agenda.now > deadline {
			s.fail(0, "the cluster did not recover in %s: %s", recoveryTime, why)
		}
	}
	s.let(30 * time.Second) // every request has an answer, or none, by then
	if s.violation == nil {
		s.audit()
	}
	if s.violation == nil {
		s.judge()
	}
}

// let lets time pass.
func (s *Sim) let(d time.Duration) {
	end := s.agenda.now + int64(d)
	for s.violation == nil && s.happen(end) {
	}
}

// fail notes the first violation.
func (s *Sim) fail(invariant int, format string, args ...any) {
	if s.violation != nil {
		return
	}
	s.violation = &Violation{Invariant: invariant, Text: fmt.Sprintf(format, args...), Step: s.step, At: s.agenda.now}
	s.tracef("VIOLATION %s", s.violation)
}

func (s *Sim) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(s.rnd.Int64N(int64(hi-lo)))
}

func (s *Sim) uuid() fsm.UUID {
	var u fsm.UUID
	for i := range u {
		u[i] = byte(s.rnd.Uint32())
	}
	return u
}

func (s *Sim) nodeByID(id int32) *node     { return s.nodes[id-101] }
func (s *Sim) brokerByID(id int32) *broker { return s.brokers[id-1] }

// trace keeps the last lines of what happened, and a hash of all of them.
type trace struct {
	lines []string
	next  int
	hash  interface {
		io.Writer
		Sum64() uint64
	}
	// live, if set, gets every line at once.
	live io.Writer
}

// traceLines is how much of the past a violation is printed with.
const traceLines = 300

func (s *Sim) tracef(format string, args ...any) {
	line := fmt.Sprintf("%9.4f #%d ", float64(s.agenda.now-epochStart)/1e9, s.step) + fmt.Sprintf(format, args...)
	_, _ = io.WriteString(s.trace.hash, line) // a hash cannot fail
	if s.trace.live != nil {
		_, _ = fmt.Fprintln(s.trace.live, line) // for the eye only
	}
	if len(s.trace.lines) < traceLines {
		s.trace.lines = append(s.trace.lines, line)
		return
	}
	s.trace.lines[s.trace.next] = line
	s.trace.next = (s.trace.next + 1) % traceLines
}

// Trace returns the last lines, oldest first.
func (s *Sim) Trace() []string {
	return append(append([]string(nil), s.trace.lines[s.trace.next:]...), s.trace.lines[:s.trace.next]...)
}
