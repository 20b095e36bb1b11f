package quorum_test

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

// contents are the hashes of all files of a directory, with their times.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			out[path] = "directory"
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		out[path] = info.ModTime().String() + string(sum[:])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sameContents(t *testing.T, before, after map[string]string) {
	t.Helper()
	for path, sum := range before {
		if after[path] != sum {
			t.Errorf("%s was changed", path)
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			t.Errorf("%s was made", path)
		}
	}
}

func TestDiskOfAStoppedNodeIsRead(t *testing.T) {
	for _, kind := range []quorum.StoreKind{quorum.StoreBolt, quorum.StoreWAL} {
		t.Run(string(kind), func(t *testing.T) { bubble(t, func(t *testing.T) { readStoppedNode(t, kind) }) })
	}
}

func readStoppedNode(t *testing.T, kind quorum.StoreKind) {
	c := quorumtest.New(t, 1, func(cfg *quorum.Config) { cfg.LogStore = kind })
	for broker := int32(1); broker <= 5; broker++ {
		mustRegister(t, c, broker)
	}
	n := c.Nodes[0]
	img := n.Image()
	if _, err := quorum.ReadDisk(n.Dir); !errors.Is(err, quorum.ErrDirectoryInUse) {
		t.Errorf("while the node runs: %v", err)
	}
	if err := c.Terminate(n); err != nil {
		t.Fatal(err)
	}
	before := contents(t, n.Dir)
	d, err := quorum.ReadDisk(n.Dir)
	if err != nil || d.Trouble != nil {
		t.Fatal(err, d)
	}
	sameContents(t, before, contents(t, n.Dir))
	if d.Image.Digest() != img.Digest() || d.Image.NextOffset() != img.NextOffset() {
		t.Errorf("the disk has %d %s, the node had %d %s", d.Image.NextOffset(), d.Image.Digest(), img.NextOffset(), img.Digest())
	}
	// The last registration may be on this disk alone, as far as the disk can tell.
	if d.Unknown != 1 || d.Committed.NextOffset() != img.NextOffset()-1 || d.SnapshotIndex != 1 {
		t.Errorf("%d entries beyond offset %d, snapshot %d", d.Unknown, d.Committed.AppliedOffset(), d.SnapshotIndex)
	}
	c.Start(n) // as if nobody had looked
	c.Await("an open claim", func() bool { return c.Active() != nil })
}

func TestDiskWithoutASnapshotOrALog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumtest.New(t, 1, nil)
		mustRegister(t, c, 1)
		n := c.Nodes[0]
		if err := c.Terminate(n); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(n.Dir, "raft", "raft.db")); err != nil {
			t.Fatal(err)
		}
		if d, err := quorum.ReadDisk(n.Dir); err != nil || !errors.Is(d.Trouble, quorum.ErrNoRaftLog) || d.Image.AppliedOffset() != 0 {
			t.Errorf("without a log: %+v, %v", d, err)
		}
		if err := os.RemoveAll(filepath.Join(n.Dir, "raft", "snapshots")); err != nil {
			t.Fatal(err)
		}
		if _, err := quorum.ReadDisk(n.Dir); err == nil {
			t.Error("a disk without a snapshot was read")
		}
	})
}
