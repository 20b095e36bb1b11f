package explain

import (
	"fmt"
	"slices"

	"github.com/skiffmq/skiff/fsm"
)

// noLeader is the leader of a partition that has none.
const noLeader = -1

// Partition explains a partition. The topic must be in the image.
func Partition(f Facts, topic *fsm.Topic, number int32, p fsm.Partition) Explanation {
	subject := fmt.Sprintf("%s/%d", topic.Name(), number)
	e := Explanation{Subject: subject, Healthy: true, Because: []string{}, Needs: []string{}, Story: story(f.Events, "partition", subject)}
	e.State = fmt.Sprintf("leader %s (leader epoch %d), ISR %v of replicas %v", wordLeader(p.Leader), p.LeaderEpoch, p.ISR, p.Replicas)
	switch {
	case p.AwaitingInventory:
		e.awaiting(f, p)
	case p.Leader == noLeader:
		e.leaderless(f, p)
	}
	e.reassigned(f, p)
	if !p.AwaitingInventory {
		e.underReplicated(f, p)
	}
	e.imbalanced(p)
	if e.Healthy {
		e.Because = append(e.Because, "every replica is in the ISR, and the preferred leader leads")
	}
	return e
}

func wordLeader(id int32) string {
	if id == noLeader {
		return "none"
	}
	return fmt.Sprint(id)
}

func (e *Explanation) awaiting(f Facts, p fsm.Partition) {
	e.because("the metadata was restored: no leader is elected before the replicas %v have said what their logs hold", p.Replicas)
	for _, id := range p.Replicas {
		if why := absent(f, id); why != "" {
			e.needs("broker %d must report: %s", id, why)
		}
	}
	e.needs("or an operator decides without the missing ones: skiff quorum awaiting, then skiff elect --awaiting %s", e.Subject)
}

// leaderless says who could lead and why nobody does (Kafka: only a member of the ISR, or of the eligible leader replicas).
func (e *Explanation) leaderless(f Facts, p fsm.Partition) {
	may := p.ISR
	if len(may) == 0 {
		may = p.ELR
	}
	e.because("it has no leader: of its replicas only %v may lead without losing records, and none of them is alive", may)
	for _, id := range may {
		e.needs("broker %d must come back: %s", id, absent(f, id))
	}
	if lives := alive(f.Image, p.Replicas); len(lives) > 0 {
		e.needs("or an operator accepts the loss of what the others have not: an unclean election of one of %v", lives)
	}
}

// reassigned says what a reassignment waits for (KIP-455: until every replica of the target is in the ISR).
func (e *Explanation) reassigned(f Facts, p fsm.Partition) {
	if len(p.Adding) == 0 && len(p.Removing) == 0 {
		return
	}
	e.because("its replicas are being reassigned: adding %v, removing %v", p.Adding, p.Removing)
	for _, id := range p.Adding {
		if slices.Contains(p.ISR, id) {
			continue
		}
		if why := absent(f, id); why != "" {
			e.needs("broker %d must join the ISR and cannot: %s", id, why)
		} else {
			e.needs("broker %d must join the ISR: it is alive and copies from leader %s", id, wordLeader(p.Leader))
		}
	}
	e.needs("or it is given up: skiff reassign cancel %s", e.Subject)
}

func (e *Explanation) underReplicated(f Facts, p fsm.Partition) {
	for _, id := range p.Replicas {
		if slices.Contains(p.ISR, id) || slices.Contains(p.Adding, id) {
			continue
		}
		if why := absent(f, id); why != "" {
			e.because("replica %d is not in the ISR: %s", id, why)
			continue
		}
		e.because("replica %d is not in the ISR: its broker is alive, but it has not fetched up to the leader's log end", id)
		e.needs("replica %d must catch up with leader %s; the leader then asks for it to be taken in", id, wordLeader(p.Leader))
	}
}

func (e *Explanation) imbalanced(p fsm.Partition) {
	if p.Leader == noLeader || len(p.Replicas) == 0 || p.Leader == p.Replicas[0] || len(p.Adding) > 0 {
		return
	}
	preferred := p.Replicas[0]
	e.because("leader %d is not the preferred leader %d", p.Leader, preferred)
	switch {
	case !slices.Contains(p.ISR, preferred):
		e.needs("replica %d must be in the ISR before it can lead", preferred)
	default:
		e.needs("replica %d is in the ISR and can lead: the controller moves leaderships back by itself, skiff elect does so at once", preferred)
	}
}

// absent says why a broker cannot hold a place in an ISR; empty if it can.
func absent(f Facts, id int32) string {
	b, ok := f.Image.Broker(id)
	switch {
	case !ok:
		return fmt.Sprintf("broker %d is not registered", id)
	case b.Epoch == voidEpoch:
		return fmt.Sprintf("broker %d has not registered with the restored metadata", id)
	case b.Fenced:
		if last := lastFencing(f.Fencings, id); last != nil {
			return fmt.Sprintf("broker %d is fenced since %d: %s", id, last.GetMetadataOffset(), orUnknown(reason(last)))
		}
		return fmt.Sprintf("broker %d is fenced", id)
	case b.InControlledShutdown:
		return fmt.Sprintf("broker %d is shutting down", id)
	}
	return ""
}

func alive(img *fsm.Image, ids []int32) []int32 {
	list := []int32{}
	for _, id := range ids {
		if b, ok := img.Broker(id); ok && b.Active() {
			list = append(list, id)
		}
	}
	return list
}
