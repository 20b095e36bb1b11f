package brokerd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/brokerd/metadata"
	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/stray"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
)

// AdoptConfig says which directory shall follow which quorum.
type AdoptConfig struct {
	// Dir is the broker's data directory; MetadataDir that of its metadata log, by default "metadata" in it.
	Dir, MetadataDir string
	// Theirs is the quorum's present metadata.
	Theirs *fsm.Image
	// ClusterID must be given, and be the quorum's, where the directory belongs to another cluster.
	ClusterID string
	Logger    hclog.Logger
}

// Adoption is what has to be done to a stopped broker's data directory before it may follow a quorum whose lineage does not
// continue its own. No log is deleted by it.
type Adoption struct {
	// NodeID of the broker.
	NodeID int32
	// Ours is the metadata that the broker has, nil if it has none that can be read.
	Ours *fsm.Image
	// OldClusterID is the cluster that the directory belongs to, empty for none.
	OldClusterID string
	// NotNeeded says why nothing has to be done; empty if something has.
	NotNeeded string
	// Kept replicas stay: their partitions await inventories, in which the longest log wins.
	Kept []fsm.PartitionID
	// Put replicas become strays.
	Put []PutReplica
	// Aside is where the metadata log goes; empty if there is none.
	Aside string

	cfg    AdoptConfig
	meta   *meta
	lock   *os.File
	strays *stray.Store
}

// PutReplica is a replica that becomes a stray.
type PutReplica struct {
	ID fsm.PartitionID
	// Topic is what is known of its topic.
	Topic stray.Topic
	// Why it does.
	Why string
}

