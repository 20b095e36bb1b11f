package fsm

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

const (
	// snapshotFormat is the format in a snapshot's header.
	snapshotFormat = 1
	// featureLevel that every record of this build needs.
	featureLevel = 1
	// recordOverhead is the most that a record costs in a chunk besides its own bytes: tag and length.
	recordOverhead = 6
)

// WriteSnapshot writes the image as a stream in a fixed order, so that one build always writes the same bytes for
// one image. Nodes compare digests and never these bytes.
func WriteSnapshot(img *Image, w io.Writer) error {
	s := &snapshotWriter{w: w, counts: make(map[uint32]uint64)}
	if _, err := w.Write(preamble()); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	s.frame(headerFrame, img.header())
	s.registrations(img)
	s.topics(img)
	s.settings(img)
	s.recoveries(img)
	s.lateKinds(img)
	s.flush()
	s.frame(trailerFrame, s.trailer(img))
	if s.err != nil {
		return fmt.Errorf("write snapshot: %w", s.err)
	}
	return nil
}

// snapshotWriter gathers encoded records into chunks. Its first error stays.
type snapshotWriter struct {
	w io.Writer
	// chunk is the payload of the chunk that is being filled, room what the next record is encoded into.
	chunk, room []byte
	counts      map[uint32]uint64
	buf         []byte
	err         error
}

func (s *snapshotWriter) frame(kind frameKind, m proto.Message) {
	if s.err != nil {
		return
	}
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		s.err = err
		return
	}
	s.payload(kind, payload)
}

func (s *snapshotWriter) payload(kind frameKind, payload []byte) {
	if s.err != nil {
		return
	}
	if len(payload) > maxFrameBytes {
		s.err = fmt.Errorf("frame of %d bytes, at most %d", len(payload), maxFrameBytes)
		return
	}
	s.buf = appendFrame(s.buf[:0], kind, payload)
	_, s.err = s.w.Write(s.buf)
}

func (s *snapshotWriter) record(r *metadatav1.Record) {
	if s.err != nil {
		return
	}
	if s.room, s.err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(s.room[:0], r); s.err == nil {
		s.encoded(recordKind(r), s.room)
	}
}

// partition is record for a partition.
func (s *snapshotWriter) partition(id PartitionID, p *Partition) {
	if s.err != nil {
		return
	}
	s.room = appendPartition(s.room[:0], id, p)
	size := len(s.room)
	s.room = protowire.AppendTag(s.room, partitionKind, protowire.BytesType)
	s.room = protowire.AppendBytes(s.room, s.room[:size])
	s.encoded(partitionKind, s.room[size:])
}

// encoded adds a record to the chunk, after the chunk was written if the record does not fit.
func (s *snapshotWriter) encoded(kind uint32, record []byte) {
	if len(s.chunk) > 0 && len(s.chunk)+len(record)+recordOverhead > chunkBytes {
		s.flush()
	}
	s.chunk = protowire.AppendTag(s.chunk, fieldRecords, protowire.BytesType)
	s.chunk = protowire.AppendBytes(s.chunk, record)
	s.counts[kind]++
}

func (s *snapshotWriter) flush() {
	if len(s.chunk) == 0 {
		return
	}
	s.payload(chunkFrame, s.chunk)
	s.chunk = s.chunk[:0]
}

func (s *snapshotWriter) registrations(img *Image) {
	for n := range img.Controllers() {
		s.record(&metadatav1.Record{Kind: &metadatav1.Record_ControllerRegistered{ControllerRegistered: n.Record()}})
	}
	for b := range img.Brokers() {
		s.record(&metadatav1.Record{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: b.Record()}})
	}
}

func (s *snapshotWriter) topics(img *Image) {
	for t := range img.Topics() {
		s.record(&metadatav1.Record{Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{Name: t.name, TopicId: t.id.Bytes()}}})
		for i, p := range t.Partitions() {
			s.partition(PartitionID{Topic: t.id, Partition: i}, &p)
		}
	}
}

func (s *snapshotWriter) settings(img *Image) {
	for it := img.configs.Iterator(); !it.Done(); {
		r, entries, _ := it.Next()
		for _, e := range entries {
			s.record(&metadatav1.Record{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
				ResourceType: r.Type, ResourceName: r.Name, Key: e.Key, Value: proto.String(e.Value),
			}}})
		}
	}
	if img.nextProducerID > 0 {
		s.record(&metadatav1.Record{Kind: &metadatav1.Record_ProducerIds{ProducerIds: &metadatav1.ProducerIDs{
			BrokerId: -1, BrokerEpoch: -1, NextProducerId: img.nextProducerID,
		}}})
	}
}

func (s *snapshotWriter) recoveries(img *Image) {
	for id, e := range img.RecoveryElections() {
		s.record(&metadatav1.Record{Kind: &metadatav1.Record_RecoveryElected{RecoveryElected: e.Record(id)}})
	}
}

func (s *snapshotWriter) lateKinds(img *Image) {
	for name, level := range img.FeatureLevels() {
		s.record(&metadatav1.Record{Kind: &metadatav1.Record_FeatureLevel{FeatureLevel: &metadatav1.FeatureLevel{Name: name, Level: level}}})
	}
	for q := range img.Quotas() {
		s.record(&metadatav1.Record{Kind: &metadatav1.Record_ClientQuota{ClientQuota: q.Record()}})
	}
	for a := range img.Answers() {
		s.record(&metadatav1.Record{Kind: &metadatav1.Record_RequestAnswered{RequestAnswered: a.Record()}})
	}
}

func (s *snapshotWriter) trailer(img *Image) *metadatav1.SnapshotTrailer {
	t := &metadatav1.SnapshotTrailer{Digest: img.digest[:]}
	for _, kind := range slices.Sorted(maps.Keys(s.counts)) {
		t.Counts = append(t.Counts, &metadatav1.SnapshotCount{Kind: kind, Count: s.counts[kind]})
	}
	return t
}

func (img *Image) header() *metadatav1.SnapshotHeader {
	h := &metadatav1.SnapshotHeader{
		Format:             snapshotFormat,
		ClusterId:          img.clusterID,
		Lineage:            img.lineage.ID.Proto(),
		Ancestors:          img.lineage.ancestorsProto(),
		NextMetadataOffset: img.nextOffset,
		EpochBase:          img.epochBase,
		ControllerEpoch:    img.controllerEpoch,
		ClaimOffset:        img.claimOffset,
		LastBatchTimeMs:    img.lastBatchTimeMs,
		FeatureLevel:       featureLevel,
		Unconfirmed:        img.unconfirmed,
	}
	if claim, ok := img.Claim(); ok {
		h.Claim = claim.record()
	}
	return h
}
