package controller

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/skiffmq/skiff/fsm"
)

// PlanOptions say what a plan may use and what it is for.
type PlanOptions struct {
	// Topics to place anew; none means all.
	Topics []string
	// Exclude are brokers that no replica shall be on, for example because they are to be taken away.
	Exclude []int32
}

// Move is where the replicas of one partition shall be.
type Move struct {
	// Topic and Partition name the partition.
	Topic     string
	Partition int32
	// From are the replicas now, To the replicas in order of preference.
	From, To []int32
}

// Added are the replicas that have to be copied.
func (m Move) Added() []int32 { return without(m.To, m.From...) }

// Plan finds moves after which the replicas of the named topics are spread evenly over brokers and racks, and so are
// their preferred leaders. It moves as little as it can: what stands well stays. A move that is running already is taken
// for what it leads to. Brokers that are fenced or shutting down get nothing more, and keep what they have unless they
// are excluded.
func Plan(img *fsm.Image, o PlanOptions) ([]Move, error) {
	p, err := newPlanner(img, o)
	if err != nil {
		return nil, err
	}
	for _, part := range p.parts {
		if err := p.leaveExcluded(part); err != nil {
			return nil, err
		}
	}
	for _, part := range p.parts {
		p.spreadRacks(part)
	}
	p.levelReplicas()
	p.levelLeaders()
	var moves []Move
	for _, part := range p.parts {
		if !slices.Equal(part.from, part.to) {
			moves = append(moves, Move{Topic: part.topic, Partition: part.id, From: part.from, To: part.to})
		}
	}
	return moves, nil
}

// planner is a plan in the making.
type planner struct {
	// usable brokers by id, each with its rack and what the plan gives it.
	usable []int32
	rack   map[int32]string
	load   map[int32]int
	led    map[int32]int
	out    map[int32]bool
	parts  []*plannedPartition
	// cursor is where the search for a replica to take off a broker goes on, so that a plan does not look at the same
	// partitions again and again.
	cursor map[int32]int
	// blocked are the ways on which no replica could be moved when that was tried last.
	blocked map[pair]bool
	// firsts are the partitions that a broker is preferred for, and some that it was.
	firsts map[int32][]*plannedPartition
}

type plannedPartition struct {
	topic    string
	id       int32
	from, to []int32
}

func newPlanner(img *fsm.Image, o PlanOptions) (*planner, error) {
	p := &planner{rack: map[int32]string{}, load: map[int32]int{}, led: map[int32]int{}, out: map[int32]bool{}, cursor: map[int32]int{}, blocked: map[pair]bool{}, firsts: map[int32][]*plannedPartition{}}
	for _, id := range o.Exclude {
		p.out[id] = true
	}
	for b := range img.Brokers() {
		p.rack[b.ID] = b.Rack
		if b.Active() && !p.out[b.ID] {
			p.usable = append(p.usable, b.ID)
		}
	}
	if len(p.usable) == 0 {
		return nil, errors.New("no broker is up that is not excluded")
	}
	for _, name := range o.Topics {
		if _, ok := img.TopicByName(name); !ok {
			return nil, fmt.Errorf("there is no topic %q", name)
		}
	}
	for topic := range img.Topics() {
		if len(o.Topics) > 0 && !slices.Contains(o.Topics, topic.Name()) {
			continue
		}
		for id, part := range topic.Partitions() {
			to := without(part.Replicas, part.Removing...)
			p.parts = append(p.parts, &plannedPartition{topic: topic.Name(), id: id, from: to, to: slices.Clone(to)})
			for i, broker := range to {
				p.count(broker, i == 0, 1)
			}
		}
	}
	return p, nil
}

func (p *planner) count(broker int32, first bool, n int) {
	p.load[broker] += n
	if first {
		p.led[broker] += n
	}
}

// replace puts another broker in the place of a replica.
func (p *planner) replace(part *plannedPartition, at int, broker int32) {
	p.count(part.to[at], at == 0, -1)
	part.to[at] = broker
	p.count(broker, at == 0, 1)
}

// leaveExcluded takes replicas off excluded and unregistered brokers.
func (p *planner) leaveExcluded(part *plannedPartition) error {
	for at, id := range part.to {
		_, registered := p.rack[id]
		if registered && !p.out[id] {
			continue
		}
		broker, ok := p.best(part, at)
		if !ok {
			return fmt.Errorf("%s-%d has %d replicas, and there are %d brokers for them", part.topic, part.id, len(part.to), len(p.usable))
		}
		p.replace(part, at, broker)
	}
	return nil
}

// best is the usable broker for the place at: in a rack that the other replicas leave free, if there is one, and of
// those the one with the fewest replicas.
func (p *planner) best(part *plannedPartition, at int) (int32, bool) {
	var candidates []int32
	for _, id := range p.usable {
		if !slices.Contains(part.to, id) {
			candidates = append(candidates, id)
		}
	}
	if len(candidates) == 0 {
		return 0, false
	}
	return slices.MinFunc(candidates, func(a, b int32) int {
		return cmp.Or(cmp.Compare(p.sharing(part, at, a), p.sharing(part, at, b)), cmp.Compare(p.load[a], p.load[b]), cmp.Compare(a, b))
	}), true
}

