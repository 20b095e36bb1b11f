package controller

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/skiffmq/skiff/fsm"
)

// placer places replicas as Kafka's StripedReplicaPlacer does. Its goals, in this order: each replica on another broker;
// replicas spread over the racks; the first replica on a broker that is up; leaders and replicas in balance.
type placer struct {
	rand     *rand.Rand
	racks    []*rack
	unfenced int
	usable   int
	// epoch counts placements since the last shuffle, so that every list is walked from a new start each time.
	epoch int
	// offset is the rack where the next placement begins.
	offset int
}

// rack holds the brokers of one rack. Brokers without a rack are in one of their own, which sorts first.
type rack struct {
	name             string
	named            bool
	unfenced, fenced ring
}

// ring hands out brokers, each once in an epoch.
type ring struct {
	ids    []int32
	epoch  int
	index  int
	offset int
}

// next gives the ring's next broker in this epoch, or false when all were given.
func (r *ring) next(epoch int) (int32, bool) {
	if len(r.ids) == 0 {
		return 0, false
	}
	if r.epoch != epoch {
		r.epoch, r.index, r.offset = epoch, 0, (r.offset+1)%len(r.ids)
	}
	if r.index >= len(r.ids) {
		return 0, false
	}
	id := r.ids[(r.index+r.offset)%len(r.ids)]
	r.index++
	return id, true
}

func (r *ring) shuffle(dice *rand.Rand) {
	dice.Shuffle(len(r.ids), func(i, j int) { r.ids[i], r.ids[j] = r.ids[j], r.ids[i] })
}

// next gives the rack's next broker, those that are up first.
func (k *rack) next(epoch int) (int32, bool) {
	if id, ok := k.unfenced.next(epoch); ok {
		return id, true
	}
	return k.fenced.next(epoch)
}

// newPlacer takes every registered broker that is not shutting down. Fenced ones are used last.
func newPlacer(img *fsm.Image, dice *rand.Rand) *placer {
	p := &placer{rand: dice}
	for b := range img.Brokers() { // by id, so each ring is sorted
		if b.InControlledShutdown {
			continue
		}
		k := p.rackOf(b)
		p.usable++
		if b.Fenced {
			k.fenced.ids = append(k.fenced.ids, b.ID)
		} else {
			k.unfenced.ids = append(k.unfenced.ids, b.ID)
			p.unfenced++
		}
	}
	slices.SortFunc(p.racks, func(a, b *rack) int {
		if a.named != b.named {
			return cmp.Compare(index(a.named), index(b.named))
		}
		return cmp.Compare(a.name, b.name)
	})
	for _, k := range p.racks {
		k.fenced.start(dice)
		k.unfenced.start(dice)
	}
	if len(p.racks) > 0 {
		p.offset = dice.IntN(len(p.racks))
	}
	return p
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (r *ring) start(dice *rand.Rand) {
	if len(r.ids) > 0 {
		r.offset = dice.IntN(len(r.ids))
	}
}

func (p *placer) rackOf(b *fsm.Broker) *rack {
	for _, k := range p.racks {
		if k.named == b.HasRack && k.name == b.Rack {
			return k
		}
	}
	k := &rack{name: b.Rack, named: b.HasRack}
	p.racks = append(p.racks, k)
	return k
}

// check tells why replicationFactor replicas cannot be placed, if they cannot.
func (p *placer) check(replicationFactor int) error {
	switch {
	case replicationFactor <= 0:
		return fmt.Errorf("replication factor %d is not positive", replicationFactor)
	case p.usable == 0:
		return errors.New("no broker is registered, or all are shutting down")
	case p.unfenced == 0:
		return fmt.Errorf("none of the %d usable brokers is up", p.usable)
	case replicationFactor > p.usable:
		return fmt.Errorf("replication factor %d cannot be reached with %d usable brokers", replicationFactor, p.usable)
	}
	return nil
}

// place chooses the replicas of the next partition. check has passed.
func (p *placer) place(replicationFactor int) []int32 {
	if p.epoch == p.unfenced && p.unfenced > 1 {
		p.shuffle()
		p.epoch = 0
	}
	if p.offset == len(p.racks) {
		p.offset = 0
	}
	first, leader := p.first()
	replicas := append(make([]int32, 0, replicationFactor), leader)
	for at := p.offset; len(replicas) < replicationFactor; at = (at + 1) % len(p.racks) {
		if at == first {
			first = -1 // the leader's rack is passed over once
			continue
		}
		if id, ok := p.racks[at].next(p.epoch); ok {
			replicas = append(replicas, id)
		}
	}
	p.epoch++
	p.offset++
	return replicas
}

// first finds the first replica: on a broker that is up, in the first rack from the offset on that has one left.
func (p *placer) first() (rackIndex int, broker int32) {
	for at := p.offset; ; at = (at + 1) % len(p.racks) {
		if id, ok := p.racks[at].unfenced.next(p.epoch); ok {
			return at, id
		}
	}
}

func (p *placer) shuffle() {
	p.rand.Shuffle(len(p.racks), func(i, j int) { p.racks[i], p.racks[j] = p.racks[j], p.racks[i] })
	for _, k := range p.racks {
		k.fenced.shuffle(p.rand)
		k.unfenced.shuffle(p.rand)
	}
}
