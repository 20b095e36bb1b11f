package controller

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// maxRehearsedPartitions bounds the partitions that a rehearsal shows (I20). Their number is told besides.
const maxRehearsedPartitions = 1_000

// Rehearsable makes a decision that can be rehearsed of one that changes something: a request with validate_only is
// decided like any other, on a fork of the image, and answered with what it would have written. It changes nothing.
//
// Topic ids and places are drawn from dice that fall the same for the same image, so that a request writes the records
// that its rehearsal showed, unless something else was decided in between.
func Rehearsable[Req, Resp any](decide func(*fsm.Image, *Env, Req) Decision[Resp]) func(*fsm.Image, *Env, Req) Decision[Resp] {
	return func(img *fsm.Image, env *Env, req Req) Decision[Resp] {
		fair := *env
		fair.Rand = diceOf(img)
		asked, rehearsed := inEarnest(req)
		d := decide(img, &fair, asked)
		if !rehearsed || d.Refused != nil {
			return d
		}
		r, err := fair.rehearse(img, d.Batches)
		if err != nil {
			return refuse[Resp](controllerv1.ErrorCode_ERROR_CODE_UNKNOWN_SERVER_ERROR, "the decision does not fold: %v", err)
		}
		setRehearsal(d.Reply, r)
		return Decision[Resp]{Reply: d.Reply}
	}
}

// diceOf are seeded with everything that tells one image from another.
func diceOf(img *fsm.Image) *rand.Rand {
	lineage, digest := img.Lineage().ID, img.Digest()
	seed := append([]byte("skiff.dice.1"), lineage.UUID[:]...)
	seed = binary.BigEndian.AppendUint64(seed, uint64(img.NextOffset())) //nolint:gosec // the bits, not the number
	return rand.New(rand.NewChaCha8(sha256.Sum256(append(seed, digest[:]...))))
}

// IsRehearsal tells whether a request only asks what it would do.
func IsRehearsal(req any) bool {
	_, rehearsed := inEarnest(req)
	return rehearsed
}

// inEarnest is the request without validate_only, and whether that was set.
func inEarnest[Req any](req Req) (Req, bool) {
	m, ok := any(req).(proto.Message)
	if !ok {
		return req, false
	}
	field := m.ProtoReflect().Descriptor().Fields().ByName("validate_only")
	if field == nil || field.Kind() != protoreflect.BoolKind || !m.ProtoReflect().Get(field).Bool() {
		return req, false
	}
	earnest := proto.Clone(m)
	earnest.ProtoReflect().Clear(field)
	typed, ok := any(earnest).(Req)
	return typed, ok
}

// setRehearsal fills in the reply's field of that name.
func setRehearsal(reply any, r *controllerv1.Rehearsal) {
	m, ok := reply.(proto.Message)
	if !ok {
		return
	}
	if field := m.ProtoReflect().Descriptor().Fields().ByName("rehearsal"); field != nil {
		m.ProtoReflect().Set(field, protoreflect.ValueOfMessage(r.ProtoReflect()))
	}
}

// rehearse folds the batches into a fork of the image and compares.
func (e *Env) rehearse(img *fsm.Image, batches []*metadatav1.Batch) (*controllerv1.Rehearsal, error) {
	r := &controllerv1.Rehearsal{MetadataOffset: img.AppliedOffset(), Before: clusterState(img), After: clusterState(img)}
	if len(batches) == 0 {
		return r, nil
	}
	after, delta, err := fsm.FoldBatches(img, batches, img.ControllerEpoch())
	if err != nil {
		return nil, err
	}
	for _, b := range batches {
		r.Records = append(r.Records, b.GetRecords()...)
	}
	r.After = clusterState(after)
	e.comparePartitions(r, img, after, delta)
	r.Brokers = compareLoads(img, after)
	r.Irreversible = irreversible(img, after, delta, r.GetRecords())
	return r, nil
}

func clusterState(img *fsm.Image) *controllerv1.RehearsedCluster {
	s := &controllerv1.RehearsedCluster{Leaderless: int32(img.NumLeaderless())} //nolint:gosec // no image has so many partitions
	for b := range img.Brokers() {
		if b.Active() {
			s.ActiveBrokers++
		}
	}
	for range img.Controllers() {
		s.Controllers++
	}
	s.QuorumMargin = max(0, s.GetControllers()-1) / 2
	return s
}

