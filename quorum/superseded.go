package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/transport"
)

// supersededFile says that another lineage has taken the place of the directory's, for good.
const (
	supersededFile   = "superseded"
	supersededMagic  = "SKQS"
	supersededFormat = 1
)

// superseded is the content of the file.
type superseded struct {
	// ClusterID and Lineage are the directory's.
	ClusterID string      `json:"cluster_id"`
	Lineage   planLineage `json:"lineage"`
	// NextOffset of the directory's metadata when it met its successor.
	NextOffset int64 `json:"next_metadata_offset"`
	// By is the successor, ForkOffset the first metadata offset of Lineage that it does not continue, Peer who said so.
	By         planLineage `json:"by"`
	ForkOffset int64       `json:"fork_offset"`
	Peer       string      `json:"peer"`
	// At is when, RFC 3339.
	At string `json:"at"`
}

func lineageInFile(id fsm.LineageID) planLineage {
	return planLineage{Number: id.Number, UUID: id.UUID.String()}
}

// stop is the refusal of a directory that was superseded.
func (s *superseded) stop(dir string, self transport.PeerID) *StopError {
	return refuse(fmt.Sprintf("keep the directory as a witness or move it away, start the node with an empty one, and bring it back as a new member: %s", transport.RejoinCommand(self.NodeID)),
		"%s: lineage %d/%s of cluster %s was superseded by lineage %d/%s, which continues it from metadata offset %d (this directory has it up to %d); node %s said so at %s",
		filepath.Join(dir, supersededFile), s.Lineage.Number, s.Lineage.UUID, s.ClusterID, s.By.Number, s.By.UUID, s.ForkOffset, s.NextOffset, s.Peer, s.At)
}

// refuseSuperseded refuses a directory whose lineage another one has taken the place of.
func (id *identity) refuseSuperseded() error {
	s := new(superseded)
	switch err := readSmall(filepath.Join(id.cfg.DataDir, supersededFile), supersededMagic, s); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return s.stop(id.cfg.DataDir, id.meta.self())
}

// supersede ends the node for good: it notes its successor, so that no later start of the directory disturbs it.
func (m *member) supersede(by transport.Successor) {
	if !m.ended.CompareAndSwap(false, true) {
		return
	}
	img := m.machine.image.Load()
	s := &superseded{
		ClusterID: m.plan.ClusterID, Lineage: lineageInFile(img.Lineage().ID), NextOffset: img.NextOffset(),
		By: lineageInFile(by.Lineage), ForkOffset: by.ForkOffset, Peer: by.Peer.String(), At: time.Now().UTC().Format(time.RFC3339),
	}
	stop := s.stop(m.cfg.DataDir, m.self)
	if err := writeSmall(filepath.Join(m.cfg.DataDir, supersededFile), supersededMagic, supersededFormat, s); err != nil {
		m.logger.Error("the successor could not be noted; the next start meets it again", "error", err)
	}
	m.node.fail(stop)
}
