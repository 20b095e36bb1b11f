package quorumtest

import (
	"strings"
	"testing"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// tale is a true history: a first snapshot, a claim and three registrations of one request each. A test doctors what it
// tells.
type tale struct {
	base    *fsm.Image
	entries []*controllerv1.EntryApplied
	final   *fsm.Image
}

func newTale(t *testing.T) *tale {
	base, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{1}.String(), NextMetadataOffset: 1,
		Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{2}}.Proto(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &tale{base: base, final: base}
	s.add(t, 5, &metadatav1.Envelope{Batches: []*metadatav1.Batch{{
		RequestId: fsm.UUID{9}.Bytes(),
		Records: []*metadatav1.Record{{Kind: &metadatav1.Record_ControllerClaimed{ControllerClaimed: &metadatav1.ControllerClaimed{
			NodeId: 101, DirectoryId: fsm.UUID{3}.Bytes(), IncarnationId: fsm.UUID{4}.Bytes(), Nonce: fsm.UUID{9}.Bytes(),
		}}}},
	}}})
	for broker := range int32(3) {
		s.add(t, 5, s.registration(broker))
	}
	return s
}

// registration is an entry that the open claim may decide next.
func (s *tale) registration(broker int32) *metadatav1.Envelope {
	epoch, claim, next := s.final.ControllerEpoch(), s.final.ClaimOffset(), s.final.NextOffset()
	return &metadatav1.Envelope{
		ControllerEpoch: &epoch, ClaimOffset: &claim, FirstMetadataOffset: &next,
		Batches: []*metadatav1.Batch{{
			RequestId: request(broker).Bytes(),
			Records: []*metadatav1.Record{{Kind: &metadatav1.Record_RegisterBroker{RegisterBroker: &metadatav1.RegisterBroker{
				BrokerId: broker, BrokerEpoch: next, IncarnationId: fsm.UUID{1, byte(broker)}.Bytes(), Fenced: true,
				Listeners:   []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "b", Port: 9092}},
				Directories: [][]byte{{15: byte(broker) + 1}},
			}}}},
		}},
	}
}

func request(broker int32) fsm.UUID { return fsm.UUID{7, byte(broker)} }

