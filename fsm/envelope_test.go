package fsm

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

func TestEnvelopeRoundTrip(t *testing.T) {
	w := newWorld(t)
	for i, e := range randomHistory(w, 5, 60) {
		entry, err := EncodeEnvelope(e.Envelope)
		if err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		got, err := DecodeEnvelope(entry)
		if err != nil || !proto.Equal(got, e.Envelope) {
			t.Fatalf("entry %d: %v\ngot  %v\nwant %v", i, err, got, e.Envelope)
		}
	}
}

// unknownField is field 1023 of any message.
func unknownField() []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 1023, protowire.BytesType), []byte("x"))
}

// TestDecodeEnvelopeRefuses has one envelope for each thing that a node must not guess at.
func TestDecodeEnvelopeRefuses(t *testing.T) {
	w := newWorld(t)
	w.claim(101, 1)
	good := func() *metadatav1.Envelope { return w.entry(registerRecord(1, 2, 1)).Envelope }
	entry := marshal(t, good())
	if _, err := DecodeEnvelope(entry); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		edit       func(*metadatav1.Envelope)
	}{
		{"another format", "format 2 is not known", func(e *metadatav1.Envelope) { e.Format = 2 }},
		{"no format", "format 0 is not known", func(e *metadatav1.Envelope) { e.Format = 0 }},
		{"no batch", "no batch", func(e *metadatav1.Envelope) { e.Batches = nil }},
		{"an empty batch", "0 records", func(e *metadatav1.Envelope) { e.Batches[0].Records = nil }},
		{"an empty second batch", "batch 1: 0 records", func(e *metadatav1.Envelope) {
			e.Batches = append(e.Batches, &metadatav1.Batch{})
		}},
		{"too many records", "10001 records", func(e *metadatav1.Envelope) {
			e.Batches[0].Records = make([]record, MaxBatchRecords+1)
			for i := range e.GetBatches()[0].GetRecords() {
				e.Batches[0].Records[i] = configRecord(BrokerResource(""), "k", nil)
			}
		}},
		{"a record without kind", "has no kind", func(e *metadatav1.Envelope) {
			e.Batches[0].Records[0] = &metadatav1.Record{}
		}},
		{"a kind of the future", "has no kind", func(e *metadatav1.Envelope) {
			e.Batches[0].Records[0] = &metadatav1.Record{}
			e.Batches[0].Records[0].ProtoReflect().SetUnknown(unknownField())
		}},
		{"a short request id", "request id has 3 bytes", func(e *metadatav1.Envelope) { e.Batches[0].RequestId = []byte("abc") }},
		{"an unknown field", "unknown fields", func(e *metadatav1.Envelope) { e.ProtoReflect().SetUnknown(unknownField()) }},
		{"an unknown field of the lineage", "unknown fields", func(e *metadatav1.Envelope) {
			e.GetLineage().ProtoReflect().SetUnknown(unknownField())
		}},
		{"an unknown field of a batch", "unknown fields", func(e *metadatav1.Envelope) {
			e.GetBatches()[0].ProtoReflect().SetUnknown(unknownField())
		}},
		{"an unknown field beside a kind", "unknown fields", func(e *metadatav1.Envelope) {
			e.GetBatches()[0].GetRecords()[0].ProtoReflect().SetUnknown(unknownField())
		}},
		{"an unknown field four levels down", "unknown fields", func(e *metadatav1.Envelope) {
			e.GetBatches()[0].GetRecords()[0].GetRegisterBroker().GetListeners()[0].ProtoReflect().SetUnknown(unknownField())
		}},
		{"an unknown resource type", "unknown value 99", func(e *metadatav1.Envelope) {
			e.Batches[0].Records[0] = configRecord(ConfigResource{Type: 99}, "k", nil)
		}},
		{"too many bytes", "at most 1048576", func(e *metadatav1.Envelope) {
			e.Batches[0].Reason = &metadatav1.Reason{Text: strings.Repeat("x", MaxEntryBytes)}
		}},
	} {
		env := good()
		c.edit(env)
		if _, err := DecodeEnvelope(marshal(t, env)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: decode: %v", c.name, err)
		}
		if _, err := EncodeEnvelope(env); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: encode: %v", c.name, err)
		}
	}
	for _, garbage := range [][]byte{nil, {0}, []byte("garbage"), entry[:len(entry)-1], bytes.Repeat([]byte{0xff}, 100)} {
		if _, err := DecodeEnvelope(garbage); err == nil {
			t.Errorf("%q was decoded", garbage)
		}
	}
	if _, err := EncodeEnvelope(nil); err == nil {
		t.Error("nothing was encoded")
	}
}

