package fsm

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// snapshotStream judges the frames of a snapshot in order, whoever splits them: the reader that pulls them or the
// verifier that they are pushed through. It holds no frame longer than the call.
type snapshotStream struct {
	// load is called for every object, in the stream's order; nil when nobody wants them.
	load func(*snapshotObject) error
	// measure is called for every record that was judged; nil when nobody wants them.
	measure func(*metadatav1.Record, *snapshotObject)
	// format and featureLevel of the header.
	format       uint32
	featureLevel int32

	guard   guard
	objects sum
	counts  map[uint32]uint64
	// partitions reads most of the records; object is what one of them states.
	partitions partitionReader
	object     snapshotObject
	order      recordOrder
	begun      bool
	done       bool
	digest     Digest
}

func newSnapshotStream(load func(*snapshotObject) error) *snapshotStream {
	return &snapshotStream{load: load, counts: make(map[uint32]uint64)}
}

// frame judges the next frame, whose checksum was verified.
func (s *snapshotStream) frame(kind frameKind, payload []byte) error {
	switch {
	case s.done:
		return errors.New("a frame after the trailer")
	case (kind == headerFrame) == s.begun:
		return fmt.Errorf("frame of kind %d where the header must be first and only once", kind)
	case kind == headerFrame:
		return s.header(payload)
	case kind == chunkFrame:
		return s.chunk(payload)
	default:
		return s.trailer(payload)
	}
}

func unmarshalKnown(payload []byte, m proto.Message) error {
	if err := proto.Unmarshal(payload, m); err != nil {
		return err
	}
	return refuseUnknown(m.ProtoReflect())
}

func (s *snapshotStream) header(payload []byte) error {
	h := &metadatav1.SnapshotHeader{}
	if err := proto.Unmarshal(payload, h); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if h.GetFormat() > snapshotFormat {
		return fmt.Errorf("header: %w", &NewerSnapshotError{What: "snapshot format", Needs: int64(h.GetFormat()), Knows: snapshotFormat})
	}
	if h.GetFormat() != snapshotFormat {
		return fmt.Errorf("header: format %d is not known, this build knows %d", h.GetFormat(), snapshotFormat)
	}
	if h.GetFeatureLevel() > featureLevel {
		return fmt.Errorf("header: %w", &NewerSnapshotError{What: "feature level", Needs: int64(h.GetFeatureLevel()), Knows: featureLevel})
	}
	s.format, s.featureLevel = h.GetFormat(), h.GetFeatureLevel()
	if err := refuseUnknown(h.ProtoReflect()); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	lineage, err := lineageFromProto(h.GetLineage(), h.GetAncestors())
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	s.guard = guard{
		clusterID:       h.GetClusterId(),
		lineage:         lineage,
		nextOffset:      h.GetNextMetadataOffset(),
		epochBase:       h.GetEpochBase(),
		controllerEpoch: h.GetControllerEpoch(),
		claimOffset:     h.GetClaimOffset(),
		lastBatchTimeMs: h.GetLastBatchTimeMs(),
		unconfirmed:     h.GetUnconfirmed(),
	}
	if (h.Claim != nil) != (h.GetClaimOffset() >= 0) {
		return fmt.Errorf("header: claim offset %d, claim present %t", h.GetClaimOffset(), h.Claim != nil)
	}
	if h.Claim != nil {
		if s.guard.claim, err = claimFromRecord(h.GetClaim()); err != nil {
			return fmt.Errorf("header: claim: %w", err)
		}
	}
	if v := s.guard.check(); v != nil {
		return fmt.Errorf("header: %w", v)
	}
	s.begun = true
	return nil
}

// chunk splits a SnapshotChunk into its records.
func (s *snapshotStream) chunk(payload []byte) error {
	if len(payload) == 0 {
		return errors.New("chunk: no record")
	}
	for i := 0; len(payload) > 0; i++ {
		field, kind, n := protowire.ConsumeTag(payload)
		if n < 0 || field != fieldRecords || kind != protowire.BytesType {
			return fmt.Errorf("chunk: after record %d: field %d of type %d is not known", i, field, kind)
		}
		record, m := protowire.ConsumeBytes(payload[n:])
		if m < 0 {
			return fmt.Errorf("chunk: record %d: %w", i, protowire.ParseError(m))
		}
		payload = payload[n+m:]
		if err := s.encodedRecord(record); err != nil {
			return fmt.Errorf("chunk: record %d: %w", i, err)
		}
	}
	return nil
}

func (s *snapshotStream) encodedRecord(b []byte) error {
	if s.partitions.read(b) {
		return s.partitionRecord(&s.partitions)
	}
	r := &metadatav1.Record{}
	if err := unmarshalKnown(b, r); err != nil {
		return err
	}
	return s.record(r)
}

func (s *snapshotStream) record(r *metadatav1.Record) error {
	if err := s.order.next(r); err != nil {
		return err
	}
	o, err := objectFromRecord(r)
	if err != nil {
		return err
	}
	s.objects = s.objects.add(o.sum)
	s.counts[recordKind(r)]++
	s.guard.nextProducerID = max(s.guard.nextProducerID, o.nextProducerID)
	if s.measure != nil {
		s.measure(r, &o)
	}
	if s.load == nil {
		return nil
	}
	return s.load(&o)
}

func (s *snapshotStream) trailer(payload []byte) error {
	t := &metadatav1.SnapshotTrailer{}
	if err := unmarshalKnown(payload, t); err != nil {
		return fmt.Errorf("trailer: %w", err)
	}
	if err := s.checkCounts(t.GetCounts()); err != nil {
		return fmt.Errorf("trailer: %w", err)
	}
	s.digest = s.objects.add(s.guard.sum()).digest()
	if string(t.GetDigest()) != string(s.digest[:]) {
		return fmt.Errorf("trailer: digest is %x, the records have %s", t.GetDigest(), s.digest)
	}
	s.done = true
	return nil
}

func (s *snapshotStream) checkCounts(counts []*metadatav1.SnapshotCount) error {
	kinds := slices.Sorted(maps.Keys(s.counts))
	if len(counts) != len(kinds) {
		return fmt.Errorf("%d kinds are counted, %d were read", len(counts), len(kinds))
	}
	for i, c := range counts {
		if c.GetKind() != kinds[i] || c.GetCount() != s.counts[kinds[i]] {
			return fmt.Errorf("%d records of kind %d are counted, %d of kind %d were read", c.GetCount(), c.GetKind(), s.counts[kinds[i]], kinds[i])
		}
	}
	return nil
}