func (e *Env) comparePartitions(r *controllerv1.Rehearsal, before, after *fsm.Image, delta *fsm.Delta) {
	first := true
	for _, t := range delta.Topics {
		for _, p := range t.Partitions {
			r.PartitionsChanged++
			change := &controllerv1.RehearsedPartition{
				Topic: t.Name, PartitionId: p.Partition, Before: e.partitionState(before, t.Name, p.Old), After: e.partitionState(after, t.Name, p.New),
			}
			if len(r.GetPartitions()) < maxRehearsedPartitions {
				r.Partitions = append(r.Partitions, change)
			}
			r.Before.MinMargin = smallest(first, r.GetBefore().GetMinMargin(), change.GetBefore())
			r.After.MinMargin = smallest(first, r.GetAfter().GetMinMargin(), change.GetAfter())
			first = false
		}
	}
}

func smallest(first bool, margin int32, s *controllerv1.RehearsedState) int32 {
	if s == nil || (!first && margin < s.GetMargin()) {
		return margin
	}
	return s.GetMargin()
}

// partitionState is what clients notice of a partition, nil for one that there is not.
func (e *Env) partitionState(img *fsm.Image, topic string, p *fsm.Partition) *controllerv1.RehearsedState {
	if p == nil {
		return nil
	}
	racks := map[string]bool{}
	for _, id := range p.Replicas {
		if b, ok := img.Broker(id); ok {
			racks[b.Rack] = true
		}
	}
	minISR := int(topicconfig.Of(img, e.Defaults.Topics, topic).MinInSyncReplicas)
	return &controllerv1.RehearsedState{
		Leader: p.Leader, Replicas: p.Replicas, Isr: p.ISR, Adding: p.Adding, Removing: p.Removing,
		Racks: int32(len(racks)), Margin: int32(len(p.ISR) - min(minISR, len(p.Replicas))), //nolint:gosec // both are small
	}
}

// compareLoads lists the brokers whose number of leaderships or replicas changes.
func compareLoads(before, after *fsm.Image) []*controllerv1.RehearsedBroker {
	racks := map[int32]string{}
	for _, img := range []*fsm.Image{after, before} {
		for b := range img.Brokers() {
			racks[b.ID] = b.Rack
		}
	}
	var list []*controllerv1.RehearsedBroker
	for id, rack := range racks {
		b := &controllerv1.RehearsedBroker{
			BrokerId: id, Rack: rack,
			LeadersBefore: int32(before.NumLedBy(id)), LeadersAfter: int32(after.NumLedBy(id)), //nolint:gosec // no broker has so many
			ReplicasBefore: int32(before.NumReplicasOf(id)), ReplicasAfter: int32(after.NumReplicasOf(id)), //nolint:gosec // the same
		}
		if b.GetLeadersBefore() != b.GetLeadersAfter() || b.GetReplicasBefore() != b.GetReplicasAfter() {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(a, b *controllerv1.RehearsedBroker) int { return int(a.GetBrokerId()) - int(b.GetBrokerId()) })
	return list
}

// irreversible says what no later request brings back.
func irreversible(before, after *fsm.Image, delta *fsm.Delta, records []*metadatav1.Record) []string {
	var said []string
	for _, t := range delta.Topics {
		switch {
		case t.New == nil:
			said = append(said, fmt.Sprintf("topic %s is deleted with its %d partitions; brokers keep the records for 24 hours, in which `skiff topic undelete` brings them back",
				t.Name, t.Old.NumPartitions()))
			continue
		case t.Old != nil && t.New.NumPartitions() > t.Old.NumPartitions():
			said = append(said, fmt.Sprintf("topic %s has %d partitions from then on: partitions cannot be taken away, and keys map to other ones",
				t.Name, t.New.NumPartitions()))
		}
		for _, p := range t.Partitions {
			if p.Old != nil && p.New != nil && p.New.Recovering && !p.Old.Recovering {
				said = append(said, fmt.Sprintf("%s-%d: what broker %d does not have is lost, also what was acknowledged", t.Name, p.Partition, p.New.Leader))
			}
		}
	}
	for _, b := range delta.Brokers {
		if b.New == nil {
			said = append(said, fmt.Sprintf("broker %d is forgotten; it still stands in %d replica lists, and registers again if its process lives",
				b.ID, after.NumReplicasOf(b.ID)))
		}
	}
	return bounded(append(said, lostELRs(before, records)...))
}

// lostELRs says which eligible replicas are forgotten.
func lostELRs(before *fsm.Image, records []*metadatav1.Record) []string {
	for _, r := range records {
		if r.GetClearElr() != nil && before.FeatureLevel(fsm.FeatureELR) > 0 {
			return []string{"lists of eligible replicas are emptied: until the ISRs are large enough again, a lost ISR can be replaced only uncleanly"}
		}
	}
	return nil
}

// maxSentences bounds the sentences of a rehearsal (I20).
const maxSentences = 100

func bounded(said []string) []string {
	if len(said) <= maxSentences {
		return said
	}
	return append(said[:maxSentences], fmt.Sprintf("and %d more of this kind", len(said)-maxSentences))
}
