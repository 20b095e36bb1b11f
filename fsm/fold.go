package fsm

import (
	"fmt"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// fold is one entry being folded: a private copy of the image and what was touched. Topics are edited beside the
// image and written back once at the end, so that a batch copies each touched chunk once.
type fold struct {
	base *Image
	// img is the image under construction. Its topics, index and objects are brought up to date by finish.
	img             *Image
	controllerEpoch int64
	claimAllowed    bool
	edits           map[UUID]*topicEdit
	// order of the edits, so that the same entry always finds the same fault first.
	order []UUID
	// brokers, controllers and configs are what the entry touched; brokers with the registration before it. Like
	// edits they are made when first written to: most entries touch one kind of object.
	brokers     map[int32]*Broker
	controllers map[int32]struct{}
	configs     map[ConfigResource]struct{}
	recoveries  map[PartitionID]struct{}
	features    map[string]struct{}
	quotas      map[quotaID]struct{}
	producerIDs bool
	claimed     bool
	confirmed   bool
	answered    bool
	// touched since the batch began, for the invariants that hold at its end only.
	touched batchTouched
}

// batchTouched lists in order of the records; what was touched twice is there twice.
type batchTouched struct {
	partitions []PartitionID
	topics     []UUID
	// fenced brokers were unfenced until a record of the batch fenced or removed them.
	fenced []int32
}

func newFold(base *Image, controllerEpoch int64) *fold {
	img := *base
	return &fold{base: base, img: &img, controllerEpoch: controllerEpoch}
}

func (f *fold) batches(batches []*metadatav1.Batch) error {
	for i, b := range batches {
		if err := f.batch(b); err != nil {
			return fmt.Errorf("batch %d: %w", i, err)
		}
	}
	return nil
}

func (f *fold) batch(b *metadatav1.Batch) error {
	f.touched = batchTouched{}
	for i, r := range b.GetRecords() {
		if err := f.record(r); err != nil {
			return fmt.Errorf("record %d at metadata offset %d: %w", i, f.img.nextOffset, err)
		}
		f.img.nextOffset++
	}
	f.img.lastBatchTimeMs = b.GetTimeMs()
	return f.checkBatchEnd()
}

// record folds one fact. Every kind that a log may hold has a case here.
func (f *fold) record(r *metadatav1.Record) error {
	switch k := r.GetKind().(type) {
	case *metadatav1.Record_PartitionChange:
		return f.partitionChange(k.PartitionChange)
	case *metadatav1.Record_Partition:
		return f.partition(k.Partition)
	case *metadatav1.Record_Topic:
		return f.topic(k.Topic)
	case *metadatav1.Record_RemoveTopic:
		return f.removeTopic(k.RemoveTopic)
	case *metadatav1.Record_RegisterBroker:
		return f.registerBroker(k.RegisterBroker)
	case *metadatav1.Record_UnregisterBroker:
		return f.unregisterBroker(k.UnregisterBroker)
	case *metadatav1.Record_BrokerRegistrationChange:
		return f.brokerRegistrationChange(k.BrokerRegistrationChange)
	case *metadatav1.Record_Config:
		return f.config(k.Config)
	case *metadatav1.Record_ProducerIds:
		return f.producerIds(k.ProducerIds)
	case *metadatav1.Record_ControllerClaimed:
		return f.controllerClaimed(k.ControllerClaimed)
	case *metadatav1.Record_ControllerRegistered:
		return f.controllerRegistered(k.ControllerRegistered)
	case *metadatav1.Record_FeatureLevel:
		return f.featureLevel(k.FeatureLevel)
	case *metadatav1.Record_ClearElr:
		return f.clearELR(k.ClearElr)
	case *metadatav1.Record_ClientQuota:
		return f.clientQuota(k.ClientQuota)
	case *metadatav1.Record_LineageConfirmed:
		return f.lineageConfirmed()
	case *metadatav1.Record_RecoveryElected:
		return f.recoveryElected(k.RecoveryElected)
	case *metadatav1.Record_RequestAnswered:
		return f.requestAnswered(k.RequestAnswered)
	case *metadatav1.Record_LineageStarted:
		// It is folded offline only: a lineage that began in its own ancestor's log could begin twice.
		return violation(0, "lineage", "LineageStarted is never in an entry")
	default:
		return violation(0, "record", "no kind that this build knows")
	}
}

// finish writes the edited topics back and returns the image and what changed.
func (f *fold) finish() (*Image, *Delta) {
	d := &Delta{
		From:        f.base.nextOffset,
		To:          f.img.nextOffset,
		Lineage:     f.img.lineage.ID,
		ProducerIDs: f.producerIDs,
		Claimed:     f.claimed,
		Confirmed:   f.confirmed,
		Answered:    f.answered,
	}
	for _, id := range f.order {
		if t := f.write(id, f.edits[id]); t != nil {
			d.Topics = append(d.Topics, *t)
		}
	}
	for id, old := range f.brokers {
		now, _ := f.img.brokers.Get(id)
		if old != nil || now != nil {
			d.Brokers = append(d.Brokers, BrokerDelta{ID: id, Old: old, New: now})
		}
	}
	for id := range f.controllers {
		d.Controllers = append(d.Controllers, id)
	}
	for r := range f.configs {
		d.Configs = append(d.Configs, r)
	}
	for id := range f.recoveries {
		d.Recoveries = append(d.Recoveries, id)
	}
	for name := range f.features {
		d.Features = append(d.Features, name)
	}
	d.Quotas = quotaEntities(f.quotas)
	d.sort()
	f.img.seal()
	return f.img, d
}

func (f *fold) add(s sum) { f.img.objects = f.img.objects.add(s) }

func (f *fold) remove(s sum) { f.img.objects = f.img.objects.sub(s) }

// put is m[k] = v for a map that is made when it is first written to.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}