// PlanAdoption finds out what has to be done, and changes nothing. It holds the directory's lock until Close. The error
// is a *RefusedError where it must not be done.
func PlanAdoption(cfg AdoptConfig) (_ *Adoption, err error) {
	if cfg.MetadataDir == "" {
		cfg.MetadataDir = filepath.Join(cfg.Dir, metadataName)
	}
	a := &Adoption{cfg: cfg}
	if a.meta, err = readMeta(cfg.Dir); err != nil {
		return nil, err
	}
	a.NodeID, a.OldClusterID = a.meta.NodeID, a.meta.ClusterID
	if a.lock, err = lockDirectory(cfg.Dir); err != nil {
		return nil, err
	}
	if err := a.plan(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Close gives the directory back.
func (a *Adoption) Close() error { return a.lock.Close() }

func (a *Adoption) plan() error {
	theirs := a.cfg.Theirs
	if err := a.checkCluster(); err != nil {
		return err
	}
	found, err := a.readOurs()
	if err != nil {
		return err
	}
	if a.NotNeeded = a.notNeeded(found); a.NotNeeded != "" {
		return nil
	}
	if found {
		a.Aside = fmt.Sprintf("%s.aside-%s", a.cfg.MetadataDir, time.Now().UTC().Format("20060102T150405.000Z"))
	}
	if a.strays, err = stray.Open(a.cfg.Dir, a.cfg.Logger); err != nil {
		return err
	}
	ids, err := a.strays.Partitions()
	if err != nil {
		return err
	}
	for _, id := range ids {
		why := whyPut(theirs, id, a.NodeID)
		if why == "" {
			a.Kept = append(a.Kept, id)
			continue
		}
		topic := stray.TopicOf(a.Ours, id)
		if topic.Name == "" {
			topic = stray.TopicOf(theirs, id)
		}
		a.Put = append(a.Put, PutReplica{ID: id, Topic: topic, Why: why})
	}
	return nil
}

// checkCluster lets a broker change its cluster only if that was asked for by name.
func (a *Adoption) checkCluster() error {
	theirs := a.cfg.Theirs.ClusterID()
	switch {
	case a.cfg.ClusterID != "" && a.cfg.ClusterID != theirs:
		return &RefusedError{Cause: fmt.Sprintf("the quorum is cluster %s, not %s", theirs, a.cfg.ClusterID), Fix: "correct --cluster-id or --controllers"}
	case a.OldClusterID == "" || a.OldClusterID == theirs || a.cfg.ClusterID == theirs:
		return nil
	}
	return &RefusedError{
		Cause: fmt.Sprintf("%s belongs to cluster %s, the quorum is cluster %s: they are two clusters, whatever they have in common", a.meta.path, a.OldClusterID, theirs),
		Fix:   "correct --controllers; or, if the quorum was restored as a new cluster and this broker shall leave its own for it, add --cluster-id " + theirs,
	}
}

// readOurs reads the metadata that the broker has, as far as it can be read, and tells whether there is any.
func (a *Adoption) readOurs() (found bool, err error) {
	entries, err := os.ReadDir(a.cfg.MetadataDir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at the metadata log: %w", err)
	}
	img, _, err := metadata.ReadImage(a.cfg.MetadataDir)
	if errors.Is(err, metadata.ErrUnsupportedVersion) {
		return false, &RefusedError{Cause: err.Error(), Fix: "use the newer version"}
	}
	a.Ours = img // without it the strays do not know the names of their topics; nothing else is lost
	return true, nil
}

// notNeeded is why the broker may follow the quorum as it is.
func (a *Adoption) notNeeded(found bool) string {
	theirs := a.cfg.Theirs.Lineage()
	switch {
	case a.OldClusterID != "" && a.OldClusterID != a.cfg.Theirs.ClusterID():
		return ""
	case !found:
		return "the broker has no metadata yet and follows any quorum of its cluster"
	case a.Ours == nil:
		return ""
	case a.Ours.Lineage().ID == theirs.ID:
		return fmt.Sprintf("the broker follows lineage %s already", theirs.ID)
	case theirs.Descends(a.Ours.Lineage().ID):
		return fmt.Sprintf("lineage %s continues the broker's %s: it follows by itself when it is started", theirs.ID, a.Ours.Lineage().ID)
	}
	return ""
}

// whyPut is why a replica cannot stay; empty if it can. Two lineages that part give out the same leader epochs for other
// records, so that a log of one cannot be compared with the leader of the other. In a partition that awaits inventories
// there is no leader yet: there the log is as good as any.
func whyPut(theirs *fsm.Image, id fsm.PartitionID, nodeID int32) string {
	p, ok := theirs.Partition(id)
	switch {
	case !ok:
		return "the quorum does not know its topic"
	case !slices.Contains(p.Replicas, nodeID):
		return "the quorum does not give it to this broker"
	case !p.AwaitingInventory:
		return "it has a leader in the quorum's lineage, and is copied from there"
	}
	return ""
}

// Run does what was planned. Each step can be repeated: after a crash the next plan has what is left.
func (a *Adoption) Run() error {
	if a.NotNeeded != "" {
		return nil
	}
	for _, p := range a.Put {
		if err := a.put(p); err != nil {
			return err
		}
	}
	if _, err := takeCleanStop(a.cfg.Dir); err != nil {
		return err
	}
	if a.Aside != "" {
		if err := os.Rename(a.cfg.MetadataDir, a.Aside); err != nil {
			return fmt.Errorf("move the metadata log aside: %w", err)
		}
		if err := disk.SyncDir(filepath.Dir(a.Aside)); err != nil {
			return fmt.Errorf("move the metadata log aside: %w", err)
		}
	}
	if a.meta.ClusterID != a.cfg.Theirs.ClusterID() {
		a.meta.ClusterID = a.cfg.Theirs.ClusterID()
		return a.meta.save()
	}
	return nil
}

// put leaves the log as a clean stop leaves it, and moves it to the strays.
func (a *Adoption) put(p PutReplica) error {
	log, err := partlog.Open(a.strays.PartitionDir(p.ID), partlog.Options{TopicID: p.ID.Topic, Partition: p.ID.Partition})
	if err == nil {
		err = log.Close()
	}
	if err != nil && a.cfg.Logger != nil {
		a.cfg.Logger.Warn("a log cannot be opened; it is put away as it is", "replica", stray.PartitionName(p.ID), "error", err)
	}
	_, err = a.strays.Put(p.ID, stray.Taken{Lineage: a.cfg.Theirs.Lineage().ID, Offset: a.cfg.Theirs.AppliedOffset(), At: time.Now(), Topic: p.Topic})
	return err
}
