package quorumtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// History puts together what followers and callers were told, and finds what cannot all be true:
//
//   - each stream is dense, folds, and never falls in controller epoch (I6);
//   - all streams tell one history: the same bytes, epoch and digest at the same metadata offset (I1, I21), so that an
//     entry that was sent and never committed meets the one that was committed in its place;
//   - a caller that was answered as done finds its decision in the history at the offset that it was told, and one that
//     was told "not done" does not (I4); "outcome unknown" may be either.
//
// It may be used from any goroutine.
type History struct {
	mu sync.Mutex // guards what follows
	// told are the entries by their first metadata offset.
	told map[int64]toldEntry
	// digests of the image by its next metadata offset.
	digests map[int64]toldDigest
	// decisions are the batches of the history, by request id.
	decisions map[fsm.UUID]decision
	answers   []answer
	streams   []*Stream
	faults    []error
	// base is the least next offset of a snapshot: what was decided before it is not in the history.
	base int64
}

// toldEntry is an entry as the first stream told it.
type toldEntry struct {
	by       string
	epoch    int64
	envelope []byte
	next     int64
}

type toldDigest struct {
	by     string
	digest fsm.Digest
}

// decision is where a batch stands.
type decision struct{ last int64 }

// answer is what a caller was told.
type answer struct {
	request fsm.UUID
	offset  int64
	err     error
}

// NewHistory gives an empty history.
func NewHistory() *History {
	return &History{
		told: make(map[int64]toldEntry), digests: make(map[int64]toldDigest), decisions: make(map[fsm.UUID]decision), base: -1,
	}
}

// Stream is what one follower is told, over as many connections with one source as it takes.
type Stream struct {
	name    string
	history *History
	image   *fsm.Image // after the last entry or snapshot; nil before the first; guarded by history.mu
	entries int        // guarded by history.mu
}

// Stream begins a stream.
func (h *History) Stream(name string) *Stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &Stream{name: name, history: h}
	h.streams = append(h.streams, s)
	return s
}

// Position is where the follower stands: what it asks for when it connects. The lineage is zero before the first snapshot.
func (s *Stream) Position() (fsm.LineageID, int64) {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	if s.image == nil {
		return fsm.LineageID{}, 0
	}
	return s.image.Lineage().ID, s.image.NextOffset()
}

// Snapshot was sent.
func (s *Stream) Snapshot(img *fsm.Image) {
	h := s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.image != nil && img.NextOffset() < s.image.NextOffset() {
		h.fault("I6: %s is sent a snapshot that ends at %d when it is at %d", s.name, img.AppliedOffset(), s.image.AppliedOffset())
	}
	if s.image != nil && img.ControllerEpoch() < s.image.ControllerEpoch() {
		h.fault("I6: %s is sent a snapshot of controller epoch %d after epoch %d", s.name, img.ControllerEpoch(), s.image.ControllerEpoch())
	}
	s.image = img
	if h.base < 0 || img.NextOffset() < h.base {
		h.base = img.NextOffset()
	}
	h.compareDigest(s.name, img)
}

// Entry was sent.
func (s *Stream) Entry(e *controllerv1.EntryApplied) {
	h := s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	first := e.GetFirstMetadataOffset()
	if s.image == nil || first != s.image.NextOffset() {
		h.fault("I6: %s is sent the entry at %d out of turn", s.name, first)
		return
	}
	if e.GetControllerEpoch() < s.image.ControllerEpoch() {
		h.fault("I6: %s is sent controller epoch %d at %d after epoch %d", s.name, e.GetControllerEpoch(), first, s.image.ControllerEpoch())
	}
	envelope, err := fsm.DecodeEnvelope(e.GetEnvelope())
	if err != nil {
		h.fault("%s is sent an entry at %d that does not decode: %w", s.name, first, err)
		return
	}
	res := fsm.Follow(s.image, fsm.Entry{Envelope: envelope, ControllerEpoch: e.GetControllerEpoch(), FirstOffset: first})
	if res.Outcome != fsm.Applied || res.Alarm != nil {
		h.fault("I3: %s is sent an entry at %d that it cannot fold: %s %v %v %v", s.name, first, res.Outcome, res.Mismatch, res.Err, res.Alarm)
		return
	}
	s.image = res.Image
	s.entries++
	h.compareEntry(s.name, e, res.Image.NextOffset())
	h.compareDigest(s.name, res.Image)
	h.place(envelope, first)
}

// Beat was sent.
func (s *Stream) Beat(b *controllerv1.Beat) {
	h := s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.image != nil && !b.GetBehind() && b.GetControllerEpoch() < s.image.ControllerEpoch() {
		h.fault("I6: %s is told of controller epoch %d after epoch %d", s.name, b.GetControllerEpoch(), s.image.ControllerEpoch())
	}
}

