package fsm

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// RepairRule is one way to make an image sound again that breaks an invariant. A rule loses what its description says
// and nothing else, and is never applied unasked.
type RepairRule string

// The rules, in the order in which they are applied.
const (
	// RepairForgetBrokers removes registrations whose broker epoch no history leads to. The brokers register again.
	RepairForgetBrokers RepairRule = "forget-brokers"
	// RepairDropTopics removes topics without partitions, and those with a partition without a replica. Brokers put what
	// they hold of them away.
	RepairDropTopics RepairRule = "drop-topics"
	// RepairReplicas drops doubled and impossible replicas of a partition, and with them its running reassignment and its
	// directories.
	RepairReplicas RepairRule = "mend-replicas"
	// RepairEpochs sets negative leader and partition epochs to 0.
	RepairEpochs RepairRule = "reset-epochs"
	// RepairForgetISR gives up leader, ISR and ELR of a partition: it awaits the inventories of its replicas, as all
	// partitions do after a restore.
	RepairForgetISR RepairRule = "forget-isr"
	// RepairDropConfigs removes configs of topics that do not exist and of resources that cannot exist, and the keys
	// beyond the bound.
	RepairDropConfigs RepairRule = "drop-configs"
	// RepairDropElections removes records of elections that do not fit their partitions.
	RepairDropElections RepairRule = "drop-elections"
)

// repairTexts say what a rule does and loses, for an operator.
var repairTexts = []struct {
	rule RepairRule
	text string
}{
	{RepairForgetBrokers, "forget registrations whose broker epoch cannot be; the brokers register again"},
	{RepairDropTopics, "drop topics that have no partition, or a partition without a replica; brokers put what they hold of them away"},
	{RepairReplicas, "drop replicas that are doubled or cannot be, with the reassignment and the directories of their partitions"},
	{RepairEpochs, "set negative leader and partition epochs to 0"},
	{RepairForgetISR, "give up leader, ISR and ELR of partitions; the inventories of their replicas decide who leads"},
	{RepairDropConfigs, "drop configs of what does not exist, and keys beyond the bound"},
	{RepairDropElections, "drop records of elections that do not fit their partitions"},
}

// Text says what the rule does and what it loses; it is empty for an unknown rule.
func (r RepairRule) Text() string {
	for _, t := range repairTexts {
		if t.rule == r {
			return t.text
		}
	}
	return ""
}

// maxRepairExamples bounds the objects that a plan names for each rule.
const maxRepairExamples = 20

// RepairStep is a rule that a snapshot needs.
type RepairStep struct {
	Rule RepairRule
	// Count of the objects that it changes.
	Count int
	// Violations are examples of what it mends.
	Violations []*Violation
}

// RepairPlan is what would make an image sound.
type RepairPlan struct {
	// Steps in the order in which they are applied; none for a sound image.
	Steps []RepairStep
	// Left is what no rule mends; nil when the steps suffice.
	Left error
}

// ReadSnapshotUnchecked reads a stream whose frames, counts and digest are right and does not judge what it says. The
// image must not be served: it is for a plan of its repair.
func ReadSnapshotUnchecked(r io.Reader) (*Image, error) {
	img, err := loadSnapshot(r)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return img, nil
}

// PlanRepair finds the rules that an image needs. It changes nothing.
func PlanRepair(img *Image) *RepairPlan {
	if Check(img) == nil {
		return &RepairPlan{}
	}
	m := &mending{wanted: func(RepairRule) bool { return true }, steps: make(map[RepairRule]*RepairStep)}
	plan := &RepairPlan{Left: Check(m.mend(img))}
	for _, t := range repairTexts {
		if s := m.steps[t.rule]; s != nil {
			plan.Steps = append(plan.Steps, *s)
		}
	}
	return plan
}

// Repair returns the image with these rules applied where they are needed. It is an error when a rule is unknown, or
// when the rules do not suffice: then nothing of them is of use.
func Repair(img *Image, rules ...RepairRule) (*Image, error) {
	for _, r := range rules {
		if r.Text() == "" {
			return nil, fmt.Errorf("repair: there is no rule %q", string(r))
		}
	}
	if Check(img) == nil {
		return img, nil
	}
	m := &mending{wanted: func(r RepairRule) bool { return slices.Contains(rules, r) }, steps: make(map[RepairRule]*RepairStep)}
	mended := m.mend(img)
	if err := Check(mended); err != nil {
		return nil, fmt.Errorf("repair: the rules %v do not suffice: %w", rules, err)
	}
	return mended, nil
}

