package metadata

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

const testCluster = "AAAAAAAAAAAAAAAAAAAAAQ"

func uuid(n byte) fsm.UUID { return fsm.UUID{15: n} }

// history writes metadata as a quorum would: each method makes an entry that took effect.
type history struct {
	t   *testing.T
	img *fsm.Image
}

// newHistory begins the lineage {number, uuid(number)} with the given ancestors.
func newHistory(t *testing.T, number uint64, ancestors ...uint64) *history {
	t.Helper()
	born := &metadatav1.LineageStarted{
		ClusterId: testCluster, NextMetadataOffset: 1, EpochBase: int64(number) << 20,
		Lineage: fsm.LineageID{Number: number, UUID: uuid(byte(number))}.Proto(),
	}
	if number > 1 {
		born.NextMetadataOffset = int64(number) << 44
	}
	for _, a := range ancestors {
		born.Ancestors = append(born.Ancestors, &metadatav1.LineageAncestor{Uuid: uuid(byte(a)).Bytes(), ForkOffset: 1})
	}
	img, err := fsm.Genesis(born)
	if err != nil {
		t.Fatal(err)
	}
	h := &history{t: t, img: img}
	h.claim()
	return h
}

func (h *history) claim() *controllerv1.EntryApplied {
	rec := &metadatav1.Record{Kind: &metadatav1.Record_ControllerClaimed{ControllerClaimed: &metadatav1.ControllerClaimed{
		NodeId: 101, DirectoryId: uuid(2).Bytes(), IncarnationId: uuid(3).Bytes(), Nonce: uuid(4).Bytes(),
	}}}
	env := &metadatav1.Envelope{Format: 1, ClusterId: testCluster, Lineage: h.img.Lineage().ID.Proto(), Batches: []*metadatav1.Batch{batch(h.img, rec)}}
	return h.apply(env, h.img.ControllerEpoch()+h.img.EpochBase()+1)
}

func batch(img *fsm.Image, records ...*metadatav1.Record) *metadatav1.Batch {
	return &metadatav1.Batch{
		TimeMs: img.LastBatchTimeMs() + 1, RequestId: uuid(9).Bytes(), Cause: &metadatav1.Cause{Principal: "controller", RequestKind: "Test"},
		Reason: &metadatav1.Reason{Code: "test", Text: "a test"}, Records: records,
	}
}

// change makes an entry that changes something.
func (h *history) change(n int) *controllerv1.EntryApplied {
	value := strconv.Itoa(1_000_000 + n)
	return h.record(&metadatav1.Record{Kind: &metadatav1.Record_Config{Config: &metadatav1.Config{
		ResourceType: metadatav1.ConfigResourceType_CONFIG_RESOURCE_TYPE_BROKER, Key: "message.max.bytes", Value: &value,
	}}})
}

func (h *history) record(records ...*metadatav1.Record) *controllerv1.EntryApplied {
	epoch, claim, first, digest := h.img.ControllerEpoch(), h.img.ClaimOffset(), h.img.NextOffset(), h.img.Digest().Prefix()
	return h.apply(&metadatav1.Envelope{
		Format: 1, ClusterId: testCluster, Lineage: h.img.Lineage().ID.Proto(), ControllerEpoch: &epoch, ClaimOffset: &claim,
		FirstMetadataOffset: &first, DigestBefore: &digest, Batches: []*metadatav1.Batch{batch(h.img, records...)},
	}, epoch)
}

func (h *history) apply(env *metadatav1.Envelope, epoch int64) *controllerv1.EntryApplied {
	h.t.Helper()
	b, err := fsm.EncodeEnvelope(env)
	if err != nil {
		h.t.Fatal(err)
	}
	decoded, err := fsm.DecodeEnvelope(b)
	if err != nil {
		h.t.Fatal(err)
	}
	res := fsm.Apply(h.img, fsm.Entry{Envelope: decoded, ControllerEpoch: epoch})
	if res.Outcome != fsm.Applied {
		h.t.Fatal(fmt.Errorf("entry: %v: %w", res.Outcome, reason(res)))
	}
	h.img = res.Image
	return &controllerv1.EntryApplied{FirstMetadataOffset: res.FirstOffset, ControllerEpoch: res.ControllerEpoch, Envelope: b}
}
