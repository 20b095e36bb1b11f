package quorum

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// Files of a snapshot that a plan begins with, before the plan is carried out.
const (
	// stagedPrefix and a plan id name a snapshot that is on disk, whole and verified.
	stagedPrefix = "staged-"
	// stagingFile is one that is being received. What a crash leaves of it is overwritten.
	stagingFile = "staging.tmp"
	// stagedBytesMax bounds a staged snapshot: some hundred million partitions.
	stagedBytesMax = 16 << 30
	// stagedBufferBytes is how much of one is read from the disk at a time.
	stagedBufferBytes = 256 << 10
)

// planSnapshot says what the lineage of a plan begins with. Two plans with the same one begin with the same bytes.
type planSnapshot struct {
	// Digest of the image, hexadecimal.
	Digest string `json:"digest"`
	// SizeBytes of the stream.
	SizeBytes int64 `json:"size_bytes"`
	// Checksum is the SHA-256 of the stream, hexadecimal.
	Checksum string `json:"sha256"`
	// NextOffset of the image.
	NextOffset int64 `json:"next_metadata_offset"`
	// SourceDigest of the image that the lineage was born from, hexadecimal.
	SourceDigest string `json:"source_digest"`
	// KnownNextOffset and KnownEpoch are what the witnesses showed; 0 for none. The tool reads them back when it resumes.
	KnownNextOffset int64 `json:"known_next_metadata_offset"`
	KnownEpoch      int64 `json:"known_controller_epoch"`
}

// check tells whether the description can be of any snapshot.
func (s *planSnapshot) check() error {
	for what, hexed := range map[string]string{"digest": s.Digest, "source digest": s.SourceDigest} {
		if raw, err := hex.DecodeString(hexed); err != nil || len(raw) != len(fsm.Digest{}) {
			return fmt.Errorf("%s %q is none", what, hexed)
		}
	}
	if raw, err := hex.DecodeString(s.Checksum); err != nil || len(raw) != sha256.Size {
		return fmt.Errorf("checksum %q is no SHA-256", s.Checksum)
	}
	if s.SizeBytes <= 0 || s.SizeBytes > stagedBytesMax {
		return fmt.Errorf("a snapshot of %d bytes; it may have 1 to %d", s.SizeBytes, int64(stagedBytesMax))
	}
	if s.NextOffset <= 0 || s.KnownNextOffset < 0 || s.KnownEpoch < 0 {
		return fmt.Errorf("next metadata offset %d, known %d, known controller epoch %d are not possible", s.NextOffset, s.KnownNextOffset, s.KnownEpoch)
	}
	return nil
}

// planSnapshotFromProto reads the description from the wire; nil for an absent one.
func planSnapshotFromProto(p *quorumv1.PlanSnapshot) (*planSnapshot, error) {
	if p == nil {
		return nil, nil
	}
	s := &planSnapshot{
		Digest: hex.EncodeToString(p.GetDigest()), SizeBytes: p.GetSizeBytes(), Checksum: hex.EncodeToString(p.GetChecksum()),
		NextOffset: p.GetNextMetadataOffset(), SourceDigest: hex.EncodeToString(p.GetSourceDigest()),
		KnownNextOffset: p.GetKnownNextMetadataOffset(), KnownEpoch: p.GetKnownControllerEpoch(),
	}
	return s, s.check()
}

// toProto writes the description to the wire. It has passed check.
func (s *planSnapshot) toProto() *quorumv1.PlanSnapshot {
	if s == nil {
		return nil
	}
	return &quorumv1.PlanSnapshot{
		Digest: hexBytes(s.Digest), SizeBytes: s.SizeBytes, Checksum: hexBytes(s.Checksum), NextMetadataOffset: s.NextOffset,
		SourceDigest: hexBytes(s.SourceDigest), KnownNextMetadataOffset: s.KnownNextOffset, KnownControllerEpoch: s.KnownEpoch,
	}
}

// hexBytes gives the bytes of a text that has passed check.
func hexBytes(text string) []byte {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return nil
	}
	return raw
}

// staged is a snapshot on this node's disk that was read back and is what its plan says.
type staged struct {
	planID    string
	snapshot  planSnapshot
	clusterID string
	lineage   fsm.LineageID
}

func stagedPath(dir, planID string) string { return filepath.Join(dir, stagedPrefix+planID) }

