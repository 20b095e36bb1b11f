package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/skiffmq/skiff/cmd/proctest"
)

// savedSnapshot is what save says.
type savedSnapshot struct {
	ClusterID      string `json:"cluster_id"`
	Lineage        string
	MetadataOffset int64 `json:"metadata_offset"`
	KnownCommitted int64 `json:"known_committed_offset"`
	Digest         string
	Bytes          int64
}

// snapshots saves, looks at and compares the metadata of a live cluster and of its disks. The archive is the one that all quorum
// nodes share.
func snapshots(k tool, archive string) {
	k.t.Helper()
	k.c.AwaitAgreement(30 * time.Second)
	file := func(name string) string { return filepath.Join(k.c.Dir(), name+".snapshot") }
	var live savedSnapshot
	k.ask(&live, "snapshot", "save", file("live"))
	k.fails("2", "exists already", "snapshot", "save", file("live"))
	for i, controller := range k.c.Controllers() {
		var again savedSnapshot
		k.ask(&again, "snapshot", "save", file("again"), "--from", controller, "--overwrite")
		if again != live {
			k.t.Errorf("node %d saved %+v, another %+v", i, again, live)
		}
	}
	var inspected struct {
		ClusterID string `json:"cluster_id"`
		Digest    string
		Topics    []struct{ Name string }
		Brokers   []struct{ ID int32 }
	}
	k.ask(&inspected, "snapshot", "inspect", file("live"), "--topics", "--brokers")
	if inspected.ClusterID != live.ClusterID || inspected.Digest != live.Digest || len(inspected.Topics) != 0 || len(inspected.Brokers) != 3 {
		k.t.Errorf("inspected %+v", inspected)
	}
	if out, err := k.c.Skiff("snapshot", "diff", file("live"), "--live"); err != nil {
		k.t.Errorf("nothing has changed: %v\n%s", err, out)
	}
	if _, err := k.c.Skiff("topic", "create", "later"); err != nil {
		k.t.Fatal(err)
	}
	k.fails("1", "topic: 1", "snapshot", "diff", file("live"), "--live")
	disks(k, file)
	archived(k, archive)
}

// disks saves from disks: of a broker that runs, and of a quorum node once it is stopped.
func disks(k tool, file func(string) string) {
	k.t.Helper()
	k.c.AwaitAgreement(30 * time.Second)
	var live, stored savedSnapshot
	k.ask(&live, "snapshot", "save", file("now"))
	k.ask(&stored, "snapshot", "save", file("b1"), "--data-dir", filepath.Join(k.c.Dir(), "b1"))
	if stored != live {
		k.t.Errorf("the broker's disk has %+v, the quorum %+v", stored, live)
	}
	k.fails("1", "a node runs in", "snapshot", "save", file("c1"), "--data-dir", filepath.Join(k.c.Dir(), "c1"))
	k.c.StopNode("c1")
	k.ask(&stored, "snapshot", "save", file("c1"), "--data-dir", filepath.Join(k.c.Dir(), "c1"))
	if stored.MetadataOffset < live.MetadataOffset || stored.KnownCommitted > stored.MetadataOffset || stored.KnownCommitted < live.MetadataOffset-10 {
		k.t.Errorf("the quorum node's disk has %+v, the quorum had %+v", stored, live)
	}
	k.c.Restart("c1")
}

// archived waits until the archive has what is so now, and verifies all of it.
func archived(k tool, archive string) {
	k.t.Helper()
	proctest.Eventually(k.t, 30*time.Second, "the archive has the last change", func() error {
		_, err := k.c.Skiff("snapshot", "diff", newestIn(archive), "--live")
		return err
	})
	files, err := filepath.Glob(filepath.Join(archive, "*.snapshot"))
	if err != nil || len(files) == 0 || len(files) > 5 {
		k.t.Fatalf("%d files are archived, want 1 to 5: %v", len(files), err)
	}
	if out, err := k.c.Skiff(append([]string{"snapshot", "verify"}, files...)...); err != nil {
		k.t.Errorf("%v\n%s", err, out)
	}
	status, err := k.c.Status("c1")
	if err != nil || status.QuorumStatus == nil || status.SnapshotArchive == nil || status.SnapshotArchive.Failing || status.SnapshotArchive.LastSuccess == "" {
		k.t.Errorf("status of the archive: %+v, %v", status.QuorumStatus, err)
	}
}

// newestIn is the archive's last file: names sort in the order of history.
func newestIn(archive string) string {
	entries, err := os.ReadDir(archive)
	if err != nil || len(entries) == 0 {
		return archive
	}
	for i := len(entries) - 1; i >= 0; i-- {
		if strings.HasSuffix(entries[i].Name(), ".snapshot") {
			return filepath.Join(archive, entries[i].Name())
		}
	}
	return archive
}