// sharing counts the other replicas in the rack of a broker.
func (p *planner) sharing(part *plannedPartition, at int, broker int32) int {
	n := 0
	for i, id := range part.to {
		if i != at && p.rack[id] == p.rack[broker] {
			n++
		}
	}
	return n
}

// spreadRacks moves replicas that share a rack while another rack has fewer of them.
func (p *planner) spreadRacks(part *plannedPartition) {
	for at := len(part.to) - 1; at >= 0; at-- { // the preferred leader last
		if p.sharing(part, at, part.to[at]) == 0 {
			continue
		}
		if broker, ok := p.best(part, at); ok && p.sharing(part, at, broker) < p.sharing(part, at, part.to[at]) {
			p.replace(part, at, broker)
		}
	}
}

// levelReplicas moves replicas from the brokers that have most to those that have least, until they differ by one or
// the racks forbid it.
func (p *planner) levelReplicas() {
	for range len(p.parts)*len(p.usable) + 1 { // each move levels, so that this many are never needed (I20)
		if p.levelOnce() {
			continue
		}
		clear(p.blocked) // other moves may have made room
		if !p.levelOnce() {
			return
		}
	}
}

// pair is two brokers, from the one to the other.
type pair struct{ from, to int32 }

// levelOnce makes the first move that levels, the fullest broker before others.
func (p *planner) levelOnce() bool {
	byLoad := slices.SortedFunc(slices.Values(p.usable), func(a, b int32) int {
		return cmp.Or(cmp.Compare(p.load[a], p.load[b]), cmp.Compare(a, b))
	})
	for i := len(byLoad) - 1; i > 0; i-- {
		for _, to := range byLoad[:i] {
			if p.load[byLoad[i]]-p.load[to] < 2 {
				break
			}
			way := pair{byLoad[i], to}
			if p.blocked[way] {
				continue
			}
			if p.shift(byLoad[i], to) {
				return true
			}
			p.blocked[way] = true
		}
	}
	return false
}

// shift moves one replica between two brokers, a follower before a preferred leader, if no rack gets fuller by it.
func (p *planner) shift(from, to int32) bool {
	var led *plannedPartition
	for k := range p.parts {
		i := (p.cursor[from] + k) % len(p.parts)
		part := p.parts[i]
		at := slices.Index(part.to, from)
		if at < 0 || slices.Contains(part.to, to) || p.sharing(part, at, to) > p.sharing(part, at, from) {
			continue
		}
		if at > 0 {
			p.cursor[from] = i
			p.replace(part, at, to)
			return true
		}
		if led == nil {
			led = part
		}
	}
	if led == nil {
		return false
	}
	p.replace(led, 0, to)
	return true
}

// levelLeaders changes the order of replicas, which copies nothing, until every broker is preferred equally often, as far
// as its replicas allow. A preference is passed on from broker to broker, so that also those are levelled that share no
// partition.
func (p *planner) levelLeaders() {
	for _, part := range p.parts {
		p.firsts[part.to[0]] = append(p.firsts[part.to[0]], part)
	}
	for range len(p.parts)*len(p.usable) + 1 { // each change levels (I20)
		if !p.passPreference() {
			return
		}
	}
}

// handover is a partition by which a broker passes a preference on.
type handover struct {
	part *plannedPartition
	from int32
}

// passPreference passes one preference from the broker that has most to one that has at least two less, over as few
// others as possible.
func (p *planner) passPreference() bool {
	byLed := slices.SortedFunc(slices.Values(p.usable), func(a, b int32) int {
		return cmp.Or(cmp.Compare(p.led[b], p.led[a]), cmp.Compare(a, b))
	})
	least := p.led[byLed[len(byLed)-1]]
	for _, source := range byLed {
		if p.led[source]-least < 2 {
			return false
		}
		reached := map[int32]handover{source: {}}
		for queue := []int32{source}; len(queue) > 0; queue = queue[1:] {
			for _, part := range p.firsts[queue[0]] {
				if part.to[0] != queue[0] {
					continue // it was passed on
				}
				for _, id := range part.to[1:] {
					if _, seen := reached[id]; seen {
						continue
					}
					reached[id] = handover{part, queue[0]}
					if p.led[source]-p.led[id] > 1 {
						p.pass(source, id, reached)
						return true
					}
					queue = append(queue, id)
				}
			}
		}
	}
	return false
}

// pass makes each broker on the way preferred in the place of the one before it.
func (p *planner) pass(source, target int32, reached map[int32]handover) {
	p.led[source]--
	p.led[target]++
	for id := target; id != source; id = reached[id].from {
		to := reached[id].part.to
		at := slices.Index(to, id)
		to[0], to[at] = to[at], to[0]
		p.firsts[id] = append(p.firsts[id], reached[id].part)
	}
}
