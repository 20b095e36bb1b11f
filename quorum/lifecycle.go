package quorum

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/skiffmq/skiff/fsm/disk"
)

// identity is the node's directory and what stands in it. One goroutine uses it at a time: the one that opens the
// node, later the one that holds Node.change.
type identity struct {
	cfg  Config
	meta meta
	plan *prepared // nil when no plan is prepared
	// staged is the snapshot that was verified last in this process; nil if there is none.
	staged *staged
	lock   *os.File
}

// openIdentity finds out who the directory is, making it if it is empty. A commit that was interrupted is completed.
func openIdentity(cfg Config) (*identity, error) {
	if err := os.MkdirAll(cfg.DataDir, 0o755); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	lock, err := lockDirectory(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	id := &identity{cfg: cfg, lock: lock}
	if err := id.load(); err != nil {
		lock.Close()
		return nil, err
	}
	return id, nil
}

func (id *identity) load() error {
	found, err := loadMeta(id.cfg.DataDir)
	if err != nil {
		return err
	}
	if found == nil {
		return id.firstStart()
	}
	id.meta = *found
	if id.plan, err = loadPlan(id.cfg.DataDir); err != nil {
		return err
	}
	if err := id.check(); err != nil {
		return err
	}
	if err := id.refuseSuperseded(); err != nil {
		return err
	}
	switch {
	case id.meta.formatted():
		return id.finish()
	case id.plan != nil && id.plan.Committing:
		return id.complete()
	}
	return nil
}

// firstStart gives the directory its uuid.
func (id *identity) firstStart() error {
	id.meta = meta{NodeID: id.cfg.NodeID, Directory: newUUID()}
	return id.meta.save(id.cfg.DataDir)
}

// check compares the directory with the configuration.
func (id *identity) check() error {
	path := filepath.Join(id.cfg.DataDir, metaFile)
	if id.meta.NodeID != id.cfg.NodeID {
		if !id.meta.formatted() && id.plan == nil {
			id.meta.NodeID = id.cfg.NodeID // nobody has counted on the old id yet
			return id.meta.save(id.cfg.DataDir)
		}
		return refuse("mount the volume that belongs to this node, or correct node.id",
			"%s belongs to node %d, but node.id is %d", path, id.meta.NodeID, id.cfg.NodeID)
	}
	if !id.meta.formatted() {
		return nil
	}
	if want, have := id.cfg.ClusterID, id.meta.Plan.ClusterID; want != "" && want != have {
		return refuse("mount the volume that belongs to this cluster, or correct cluster.id",
			"%s belongs to cluster %s, but cluster.id is %s", path, have, want)
	}
	if want, have := id.cfg.LogStore, id.meta.Store.Kind; want != have {
		return refuse(fmt.Sprintf("set raft.log.store=%s; the kind of a store cannot be changed in place", have),
			"%s pins a raft store of kind %s, but raft.log.store is %s", path, have, want)
	}
	if have := id.meta.Store.Format; have > storeFormat {
		return refuse("start the newer version again", "%s pins a raft store of format %d, this version knows up to %d", path, have, storeFormat)
	}
	return nil
}

// prepare writes the plan, in the place of one that is not being committed. A refusal is a sentence for the tool.
func (id *identity) prepare(p plan) (refusal string, err error) {
	if err := id.meta.accepts(&p); err != nil {
		return err.Error(), nil
	}
	if held := id.committed(); held != nil {
		if held.equal(&p) {
			return "", nil
		}
		return fmt.Sprintf("node %d is initialised by plan %s for cluster %s; plan %s differs", id.meta.NodeID, held.ID, held.ClusterID, p.ID), nil
	}
	if refusal := id.checkStaged(&p); refusal != "" {
		return refusal, nil
	}
	next := &prepared{Plan: p}
	if err := next.save(id.cfg.DataDir); err != nil {
		return "", err
	}
	id.plan = next
	return "", id.dropStaged(p.ID)
}

// committed is the plan that can no longer be replaced; nil if there is none.
func (id *identity) committed() *plan {
	switch {
	case id.meta.formatted():
		return id.meta.Plan
	case id.plan != nil && id.plan.Committing:
		return &id.plan.Plan
	}
	return nil
}

// held is the plan that the node knows of, prepared or committed; nil if there is none.
func (id *identity) held() *plan {
	if p := id.committed(); p != nil || id.plan == nil {
		return p
	}
	return &id.plan.Plan
}

// commit makes the prepared plan the node's identity. From its first write on, a crash does not take it back: the
// next start completes it.
func (id *identity) commit(planID string) (refusal string, err error) {
	held := id.held()
	if held == nil {
		return fmt.Sprintf("no plan is prepared on node %d", id.meta.NodeID), nil
	}
	if held.ID != planID {
		return fmt.Sprintf("node %d holds plan %s, not plan %s", id.meta.NodeID, held.ID, planID), nil
	}
	if id.meta.formatted() {
		return "", nil
	}
	if err := id.soundToCommit(); err != nil {
		return err.Error(), nil
	}
	next := *id.plan
	next.Committing = true
	if err := next.save(id.cfg.DataDir); err != nil {
		return "", err
	}
	id.plan = &next
	return "", id.complete()
}

// soundToCommit looks at the snapshot's bytes once more: after the first write of the commit there is no way back.
func (id *identity) soundToCommit() error {
	if id.plan.Plan.Snapshot == nil {
		return nil
	}
	return copyStaged(id.cfg.DataDir, &id.plan.Plan, io.Discard)
}

// complete carries out a plan whose commit has begun: store and first snapshot, then meta, then the plan's end. Each
// step may have been done before.
func (id *identity) complete() error {
	pin := storePin{Kind: id.cfg.LogStore, UUID: newUUID(), Format: storeFormat}
	if err := id.meta.accepts(&id.plan.Plan); err != nil {
		return refuse("mount the volume that belongs to this node", "plan %s: %w", id.plan.Plan.ID, err)
	}
	if err := installGenesis(id.cfg.DataDir, &id.plan.Plan, pin, quietly(id.cfg.Logger)); err != nil {
		if errors.Is(err, disk.ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
			return cannotStart(id.meta.self(), "plan %s cannot be completed: %w", id.plan.Plan.ID, err)
		}
		return err
	}
	next := id.meta
	next.Plan, next.Store = &id.plan.Plan, pin
	if err := next.save(id.cfg.DataDir); err != nil {
		return err
	}
	id.meta = next
	return id.finish()
}

// finish removes the plan, of which meta has the content, and then its snapshot, which is Raft's first.
func (id *identity) finish() error {
	id.plan, id.staged = nil, nil
	if err := os.Remove(filepath.Join(id.cfg.DataDir, planFile)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove the plan that was carried out: %w", err)
	}
	return id.dropStaged()
}

func (id *identity) raftDir() string { return filepath.Join(id.cfg.DataDir, raftDirName) }

func (id *identity) close() error { return id.lock.Close() }