// Answered is what a caller was told, err being nil or a *controller.Refusal. Each call has a request id of its own.
func (h *History) Answered(request fsm.UUID, metadataOffset int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers = append(h.answers, answer{request, metadataOffset, err})
}

// Check says what is wrong, given the image on which all nodes agree in the end.
func (h *History) Check(final *fsm.Image) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	faults := slices.Clone(h.faults)
	faults = append(faults, h.checkChain(final)...)
	for _, a := range h.answers {
		if err := h.checkAnswer(a); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// Counts says how much was seen: a check of nothing proves nothing.
func (h *History) Counts() (entries, done, notDone, unknown int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.answers {
		switch code := codeOf(a.err); {
		case a.err == nil:
			done++
		case code == controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN:
			unknown++
		default:
			notDone++
		}
	}
	return len(h.told), done, notDone, unknown
}

// checkChain walks from the base to the end: every entry that was told must be on the way.
func (h *History) checkChain(final *fsm.Image) []error {
	var faults []error
	at, steps := h.base, 0
	for at < final.NextOffset() {
		e, ok := h.told[at]
		if !ok {
			return append(faults, fmt.Errorf("nobody was told the entry at %d; the nodes agree up to %d", at, final.AppliedOffset()))
		}
		at, steps = e.next, steps+1
	}
	if at != final.NextOffset() || steps != len(h.told) {
		faults = append(faults, fmt.Errorf("I21: %d entries were told up to %d, and %d of them lead to the agreed end at %d", len(h.told), at-1, steps, final.AppliedOffset()))
	}
	if d, ok := h.digests[final.NextOffset()]; ok && d.digest != final.Digest() {
		faults = append(faults, fmt.Errorf("I1: digest %s after %d as told by %s, the nodes agree on %s", d.digest, final.AppliedOffset(), d.by, final.Digest()))
	}
	return faults
}

func (h *History) checkAnswer(a answer) error {
	at, in := h.decisions[a.request]
	switch {
	case a.err == nil && !in:
		return fmt.Errorf("I4: request %s was answered as done at %d, and is not in the history", a.request, a.offset)
	case a.err == nil && at.last != a.offset:
		return fmt.Errorf("I4: request %s was answered as done at %d, and stands at %d", a.request, a.offset, at.last)
	case a.err != nil && in && codeOf(a.err) != controllerv1.ErrorCode_ERROR_CODE_OUTCOME_UNKNOWN:
		return fmt.Errorf("I4: request %s was answered as not done (%w), and stands at %d", a.request, a.err, at.last)
	}
	return nil
}

func codeOf(err error) controllerv1.ErrorCode {
	var refusal *controller.Refusal
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED
}

func (h *History) fault(format string, args ...any) {
	const faultsMax = 20 // one cause has many consequences
	if len(h.faults) < faultsMax {
		h.faults = append(h.faults, fmt.Errorf(format, args...))
	}
}

func (h *History) compareEntry(by string, e *controllerv1.EntryApplied, next int64) {
	first := e.GetFirstMetadataOffset()
	known, ok := h.told[first]
	if !ok {
		h.told[first] = toldEntry{by: by, epoch: e.GetControllerEpoch(), envelope: bytes.Clone(e.GetEnvelope()), next: next}
		return
	}
	if known.epoch != e.GetControllerEpoch() || !bytes.Equal(known.envelope, e.GetEnvelope()) {
		h.fault("I21: two entries at %d: %s was told one of epoch %d, %s one of epoch %d", first, known.by, known.epoch, by, e.GetControllerEpoch())
	}
}

func (h *History) compareDigest(by string, img *fsm.Image) {
	known, ok := h.digests[img.NextOffset()]
	if !ok {
		h.digests[img.NextOffset()] = toldDigest{by: by, digest: img.Digest()}
		return
	}
	if known.digest != img.Digest() {
		h.fault("I1: after %d the digest is %s by %s and %s by %s", img.AppliedOffset(), known.digest, known.by, img.Digest(), by)
	}
}

// place notes where the batches of an entry end.
func (h *History) place(envelope *metadatav1.Envelope, first int64) {
	at := first
	for _, b := range envelope.GetBatches() {
		at += int64(len(b.GetRecords()))
		id, err := fsm.UUIDFromBytes(b.GetRequestId())
		if err != nil || id.IsZero() {
			continue // decided by the controller itself
		}
		if known, ok := h.decisions[id]; ok && known.last != at-1 {
			h.fault("I4: request %s took effect twice, at %d and at %d", id, known.last, at-1)
		}
		h.decisions[id] = decision{last: at - 1}
	}
}
