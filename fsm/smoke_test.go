package fsm

import (
	"bytes"
	"testing"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

func TestSmoke(t *testing.T) {
	u := func(b byte) []byte { var x UUID; x[0] = b; return x.Bytes() }
	var cid UUID
	cid[3] = 9
	img, err := Genesis(&metadatav1.LineageStarted{ClusterId: cid.String(), Lineage: &metadatav1.LineageID{Number: 1, Uuid: u(1)}, NextMetadataOffset: 1})
	if err != nil {
		t.Fatal(err)
	}
	env := &metadatav1.Envelope{Format: 1, ClusterId: cid.String(), Lineage: img.Lineage().ID.Proto(), Batches: []*metadatav1.Batch{{Records: []*metadatav1.Record{{Kind: &metadatav1.Record_ControllerClaimed{ControllerClaimed: &metadatav1.ControllerClaimed{NodeId: 101, DirectoryId: u(2), IncarnationId: u(3), Nonce: u(4)}}}}}}}
	res := Apply(img, Entry{Envelope: env, ControllerEpoch: 1})
	if res.Outcome != Applied {
		t.Fatal(res)
	}
	img = res.Image
	tr := true
	_ = tr
	fal := false
	img, d, err := FoldBatches(img, []*metadatav1.Batch{{Records: []*metadatav1.Record{
		{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: &metadatav1.RegisterBroker{BrokerId: 1, IncarnationId: u(7), BrokerEpoch: 2, Fenced: true}}},
		{Kind: &metadatav1.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatav1.BrokerRegistrationChange{BrokerId: 1, BrokerEpoch: 2, Fenced: &fal}}},
		{Kind: &metadatav1.Record_Topic{Topic: &metadatav1.Topic{Name: "foo.a", TopicId: u(8)}}},
		{Kind: &metadatav1.Record_Partition{Partition: &metadatav1.Partition{TopicId: u(8), Replicas: []int32{1, 2}, Isr: []int32{1}, Leader: 1}}},
	}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Local(1).Led) != 1 || len(d.Local(2).Followed) != 1 {
		t.Fatal(d)
	}
	if err := Check(img); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	v := NewSnapshotVerifier()
	if err := WriteSnapshot(img, &b); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := ReadSnapshot(&b)
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest() != img.Digest() || Describe(got) != Describe(img) {
		t.Fatal(Describe(got), Describe(img))
	}
	t.Log(Describe(img))
}