// mending is one run of the rules that are wanted.
type mending struct {
	wanted func(RepairRule) bool
	steps  map[RepairRule]*RepairStep
}

// apply notes that a rule is needed for what v says, and reports whether it may be applied.
func (m *mending) apply(rule RepairRule, v *Violation) bool {
	if !m.wanted(rule) {
		return false
	}
	s := m.steps[rule]
	if s == nil {
		s = &RepairStep{Rule: rule}
		m.steps[rule] = s
	}
	s.Count++
	if len(s.Violations) < maxRepairExamples {
		s.Violations = append(s.Violations, v)
	}
	return true
}

// mend returns a copy of the image with the rules applied.
func (m *mending) mend(img *Image) *Image {
	mended := *img
	m.brokers(&mended)
	a := newAssembly()
	for t := range img.Topics() {
		m.topic(a, &mended, t)
	}
	built := a.image(img.guard, sum{})
	mended.topics, mended.names, mended.index = built.topics, built.names, built.index
	m.configs(&mended)
	m.recoveries(&mended)
	mended.objects = mended.sumObjects()
	mended.seal()
	return &mended
}

func (m *mending) brokers(img *Image) {
	for it := img.brokers.Iterator(); !it.Done(); {
		id, b, _ := it.Next()
		if v := checkBrokerEpoch(img, b); v != nil && m.apply(RepairForgetBrokers, v) {
			img.brokers = img.brokers.Delete(id)
		}
	}
}

// topic takes a topic over, mended.
func (m *mending) topic(a *assembly, img *Image, t *Topic) {
	if t.count == 0 && m.apply(RepairDropTopics, violation(0, "topic "+t.name, "has no partition")) {
		return
	}
	partitions := make([]Partition, 0, t.count)
	for i, p := range t.Partitions() {
		object := partitionName{t.name, i}
		m.partition(img, &p, object)
		if len(p.Replicas) == 0 && m.apply(RepairDropTopics, violation(8, object.String(), "has no replica")) {
			return
		}
		partitions = append(partitions, p)
	}
	a.beginTopic(t.id, t.name)
	for i := range partitions {
		a.addPartition(&partitions[i])
	}
}

func (m *mending) partition(img *Image, p *Partition, object partitionName) {
	if v := p.checkEpochs(object); v != nil && m.apply(RepairEpochs, v) {
		p.LeaderEpoch, p.PartitionEpoch = max(p.LeaderEpoch, 0), max(p.PartitionEpoch, 0)
	}
	if v := p.checkReplicaList(object); v != nil && len(p.Replicas) > 0 && m.apply(RepairReplicas, v) {
		p.mendReplicas()
	}
	v := p.check(object)
	if v == nil {
		v = checkFencing(img, p, object)
	}
	if v == nil || len(p.Replicas) == 0 || !m.apply(RepairForgetISR, v) {
		return
	}
	p.Leader, p.ISR, p.ELR, p.LastKnownELR, p.Recovering, p.AwaitingInventory = NoLeader, nil, nil, nil, false, true
	if p.PartitionEpoch < math.MaxInt32 {
		p.PartitionEpoch++
	}
}

func (p *Partition) mendReplicas() {
	var replicas []int32
	for _, id := range p.Replicas {
		if id >= 0 && !slices.Contains(replicas, id) && len(replicas) < maxReplicas {
			replicas = append(replicas, id)
		}
	}
	p.Replicas, p.Adding, p.Removing, p.Directories = replicas, nil, nil, nil
}

func (m *mending) configs(img *Image) {
	for it := img.configs.Iterator(); !it.Done(); {
		r, entries, _ := it.Next()
		v := checkResource(img, r, entries)
		if v == nil || !m.apply(RepairDropConfigs, v) {
			continue
		}
		if kept := entries[:min(len(entries), maxConfigKeys)]; len(kept) > 0 && checkResource(img, r, kept) == nil {
			img.configs = img.configs.Set(r, slices.Clip(kept))
			continue
		}
		img.configs = img.configs.Delete(r)
	}
}

func (m *mending) recoveries(img *Image) {
	for id, e := range img.RecoveryElections() {
		if v := checkRecovery(img, id, e); v != nil && m.apply(RepairDropElections, v) {
			img.recoveries = img.recoveries.Delete(id)
		}
	}
}
