package brokerd

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
)

// Small files of the data directory, described in docs/formats/broker-meta.md.
const (
	metaFile   = "meta"
	metaMagic  = "SBMT"
	cleanFile  = "clean-stop"
	cleanMagic = "SBCS"
	// metaFormat is the version of both; a reader that meets a newer one refuses.
	metaFormat   = 1
	metaBytesMax = 64 << 10
)

// RefusedError says that this process must not run on this data: its identity or its files forbid it. Starting it
// again cannot help.
type RefusedError struct {
	// Cause is one line with the values that differ and the file; Fix the next step.
	Cause, Fix string
	// Err is the error underneath, or nil.
	Err error
}

// Error returns the cause.
func (e *RefusedError) Error() string { return e.Cause }

// Unwrap returns the error underneath.
func (e *RefusedError) Unwrap() error { return e.Err }

// meta is who a data directory is.
type meta struct {
	// NodeID of the broker that owns the directory.
	NodeID int32 `json:"node_id"`
	// DirectoryID is made at the first start.
	DirectoryID string `json:"directory_id"`
	// ClusterID is empty until the first answer of a quorum; it is pinned before the broker registers.
	ClusterID string `json:"cluster_id,omitempty"`

	directory fsm.UUID
	path      string
}

// openMeta reads the identity of dir, or makes one for an empty directory.
func openMeta(dir string, nodeID int32) (*meta, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, &RefusedError{Cause: fmt.Sprintf("cannot make the data directory %s: %v", dir, err), Fix: "make it writable for this user, or set log.dirs", Err: err}
	}
	m, err := readMeta(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return (&meta{path: filepath.Join(dir, metaFile)}).create(dir, nodeID)
	}
	if err != nil {
		return nil, err
	}
	return m, m.checkNode(nodeID)
}

// readMeta reads the identity of dir. The error of a directory without one is fs.ErrNotExist, underneath.
func readMeta(dir string) (*meta, error) {
	m := &meta{path: filepath.Join(dir, metaFile)}
	version, payload, err := disk.ReadSealed(m.path, metaMagic, metaBytesMax)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &RefusedError{Cause: fmt.Sprintf("%s is missing: %s is no broker's data directory", m.path, dir), Fix: "name the directory that has log.dirs of the broker", Err: err}
	case err != nil:
		return nil, refuseMeta(m.path, err)
	case version > metaFormat:
		return nil, &RefusedError{Cause: fmt.Sprintf("%s has format %d, this version knows up to %d", m.path, version, metaFormat), Fix: "start the newer version again"}
	}
	return m, m.parse(payload)
}

func refuseMeta(path string, err error) error {
	return &RefusedError{Cause: fmt.Sprintf("%s: %v", path, err), Fix: "restore the file from a backup, or start with an empty directory and let the replicas be copied again", Err: err}
}

func (m *meta) parse(payload []byte) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	err := d.Decode(m)
	if err == nil {
		m.directory, err = fsm.ParseUUID(m.DirectoryID)
	}
	if err != nil {
		return refuseMeta(m.path, err)
	}
	return nil
}

func (m *meta) checkNode(nodeID int32) error {
	if m.NodeID != nodeID {
		return &RefusedError{
			Cause: fmt.Sprintf("%s belongs to broker %d, this process is configured as broker %d", m.path, m.NodeID, nodeID),
			Fix:   fmt.Sprintf("set node.id=%d, or log.dirs to the directory of broker %d", m.NodeID, nodeID),
		}
	}
	return nil
}

// create makes the identity of a new broker. A directory with replicas and no identity has lost it.
func (m *meta) create(dir string, nodeID int32) (*meta, error) {
	if entries, err := os.ReadDir(filepath.Join(dir, "partitions")); err == nil && len(entries) > 0 {
		return nil, &RefusedError{
			Cause: fmt.Sprintf("%s is missing but %s holds replicas: the directory has lost its identity", m.path, dir),
			Fix:   "mount the volume that has the file, or move the directory away and start with an empty one",
		}
	}
	m.NodeID, m.directory = nodeID, newUUID()
	return m, m.save()
}

// pin writes down the cluster id, once and for ever.
func (m *meta) pin(clusterID string) error {
	if m.ClusterID == clusterID {
		return nil
	}
	if m.ClusterID != "" {
		return m.otherCluster(clusterID)
	}
	m.ClusterID = clusterID
	return m.save()
}

func (m *meta) otherCluster(clusterID string) error {
	return &RefusedError{
		Cause: fmt.Sprintf("%s belongs to cluster %s, the quorum is cluster %s", m.path, m.ClusterID, clusterID),
		Fix:   "correct controller.quorum.bootstrap.servers, or set log.dirs to a directory of that cluster",
	}
}

func (m *meta) save() error {
	m.DirectoryID = m.directory.String()
	payload, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", m.path, err)
	}
	if err := disk.WriteSealed(m.path, metaMagic, metaFormat, append(payload, '\n')); err != nil {
		return &RefusedError{Cause: fmt.Sprintf("cannot write %s: %v", m.path, err), Fix: "make the data directory writable for this user", Err: err}
	}
	return nil
}

// cleanStop is left behind by a process that stopped cleanly.
type cleanStop struct {
	// BrokerEpoch of the registration that stopped.
	BrokerEpoch int64 `json:"broker_epoch"`
}

// takeCleanStop reads the marker and removes it: it speaks for one stop only. -1 means the last process died.
func takeCleanStop(dir string) (int64, error) {
	path := filepath.Join(dir, cleanFile)
	version, payload, err := disk.ReadSealed(path, cleanMagic, metaBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	epoch := int64(-1)
	var c cleanStop
	if err == nil && version == metaFormat && json.Unmarshal(payload, &c) == nil {
		epoch = c.BrokerEpoch
	}
	if err := os.Remove(path); err != nil {
		return -1, fmt.Errorf("take the clean stop marker: %w", err)
	}
	if err := disk.SyncDir(dir); err != nil {
		return -1, fmt.Errorf("take the clean stop marker: %w", err)
	}
	return epoch, nil
}

// leaveCleanStop writes the marker; everything else must be on disk.
func leaveCleanStop(dir string, epoch int64) error {
	payload, err := json.Marshal(cleanStop{BrokerEpoch: epoch})
	if err != nil {
		return fmt.Errorf("encode the clean stop marker: %w", err)
	}
	if err := disk.WriteSealed(filepath.Join(dir, cleanFile), cleanMagic, metaFormat, payload); err != nil {
		return fmt.Errorf("leave the clean stop marker: %w", err)
	}
	return nil
}

func newUUID() (u fsm.UUID) {
	_, _ = rand.Read(u[:]) // it never fails: the runtime ends the process instead
	return u
}