// readStaged reads a snapshot as a whole: its bytes must be those that the plan means, and every invariant must hold.
func readStaged(path, planID string, want planSnapshot) (*staged, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	img, err := fsm.ReadSnapshot(io.TeeReader(bufio.NewReaderSize(f, stagedBufferBytes), sum))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want.Checksum {
		return nil, fmt.Errorf("%s: its SHA-256 is %s, the plan's is %s", path, got, want.Checksum)
	}
	if got := img.Digest().String(); got != want.Digest || img.NextOffset() != want.NextOffset {
		return nil, fmt.Errorf("%s: digest %s and next metadata offset %d, the plan says %s and %d", path, got, img.NextOffset(), want.Digest, want.NextOffset)
	}
	return &staged{planID: planID, snapshot: want, clusterID: img.ClusterID(), lineage: img.Lineage().ID}, nil
}

// copyStaged copies the plan's snapshot and tells whether the bytes are still those that were verified.
func copyStaged(dir string, p *plan, to io.Writer) error {
	path := stagedPath(dir, p.ID)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.CopyBuffer(io.MultiWriter(sum, to), f, make([]byte, stagedBufferBytes)); err != nil {
		return fmt.Errorf("copy %s: %w", path, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != p.Snapshot.Checksum {
		return fmt.Errorf("%w: %s: its SHA-256 is %s, the plan's is %s", disk.ErrDamaged, path, got, p.Snapshot.Checksum)
	}
	return nil
}

// accept makes what was received into stagingFile the staged snapshot of a plan. A refusal is a sentence for the tool.
// It takes as long as reading the snapshot; other plans' snapshots go, but for that of the plan the node holds.
func (id *identity) accept(planID string, want planSnapshot) (refusal string, err error) {
	if id.committed() != nil {
		return id.begunWith(planID, want), nil
	}
	temp := filepath.Join(id.cfg.DataDir, stagingFile)
	found, err := readStaged(temp, planID, want)
	if err != nil {
		return err.Error(), nil
	}
	if err := os.Rename(temp, stagedPath(id.cfg.DataDir, planID)); err != nil {
		return "", err
	}
	if err := disk.SyncDir(id.cfg.DataDir); err != nil {
		return "", err
	}
	id.staged = found
	keep := []string{planID}
	if id.plan != nil {
		keep = append(keep, id.plan.Plan.ID)
	}
	return "", id.dropStaged(keep...)
}

// begunWith is empty if the node's committed plan begins with that very snapshot, else the refusal.
func (id *identity) begunWith(planID string, want planSnapshot) (refusal string) {
	p := id.committed()
	if p.ID == planID && p.Snapshot != nil && *p.Snapshot == want {
		return ""
	}
	return fmt.Sprintf("node %d is initialised by plan %s for cluster %s", id.meta.NodeID, p.ID, p.ClusterID)
}

// holds tells whether the plan's snapshot is on the disk, reading it if this process has not done so yet.
func (id *identity) holds(planID string, want planSnapshot) (bool, error) {
	if s := id.staged; s != nil && s.planID == planID && s.snapshot == want {
		return true, nil
	}
	found, err := readStaged(stagedPath(id.cfg.DataDir, planID), planID, want)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	id.staged = found
	return true, nil
}

// holdsSound is holds for a caller who can bring the snapshot again: one that cannot be read is as good as none.
func (id *identity) holdsSound(planID string, want planSnapshot) bool {
	held, err := id.holds(planID, want)
	if err != nil {
		id.cfg.Logger.Warn("a staged snapshot cannot be read and is brought again", "plan", planID, "error", err)
	}
	return held && err == nil
}

// checkStaged refuses a plan whose snapshot is not here or does not belong to its lineage.
func (id *identity) checkStaged(p *plan) (refusal string) {
	if p.Snapshot == nil {
		return ""
	}
	held, err := id.holds(p.ID, *p.Snapshot)
	switch {
	case err != nil:
		return err.Error()
	case !held:
		return fmt.Sprintf("node %d does not hold the snapshot of plan %s", id.meta.NodeID, p.ID)
	case id.staged.clusterID != p.ClusterID || id.staged.lineage != p.lineage():
		return fmt.Sprintf("the snapshot of plan %s is of cluster %s, lineage %s; the plan is of cluster %s, lineage %s",
			p.ID, id.staged.clusterID, id.staged.lineage, p.ClusterID, p.lineage())
	}
	return ""
}

// dropStaged removes the staged snapshots of all plans but those named, and what was being received.
func (id *identity) dropStaged(keep ...string) error {
	entries, err := os.ReadDir(id.cfg.DataDir)
	if err != nil {
		return fmt.Errorf("look for staged snapshots: %w", err)
	}
	kept := map[string]bool{}
	for _, planID := range keep {
		kept[stagedPrefix+planID] = true
	}
	var errs []error
	for _, e := range entries {
		name := e.Name()
		if name != stagingFile && (!strings.HasPrefix(name, stagedPrefix) || kept[name]) {
			continue
		}
		if err := os.Remove(filepath.Join(id.cfg.DataDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove a staged snapshot: %w", err))
		}
	}
	return errors.Join(errs...)
}
