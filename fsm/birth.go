package fsm

import (
	"fmt"
	"math"
	"slices"
)

// VoidEpoch is the broker epoch of a registration that an earlier lineage made. It is legal only for a fenced broker,
// no call with it is served, and the broker registers anew, also the same incarnation.
const VoidEpoch int64 = -1

// What a birth adds to the numbers of the image, for each lineage number that it goes on by. The image may be older than
// what brokers and clients have seen, and by how much nobody knows; the steps are wider than any lineage gets in its life.
// They are taken for each number because one file may be restored twice: what the first of the two lineages gave out is
// then not in it, and the second is told of the first by its number.
const (
	// lineageOffsets is the number of metadata offsets that belong to each lineage number.
	lineageOffsets = 1 << 44
	// lineageEpochs is the number of controller epochs that belong to each lineage number.
	lineageEpochs = 1 << 20
	// lineageProducerIDs are left out of what is given to producers.
	lineageProducerIDs = 1 << 32
	// partitionEpochs are left out of the leader epochs and of the partition epochs.
	partitionEpochs = 1 << 16
	// maxLineageNumber keeps a lineage's offsets below 2^63.
	maxLineageNumber = math.MaxInt64/lineageOffsets - 1
)

// Birth says what lineage begins, and what is known of the lineages before it besides the image that it begins from.
type Birth struct {
	// ClusterID of the cluster from now on: the image's own or a new one.
	ClusterID string
	// UUID of the lineage that begins.
	UUID UUID
	// Number of the lineage, greater than any that a witness shows; 0 for one more than the image's.
	Number uint64
	// KnownNextOffset is the greatest next metadata offset that a witness shows, 0 for none.
	KnownNextOffset int64
	// KnownEpoch is the greatest controller epoch that a witness shows, 0 for none.
	KnownEpoch int64
}

// Rebirth begins a new lineage from an image. Whatever an earlier lineage gave out (metadata offsets, controller epochs,
// leader epochs, partition epochs, broker epochs, producer ids) is not given out again (I6, I9), also when the image is
// older than the last of it. The new lineage trusts no leader and no ISR: every partition awaits the inventories of its
// replicas. It is unconfirmed until a LineageConfirmed is folded.
func Rebirth(img *Image, b Birth) (*Image, error) {
	g, err := img.guard.reborn(b)
	if err != nil {
		return nil, fmt.Errorf("rebirth: %w", err)
	}
	a := newAssembly()
	for b := range img.Brokers() {
		a.brokers.Set(b.ID, b.reborn())
	}
	for t := range img.Topics() {
		if err := a.addReborn(t, g.lineage.ID.Number-img.lineage.ID.Number); err != nil {
			return nil, fmt.Errorf("rebirth: %w", err)
		}
	}
	// What is not named here stays as it is.
	born := *img
	born.guard = g
	built := a.image(g, sum{})
	born.brokers, born.controllers, born.recoveries = built.brokers, built.controllers, built.recoveries
	born.topics, born.names, born.index = built.topics, built.names, built.index
	born.objects = born.sumObjects()
	born.seal()
	return &born, nil
}

// reborn is the guard's state at the birth of a lineage.
func (g *guard) reborn(b Birth) (guard, error) {
	number, err := g.rebornNumber(b)
	if err != nil {
		return guard{}, err
	}
	if _, err := ParseUUID(b.ClusterID); err != nil {
		return guard{}, fmt.Errorf("cluster id: %w", err)
	}
	if b.UUID.IsZero() || g.lineage.contains(b.UUID) {
		return guard{}, fmt.Errorf("lineage uuid %s is zero or names an earlier lineage", b.UUID)
	}
	if len(g.lineage.Ancestors) >= maxAncestors {
		return guard{}, fmt.Errorf("lineage %s has %d ancestors already", g.lineage.ID, maxAncestors)
	}
	next := max(g.nextOffset, b.KnownNextOffset, int64(number)*lineageOffsets)
	epochBase := max(g.controllerEpoch, g.epochBase, b.KnownEpoch, int64(number)*lineageEpochs)
	producerIDs := int64(number-g.lineage.ID.Number) * lineageProducerIDs //nolint:gosec // maxLineageNumber bounds it
	if next > math.MaxInt64-lineageOffsets || epochBase > math.MaxInt64-2*lineageEpochs || g.nextProducerID > math.MaxInt64-producerIDs {
		return guard{}, fmt.Errorf("next metadata offset %d, controller epoch %d or next producer id %d leaves no room", next, epochBase, g.nextProducerID)
	}
	return guard{
		clusterID: b.ClusterID,
		lineage: Lineage{
			ID:        LineageID{Number: number, UUID: b.UUID},
			Ancestors: append(slices.Clone(g.lineage.Ancestors), Ancestor{UUID: g.lineage.ID.UUID, ForkOffset: g.nextOffset}),
		},
		nextOffset:      next,
		epochBase:       epochBase + lineageEpochs,
		claimOffset:     -1,
		lastBatchTimeMs: g.lastBatchTimeMs,
		nextProducerID:  g.nextProducerID + producerIDs,
		unconfirmed:     true,
	}, nil
}

func (g *guard) rebornNumber(b Birth) (uint64, error) {
	number := b.Number
	if number == 0 {
		number = g.lineage.ID.Number + 1
	}
	if number <= g.lineage.ID.Number || number > maxLineageNumber {
		return 0, fmt.Errorf("lineage number %d after %d, at most %d", number, g.lineage.ID.Number, maxLineageNumber)
	}
	return number, nil
}

// contains reports whether u names the lineage or one of its ancestors.
func (l Lineage) contains(u UUID) bool {
	return l.ID.UUID == u || slices.ContainsFunc(l.Ancestors, func(a Ancestor) bool { return a.UUID == u })
}

// reborn is the registration in a new lineage: known, and void until the broker registers again.
func (b *Broker) reborn() *Broker {
	c := *b
	c.Epoch = VoidEpoch
	c.Fenced = true
	c.InControlledShutdown = false
	return &c
}

// addReborn takes a topic over with no leader and no ISR.
func (a *assembly) addReborn(t *Topic, lineages uint64) error {
	a.beginTopic(t.id, t.name)
	for i, p := range t.Partitions() {
		if err := p.forget(lineages); err != nil {
			return fmt.Errorf("%s: %w", partitionName{t.name, i}, err)
		}
		a.addPartition(&p)
	}
	return nil
}

// forget takes from a partition what only the lineages before can vouch for.
func (p *Partition) forget(lineages uint64) error {
	if lineages >= math.MaxInt32/partitionEpochs || uint64(max(p.LeaderEpoch, p.PartitionEpoch)) > math.MaxInt32-(lineages+1)*partitionEpochs { //nolint:gosec // epochs are not negative
		return fmt.Errorf("leader epoch %d or partition epoch %d leaves no room for a new lineage", p.LeaderEpoch, p.PartitionEpoch)
	}
	step := int32(lineages) * partitionEpochs //nolint:gosec // bounded above
	p.LeaderEpoch += step
	p.PartitionEpoch += step
	p.Leader, p.ISR, p.ELR, p.LastKnownELR = NoLeader, nil, nil, nil
	p.Recovering, p.AwaitingInventory = false, true
	return nil
}