// TestEnvelopeAtItsBound encodes an entry of exactly the greatest size and batch (I20).
func TestEnvelopeAtItsBound(t *testing.T) {
	w := newWorld(t)
	w.claim(101, 1)
	env := w.entry(configRecord(BrokerResource(""), "k", nil)).Envelope
	env.Batches[0].Records = make([]record, MaxBatchRecords)
	for i := range env.GetBatches()[0].GetRecords() {
		env.Batches[0].Records[i] = configRecord(BrokerResource(""), "k", nil)
	}
	env.Batches[0].Reason = &metadatav1.Reason{}
	env.Batches[0].Reason.Text = strings.Repeat("x", MaxEntryBytes-proto.Size(env)-9)
	for proto.Size(env) < MaxEntryBytes {
		env.Batches[0].Reason.Text += "x"
	}
	entry, err := EncodeEnvelope(env)
	if err != nil || len(entry) != MaxEntryBytes {
		t.Fatalf("%d bytes, %v", len(entry), err)
	}
	if _, err := DecodeEnvelope(entry); err != nil {
		t.Fatal(err)
	}
	if r := Apply(w.img, Entry{Envelope: env, ControllerEpoch: 1}); r.Outcome != Applied {
		t.Fatal(r.Outcome, r.Mismatch, r.Err)
	}
}

// TestApplyWithoutDecoding hands Apply what DecodeEnvelope would have refused: it is broken, and never a panic.
func TestApplyWithoutDecoding(t *testing.T) {
	w := newWorld(t)
	w.claim(101, 1)
	for name, env := range map[string]*metadatav1.Envelope{
		"nothing":         nil,
		"empty":           {},
		"no batch":        {Format: EnvelopeFormat},
		"nil batch":       {Format: EnvelopeFormat, Batches: []*metadatav1.Batch{nil}},
		"nil record":      {Format: EnvelopeFormat, Batches: []*metadatav1.Batch{{Records: []record{nil}}}},
		"record, no kind": {Format: EnvelopeFormat, Batches: []*metadatav1.Batch{{Records: []record{{}}}}},
	} {
		for _, step := range []func(*Image, Entry) Result{Apply, Follow} {
			if r := step(w.img, Entry{Envelope: env, ControllerEpoch: 1}); r.Outcome != Broken || r.Err == nil || r.Image != w.img {
				t.Errorf("%s: %v %v", name, r.Outcome, r.Err)
			}
		}
	}
	for name, r := range map[string]record{
		"partition change": {Kind: &metadatav1.Record_PartitionChange{}},
		"partition":        {Kind: &metadatav1.Record_Partition{}},
		"topic":            {Kind: &metadatav1.Record_Topic{}},
		"remove topic":     {Kind: &metadatav1.Record_RemoveTopic{}},
		"register":         {Kind: &metadatav1.Record_RegisterBroker{}},
		"unregister":       {Kind: &metadatav1.Record_UnregisterBroker{}},
		"change":           {Kind: &metadatav1.Record_BrokerRegistrationChange{}},
		"config":           {Kind: &metadatav1.Record_Config{}},
		"producer ids":     {Kind: &metadatav1.Record_ProducerIds{}},
		"controller":       {Kind: &metadatav1.Record_ControllerRegistered{}},
		"claim":            {Kind: &metadatav1.Record_ControllerClaimed{}},
		"lineage":          {Kind: &metadatav1.Record_LineageStarted{}},
	} {
		if got := Apply(w.img, w.entry(r)); got.Outcome != Broken {
			t.Errorf("%s without content: %v", name, got.Outcome)
		}
	}
}
