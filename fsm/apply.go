package fsm

import (
	"fmt"
	"strconv"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// Entry is one entry of the metadata log with what its reader knows beside its bytes.
type Entry struct {
	// Envelope as DecodeEnvelope returned it.
	Envelope *metadatav1.Envelope
	// ControllerEpoch is epoch base + Raft term on a quorum node, and comes from the feed on a broker.
	ControllerEpoch int64
	// FirstOffset is the metadata offset of the first record. Only Follow looks at it.
	FirstOffset int64
}

// Outcome is what became of an entry.
type Outcome int

const (
	// Applied: the entry passed the guard and took effect as a whole.
	Applied Outcome = iota + 1
	// Dropped: the entry failed the guard and changed nothing, not even the metadata offset (I2).
	Dropped
	// Broken: the entry passed the guard and does not fold; the node must freeze its image (I3).
	Broken
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case Dropped:
		return "dropped"
	case Broken:
		return "broken"
	default:
		return "outcome " + strconv.Itoa(int(o))
	}
}

// Mismatch is a check that failed, with both values. It is an error.
type Mismatch struct {
	// Check is the field of the envelope, for example "claim_offset".
	Check string
	// Want is what the image has, Got what the entry has.
	Want, Got string
}

// Error returns for example "claim_offset: want 7, got 3".
func (m *Mismatch) Error() string { return fmt.Sprintf("%s: want %s, got %s", m.Check, m.Want, m.Got) }

// Result is what became of an entry, and the image after it.
type Result struct {
	Outcome Outcome
	// Image after the entry; the untouched input unless the outcome is Applied.
	Image *Image
	// Delta is what the entry changed; nil unless the outcome is Applied.
	Delta *Delta
	// Mismatch says why the entry was dropped.
	Mismatch *Mismatch
	// Err says why the entry is broken.
	Err error
	// Alarm is set when the image was not the one that the entry was decided on, although every equation of the
	// guard holds: this node or the decider has diverged. The entry was folded all the same.
	Alarm *Mismatch
	// FirstOffset is the metadata offset of the entry's first record, ControllerEpoch its epoch. Both belong beside
	// the entry's bytes in the feed; they are set only when the outcome is Applied.
	FirstOffset, ControllerEpoch int64
}

// Apply judges and folds one entry on a quorum node. It never panics and never changes img.
func Apply(img *Image, e Entry) Result { return apply(img, e, checkGuard) }

// Follow folds one entry that took effect on a quorum node. A follower has no term of its own, so the guard's
// equations are not judged again: only lineage, contiguity and that the controller epoch never falls (I6).
func Follow(img *Image, e Entry) Result { return apply(img, e, checkFeed) }

func apply(img *Image, e Entry, check func(*Image, Entry, bool) *Mismatch) Result {
	if err := checkEnvelope(e.Envelope); err != nil {
		return Result{Outcome: Broken, Image: img, Err: err}
	}
	claims := isClaim(e.Envelope)
	if m := check(img, e, claims); m != nil {
		return Result{Outcome: Dropped, Image: img, Mismatch: m}
	}
	f := newFold(img, e.ControllerEpoch)
	f.claimAllowed = claims
	if err := f.batches(e.Envelope.GetBatches()); err != nil {
		return Result{Outcome: Broken, Image: img, Err: err}
	}
	next, delta := f.finish()
	return Result{
		Outcome:         Applied,
		Image:           next,
		Delta:           delta,
		Alarm:           checkDigest(img, e.Envelope),
		FirstOffset:     img.nextOffset,
		ControllerEpoch: e.ControllerEpoch,
	}
}

// FoldBatches folds what the active controller has decided into its tip: no guard, because there is no entry yet.
// A claim is refused, it is never decided on a tip.
func FoldBatches(img *Image, batches []*metadatav1.Batch, controllerEpoch int64) (*Image, *Delta, error) {
	f := newFold(img, controllerEpoch)
	for i, b := range batches {
		if err := checkBatch(b); err != nil {
			return nil, nil, fmt.Errorf("batch %d: %w", i, err)
		}
	}
	if err := f.batches(batches); err != nil {
		return nil, nil, err
	}
	next, delta := f.finish()
	return next, delta, nil
}

// checkGuard verifies the equations of I2. A claim cannot know where it lands: for it cluster and lineage must do.
func checkGuard(img *Image, e Entry, claims bool) *Mismatch {
	env := e.Envelope
	if m := checkOrigin(img, env); m != nil || claims {
		return m
	}
	if img.claimOffset < 0 {
		return &Mismatch{Check: "claim_offset", Want: "a claim first", Got: optional(env.ClaimOffset)}
	}
	for _, eq := range []struct {
		check string
		want  int64
		got   *int64
	}{
		{"controller_epoch", e.ControllerEpoch, env.ControllerEpoch},
		// An entry belongs to the term of the claim that it names: a term that was won and not claimed decides nothing.
		{"controller_epoch of the claim", img.controllerEpoch, &e.ControllerEpoch},
		{"claim_offset", img.claimOffset, env.ClaimOffset},
		{"first_metadata_offset", img.nextOffset, env.FirstMetadataOffset},
	} {
		if eq.got == nil || *eq.got != eq.want {
			return &Mismatch{Check: eq.check, Want: strconv.FormatInt(eq.want, 10), Got: optional(eq.got)}
		}
	}
	return nil
}

// checkFeed verifies what a follower can.
func checkFeed(img *Image, e Entry, claims bool) *Mismatch {
	if m := checkOrigin(img, e.Envelope); m != nil {
		return m
	}
	if e.FirstOffset != img.nextOffset {
		return &Mismatch{Check: "first_metadata_offset", Want: strconv.FormatInt(img.nextOffset, 10), Got: strconv.FormatInt(e.FirstOffset, 10)}
	}
	if e.ControllerEpoch < img.controllerEpoch || (!claims && e.ControllerEpoch != img.controllerEpoch) {
		return &Mismatch{Check: "controller_epoch", Want: strconv.FormatInt(img.controllerEpoch, 10), Got: strconv.FormatInt(e.ControllerEpoch, 10)}
	}
	return nil
}

// checkOrigin verifies cluster and lineage.
func checkOrigin(img *Image, env *metadatav1.Envelope) *Mismatch {
	if env.GetClusterId() != img.clusterID {
		return &Mismatch{Check: "cluster_id", Want: img.clusterID, Got: fmt.Sprintf("%.40q", env.GetClusterId())}
	}
	got, err := LineageIDFromProto(env.GetLineage())
	if err != nil {
		return &Mismatch{Check: "lineage", Want: img.lineage.ID.String(), Got: err.Error()}
	}
	if got != img.lineage.ID {
		return &Mismatch{Check: "lineage", Want: img.lineage.ID.String(), Got: got.String()}
	}
	return nil
}

// checkDigest compares the image with the one that the entry was decided on.
func checkDigest(img *Image, env *metadatav1.Envelope) *Mismatch {
	if env.DigestBefore == nil || env.GetDigestBefore() == img.digest.Prefix() {
		return nil
	}
	return &Mismatch{
		Check: "digest_before",
		Want:  fmt.Sprintf("%016x", img.digest.Prefix()),
		Got:   fmt.Sprintf("%016x", env.GetDigestBefore()),
	}
}

func optional(v *int64) string {
	if v == nil {
		return "absent"
	}
	return strconv.FormatInt(*v, 10)
}