// encoded completes an envelope.
func (s *tale) encoded(t *testing.T, e *metadatav1.Envelope) []byte {
	t.Helper()
	e.Format, e.ClusterId, e.Lineage = fsm.EnvelopeFormat, s.base.ClusterID(), s.base.Lineage().ID.Proto()
	data, err := fsm.EncodeEnvelope(e)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// add folds an entry and tells it.
func (s *tale) add(t *testing.T, epoch int64, e *metadatav1.Envelope) {
	t.Helper()
	told := &controllerv1.EntryApplied{FirstMetadataOffset: s.final.NextOffset(), ControllerEpoch: epoch, Envelope: s.encoded(t, e)}
	res := fsm.Follow(s.final, fsm.Entry{Envelope: e, ControllerEpoch: epoch, FirstOffset: told.FirstMetadataOffset})
	if res.Outcome != fsm.Applied {
		t.Fatalf("%s: %v %v", res.Outcome, res.Mismatch, res.Err)
	}
	s.entries, s.final = append(s.entries, told), res.Image
}

// tell has a new stream told the entries.
func (s *tale) tell(h *History, name string, entries ...*controllerv1.EntryApplied) *Stream {
	stream := h.Stream(name)
	stream.Snapshot(s.base)
	for _, e := range entries {
		stream.Entry(e)
	}
	return stream
}

func refused(code controllerv1.ErrorCode) error {
	return &controller.Refusal{Code: code, Message: "no"}
}

// TestHistoryFindsEachDoctoredOne: a true history passes, and each lie in it is found.
func TestHistoryFindsEachDoctoredOne(t *testing.T) {
	const notDone, unknown = controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER, controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN
	cases := map[string]struct {
		// doctor adds to a history that two streams were told whole.
		doctor func(t *testing.T, s *tale, h *History)
		want   string // empty if nothing is wrong
	}{
		"nothing": {func(*testing.T, *tale, *History) {}, ""},
		"callers that were told the truth": {func(_ *testing.T, _ *tale, h *History) {
			h.Answered(request(0), 2, nil)
			h.Answered(request(1), 0, refused(unknown))
			h.Answered(request(5), 0, refused(unknown))
			h.Answered(request(6), 0, refused(notDone))
		}, ""},
		"done, and lost": {func(_ *testing.T, _ *tale, h *History) { h.Answered(request(5), 5, nil) }, "answered as done at 5, and is not"},
		"done elsewhere": {func(_ *testing.T, _ *tale, h *History) { h.Answered(request(1), 2, nil) }, "done at 2, and stands at 3"},
		"not done, and yet in force": {func(_ *testing.T, _ *tale, h *History) {
			h.Answered(request(1), 0, refused(notDone))
		}, "answered as not done"},
		"another entry in its place": {func(t *testing.T, s *tale, h *History) {
			other := newTale(t)
			other.entries, other.final = other.entries[:1], imageAfter(t, other, 1)
			other.add(t, 5, other.registration(7))
			s.tell(h, "c", s.entries[0], other.entries[1])
		}, "two entries at 2"},
		"the same entry under another epoch": {func(_ *testing.T, s *tale, h *History) {
			under6 := &controllerv1.EntryApplied{FirstMetadataOffset: 2, ControllerEpoch: 6, Envelope: s.entries[1].Envelope}
			s.tell(h, "c", s.entries[0], under6)
		}, "cannot fold"},
		"an entry that never was committed": {func(t *testing.T, s *tale, h *History) {
			final := s.final
			s.add(t, 5, s.registration(7))
			s.tell(h, "c", s.entries...)
			s.final = final
		}, "lead to the agreed end"},
		"a gap":          {func(_ *testing.T, s *tale, h *History) { s.tell(h, "c", s.entries[0], s.entries[2]) }, "out of turn"},
		"an entry twice": {func(_ *testing.T, s *tale, h *History) { s.tell(h, "c", s.entries[0], s.entries[0]) }, "out of turn"},
		"an epoch that falls": {func(_ *testing.T, s *tale, h *History) {
			fallen := &controllerv1.EntryApplied{FirstMetadataOffset: 2, ControllerEpoch: 4, Envelope: s.entries[1].Envelope}
			s.tell(h, "c", s.entries[0], fallen)
		}, "epoch 4 at 2 after epoch 5"},
		"an epoch that falls in a beat": {func(_ *testing.T, s *tale, h *History) {
			s.tell(h, "c", s.entries...).Beat(&controllerv1.Beat{NextMetadataOffset: 5, ControllerEpoch: 4})
		}, "epoch 4 after epoch 5"},
		"a snapshot of the past": {func(_ *testing.T, s *tale, h *History) {
			s.tell(h, "c", s.entries...).Snapshot(s.base)
		}, "sent a snapshot that ends at 0"},
		"a snapshot with another content": {func(t *testing.T, s *tale, h *History) {
			other := newTale(t)
			other.entries, other.final = other.entries[:3], imageAfter(t, other, 3)
			other.add(t, 5, other.registration(7))
			h.Stream("c").Snapshot(other.final)
		}, "the digest is"},
		"an end that nobody was told": {func(t *testing.T, s *tale, _ *History) { s.add(t, 5, s.registration(7)) }, "nobody was told the entry at 5"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, h := newTale(t), NewHistory()
			s.tell(h, "a", s.entries...)
			s.tell(h, "b", s.entries...)
			c.doctor(t, s, h)
			err := h.Check(s.final)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

// imageAfter is the image after the first n entries.
func imageAfter(t *testing.T, s *tale, n int) *fsm.Image {
	t.Helper()
	img := s.base
	for _, e := range s.entries[:n] {
		envelope, err := fsm.DecodeEnvelope(e.Envelope)
		if err != nil {
			t.Fatal(err)
		}
		img = fsm.Follow(img, fsm.Entry{Envelope: envelope, ControllerEpoch: e.ControllerEpoch, FirstOffset: e.FirstMetadataOffset}).Image
	}
	return img
}
