package quorum

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
	"github.com/skiffmq/skiff/quorum/transport"
)

// Files of a node's directory. docs/formats/quorum-meta.md describes meta and plan.
const (
	metaFile = "meta"
	planFile = "plan"
	// metaFormat is the newest version of both files; a reader that meets a newer one refuses. Version 2 knows plans
	// with a snapshot, and a file without one is still written as version 1.
	metaFormat = 2
	// smallFileMax bounds both files: a plan of 100 voters has some 20 KiB.
	smallFileMax = 256 << 10
)

// Kinds of small file, as their envelope names them.
const (
	metaMagic = "SKQM"
	planMagic = "SKQP"
)

// meta is who a directory is. It is written at the first start, with a directory uuid and nothing else, and once more
// when init commits; after that it never changes.
type meta struct {
	// NodeID of the node that owns the directory.
	NodeID int32 `json:"node_id"`
	// Directory is made at the first start.
	Directory fsm.UUID `json:"-"`
	// Plan is what init made of the node; nil before.
	Plan *plan `json:"plan,omitempty"`
	// Store pins the raft store; its zero value before init.
	Store storePin `json:"-"`

	// The forms of the uuids in the file.
	DirectoryText string    `json:"directory_id"`
	StoreKind     StoreKind `json:"store_kind,omitempty"`
	StoreText     string    `json:"store_id,omitempty"`
	StoreFormat   byte      `json:"store_format,omitempty"`
}

// formatted tells that the node has been initialised.
func (m *meta) formatted() bool { return m.Plan != nil }

// self is who the node is for Raft.
func (m *meta) self() transport.PeerID {
	return transport.PeerID{NodeID: m.NodeID, Directory: m.Directory}
}

// plan is what init makes of the nodes.
type plan struct {
	ID        string      `json:"plan_id"`
	ClusterID string      `json:"cluster_id"`
	Lineage   planLineage `json:"lineage"`
	Voters    []planVoter `json:"voters"`
	// Snapshot that the lineage begins with; nil for init, whose lineage begins empty.
	Snapshot *planSnapshot `json:"snapshot,omitempty"`
}

type planLineage struct {
	Number uint64 `json:"number"`
	UUID   string `json:"uuid"`
}

type planVoter struct {
	NodeID      int32  `json:"node_id"`
	DirectoryID string `json:"directory_id"`
	Address     string `json:"address"`
}

// prepared is the content of the plan file.
type prepared struct {
	Plan plan `json:"plan"`
	// Committing is set when the commit has begun: from then on it is completed at every start until meta is written.
	Committing bool `json:"committing"`
}

// loadMeta reads the meta file of dir; nil if there is none. What else is in a directory without one is refused.
func loadMeta(dir string) (*meta, error) {
	path := filepath.Join(dir, metaFile)
	m := new(meta)
	switch err := readSmall(path, metaMagic, m); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, refuseOrphans(dir)
	case err != nil:
		return nil, err
	}
	if err := m.parse(); err != nil {
		return nil, refuse("restore the file from a backup, or bring the node back with an empty directory as a new member", "%s: %w", path, err)
	}
	return m, nil
}

// refuseOrphans refuses a directory that has a node's data and no identity.
func refuseOrphans(dir string) error {
	for _, name := range []string{raftDirName, planFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return refuse("mount the volume that has the file, or bring the node back with an empty directory as a new member",
				"%s is missing but %s exists: the directory has lost its identity", filepath.Join(dir, metaFile), filepath.Join(dir, name))
		}
	}
	return nil
}

// parse turns the texts of the file into values.
func (m *meta) parse() (err error) {
	if m.Directory, err = fsm.ParseUUID(m.DirectoryText); err != nil {
		return fmt.Errorf("directory_id: %w", err)
	}
	if m.Plan == nil {
		return nil
	}
	if err := m.Plan.check(); err != nil {
		return err
	}
	m.Store = storePin{Kind: m.StoreKind, Format: m.StoreFormat}
	if m.Store.UUID, err = fsm.ParseUUID(m.StoreText); err != nil {
		return fmt.Errorf("store_id: %w", err)
	}
	return nil
}

