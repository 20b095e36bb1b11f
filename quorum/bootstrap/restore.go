package bootstrap

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// Restoration says what a quorum is restored from.
type Restoration struct {
	// Image of the snapshot. Every invariant holds on it.
	Image *fsm.Image
	// Replace gives the new quorum the cluster id of the image: it takes the place of the cluster that was lost, and its
	// brokers follow it. Otherwise the cluster id is another one, and no broker of that cluster comes near it.
	Replace bool
	// Witnesses show how far the lost cluster had got after the snapshot was saved.
	Witnesses []Witness
	// DryRun finds out what would be done, and asks nodes questions only.
	DryRun bool
}

// Witness is somebody who has seen the lost cluster: the new lineage gives out no number that a witness has seen.
type Witness struct {
	// Name of the witness, for messages: a file, a directory.
	Name string
	// ClusterID that it belongs to.
	ClusterID string
	// Lineage that it followed.
	Lineage fsm.LineageID
	// NextOffset of its metadata.
	NextOffset int64
	// Epoch is the controller epoch that it has seen.
	Epoch int64
}

// Restored is what a restore made, or would make.
type Restored struct {
	Result
	// Before is the image of the snapshot, After the one that the new lineage begins with.
	Before, After *fsm.Image
}

// ErrRestoration is returned when a restoration contradicts itself.
var ErrRestoration = errors.New("the restoration is not possible")

// Restore makes a quorum of empty nodes that begins with a snapshot, or takes up an attempt that was interrupted. It is
// Init with one step before it: the image of the new lineage is brought to every voter, which verifies it.
func Restore(ctx context.Context, voters []Voter, r Restoration, opts Options) (Restored, error) {
	if err := checkVoters(voters); err != nil {
		return Restored{}, err
	}
	known, err := r.check(opts.ClusterID)
	if err != nil {
		return Restored{}, err
	}
	f := newFlow(voters, opts)
	defer f.close()
	f.restore = &rebirth{Restoration: r, known: known}
	err = f.run(ctx, r.DryRun)
	return Restored{Result: f.result, Before: r.Image, After: f.restore.image}, err
}

// rebirth is the restoration that a flow carries out.
type rebirth struct {
	Restoration
	known fsm.Birth // what the image and the witnesses show
	// image that the plan's lineage begins with, and what it is as a stream; set when the plan is chosen.
	image    *fsm.Image
	snapshot *quorumv1.PlanSnapshot
}

// check gives the greatest numbers that image and witnesses show, or refuses.
func (r *Restoration) check(clusterID string) (fsm.Birth, error) {
	own := r.Image.ClusterID()
	switch {
	case r.Replace && clusterID != "" && clusterID != own:
		return fsm.Birth{}, fmt.Errorf("%w: it shall replace cluster %s and have the cluster id %s", ErrRestoration, own, clusterID)
	case !r.Replace && clusterID == own:
		return fsm.Birth{}, fmt.Errorf("%w: the cluster id %s is that of the snapshot, and only a restore that replaces that cluster may have it", ErrRestoration, own)
	}
	known := fsm.Birth{Number: r.Image.Lineage().ID.Number + 1}
	for _, w := range r.Witnesses {
		if w.ClusterID != own {
			return fsm.Birth{}, fmt.Errorf("%w: %s is of cluster %s, the snapshot of cluster %s", ErrRestoration, w.Name, w.ClusterID, own)
		}
		known.Number = max(known.Number, w.Lineage.Number+1)
		known.KnownNextOffset = max(known.KnownNextOffset, w.NextOffset)
		known.KnownEpoch = max(known.KnownEpoch, w.Epoch)
	}
	return known, nil
}

// differs tells what a plan has that this restore would not make; empty when the plan is of this restore. Whether its
// bytes are the same is for adopt to say.
func (r *rebirth) differs(plan *quorumv1.Plan) string {
	digest := r.Image.Digest()
	switch s := plan.GetSnapshot(); {
	case s == nil:
		return "an init, which began with an empty cluster"
	case string(s.GetSourceDigest()) != string(digest[:]):
		return fmt.Sprintf("the restore of another snapshot, with the digest %x and not %s", s.GetSourceDigest(), digest)
	case r.Replace && plan.GetClusterId() != r.Image.ClusterID():
		return fmt.Sprintf("a restore as the new cluster %s, not in the place of cluster %s", plan.GetClusterId(), r.Image.ClusterID())
	case !r.Replace && plan.GetClusterId() == r.Image.ClusterID():
		return fmt.Sprintf("a restore in the place of cluster %s, not as a new cluster", plan.GetClusterId())
	case plan.GetLineage().GetNumber() < r.known.Number, s.GetKnownNextMetadataOffset() < r.known.KnownNextOffset,
		s.GetKnownControllerEpoch() < r.known.KnownEpoch:
		return "a restore that knew less of what the lost cluster had done than the witnesses that are named now"
	}
	return ""
}

// adopt makes the plan's image from the snapshot and tells whether it is, byte for byte, what the plan says.
func (r *rebirth) adopt(plan *quorumv1.Plan) (bool, error) {
	s := plan.GetSnapshot()
	lineage, err := fsm.LineageIDFromProto(plan.GetLineage())
	if err != nil {
		return false, fmt.Errorf("the plan's lineage: %w", err)
	}
	birth := fsm.Birth{
		ClusterID: plan.GetClusterId(), UUID: lineage.UUID, Number: lineage.Number,
		KnownNextOffset: s.GetKnownNextMetadataOffset(), KnownEpoch: s.GetKnownControllerEpoch(),
	}
	if err := r.bear(birth); err != nil {
		return false, err
	}
	return proto.Equal(r.snapshot, s), nil
}

// bear makes the image that the lineage begins with, and describes it. Every voter checks all its invariants before it
// accepts it; here, beside the image that it comes from, that would take the most memory of all.
func (r *rebirth) bear(birth fsm.Birth) error {
	img, err := fsm.Rebirth(r.Image, birth)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRestoration, err)
	}
	measure := measured{hash: sha256.New()}
	if err := fsm.WriteSnapshot(img, &measure); err != nil {
		return fmt.Errorf("encode the new lineage's first snapshot: %w", err)
	}
	source, digest := r.Image.Digest(), img.Digest()
	r.image, r.snapshot = img, &quorumv1.PlanSnapshot{
		Digest: digest[:], SizeBytes: measure.size, Checksum: measure.hash.Sum(nil), NextMetadataOffset: img.NextOffset(),
		SourceDigest: source[:], KnownNextMetadataOffset: birth.KnownNextOffset, KnownControllerEpoch: birth.KnownEpoch,
	}
	return nil
}