func (m *meta) save(dir string) error {
	m.DirectoryText = m.Directory.String()
	if m.formatted() {
		m.StoreKind, m.StoreText, m.StoreFormat = m.Store.Kind, m.Store.UUID.String(), m.Store.Format
	}
	return writeSmall(filepath.Join(dir, metaFile), metaMagic, m.Plan.format(), m)
}

// loadPlan reads the plan file of dir; nil if there is none.
func loadPlan(dir string) (*prepared, error) {
	path := filepath.Join(dir, planFile)
	p := new(prepared)
	switch err := readSmall(path, planMagic, p); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := p.Plan.check(); err != nil {
		return nil, refuse("remove the file and repeat the init", "%s: %w", path, err)
	}
	return p, nil
}

func (p *prepared) save(dir string) error {
	return writeSmall(filepath.Join(dir, planFile), planMagic, p.Plan.format(), p)
}

func readSmall(path, magic string, into any) error {
	const fix = "restore the file from a backup, or bring the node back with an empty directory as a new member"
	version, payload, err := disk.ReadSealed(path, magic, smallFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		return refuse(fix, "%w", err)
	}
	if version > metaFormat {
		return refuse("start the newer version again", "%s has format %d, this version knows up to %d", path, version, metaFormat)
	}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return refuse(fix, "%s: %w", path, err)
	}
	return nil
}

// format is the version of a file that holds the plan, or none.
func (p *plan) format() uint32 {
	if p != nil && p.Snapshot != nil {
		return metaFormat
	}
	return 1
}

func writeSmall(path, magic string, version uint32, from any) error {
	payload, err := json.MarshalIndent(from, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return disk.WriteSealed(path, magic, version, append(payload, '\n'))
}

// planFromProto reads a plan from the wire.
func planFromProto(p *quorumv1.Plan) (plan, error) {
	id, err := fsm.UUIDFromBytes(p.GetPlanId())
	if err != nil {
		return plan{}, fmt.Errorf("plan id: %w", err)
	}
	lineage, err := fsm.UUIDFromBytes(p.GetLineage().GetUuid())
	if err != nil {
		return plan{}, fmt.Errorf("lineage: %w", err)
	}
	out := plan{
		ID: id.String(), ClusterID: p.GetClusterId(),
		Lineage: planLineage{Number: p.GetLineage().GetNumber(), UUID: lineage.String()},
	}
	for _, v := range p.GetVoters() {
		directory, err := fsm.UUIDFromBytes(v.GetDirectoryId())
		if err != nil {
			return plan{}, fmt.Errorf("directory id of voter %d: %w", v.GetNodeId(), err)
		}
		out.Voters = append(out.Voters, planVoter{NodeID: v.GetNodeId(), DirectoryID: directory.String(), Address: v.GetAddress()})
	}
	if out.Snapshot, err = planSnapshotFromProto(p.GetSnapshot()); err != nil {
		return plan{}, err
	}
	return out, out.check()
}

// toProto writes the plan to the wire. The plan has passed check.
func (p *plan) toProto() *quorumv1.Plan {
	if p == nil {
		return nil
	}
	out := &quorumv1.Plan{PlanId: uuidBytes(p.ID), ClusterId: p.ClusterID, Lineage: p.lineageProto(), Snapshot: p.Snapshot.toProto()}
	for _, v := range p.Voters {
		out.Voters = append(out.Voters, &quorumv1.Voter{NodeId: v.NodeID, DirectoryId: uuidBytes(v.DirectoryID), Address: v.Address})
	}
	return out
}

func (p *plan) lineageProto() *metadatav1.LineageID {
	return &metadatav1.LineageID{Number: p.Lineage.Number, Uuid: uuidBytes(p.Lineage.UUID)}
}

// uuidBytes gives the bytes of a uuid that has passed check.
func uuidBytes(text string) []byte {
	uuid, err := fsm.ParseUUID(text)
	if err != nil {
		return nil
	}
	return uuid.Bytes()
}
