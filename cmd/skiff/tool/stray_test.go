package tool

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/brokerd/metadata"
	"github.com/skiffmq/skiff/brokerd/stray"
	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// strayed is a broker's data directory with two strays; its metadata is confirmed or not.
func strayed(t *testing.T, confirmed bool) string {
	t.Helper()
	dir := t.TempDir()
	store, err := stray.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"orders", "payments"} {
		id := fsm.PartitionID{Topic: fsm.UUID{15: byte(i + 1)}}
		if err := os.MkdirAll(store.PartitionDir(id), 0o750); err != nil {
			t.Fatal(err)
		}
		taken := stray.Taken{Lineage: fsm.LineageID{Number: 2}, Offset: 7, At: time.Now().Add(-time.Duration(i) * 3 * time.Hour), Topic: stray.Topic{Name: name, Partitions: 1}}
		if _, err := store.Put(id, taken); err != nil {
			t.Fatal(err)
		}
	}
	writeImage(t, filepath.Join(dir, "metadata"), confirmed)
	return dir
}

func writeImage(t *testing.T, dir string, confirmed bool) {
	t.Helper()
	img, err := fsm.Genesis(&metadatav1.LineageStarted{
		ClusterId: fsm.UUID{1}.String(), Lineage: fsm.LineageID{Number: 1, UUID: fsm.UUID{2}}.Proto(), NextMetadataOffset: 1,
	})
	if err == nil && !confirmed {
		img, err = fsm.Rebirth(img, fsm.Birth{ClusterID: img.ClusterID(), UUID: fsm.UUID{3}})
	}
	if err != nil {
		t.Fatal(err)
	}
	follower, err := metadata.Open(metadata.Config{Dir: dir})
	if err == nil {
		err = follower.Snapshot(img)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func purge(t *testing.T, args ...string) (code int, list []strayReplica, stderr string) {
	t.Helper()
	code, stdout, stderr := skiff(t, append([]string{"broker", "purge", "-o", "json", "--data-dir"}, args...)...)
	if stdout != "" {
		if err := json.Unmarshal([]byte(stdout), &list); err != nil {
			t.Fatalf("%v: %s", err, stdout)
		}
	}
	return code, list, stderr
}

func TestPurgeListsAndRemovesOnlyWhenTold(t *testing.T) {
	dir := strayed(t, true)
	for range 2 {
		if code, list, stderr := purge(t, dir); code != config.ExitOK || len(list) != 2 || list[0].Removed || !strings.Contains(stderr, "--yes") {
			t.Fatalf("exit %d, %+v, %s", code, list, stderr)
		}
	}
	if code, list, _ := purge(t, dir, "--older-than", "2h", "--yes"); code != config.ExitOK || len(list) != 1 || list[0].Topic != "payments" || !list[0].Removed {
		t.Fatalf("exit %d, %+v", code, list)
	}
	if code, list, _ := purge(t, dir, "--topic", "payments", "--yes"); code != config.ExitOK || len(list) != 0 {
		t.Fatalf("exit %d, %+v", code, list)
	}
	if code, list, _ := purge(t, dir, "--topic", "orders", "--yes"); code != config.ExitOK || len(list) != 1 {
		t.Fatalf("exit %d, %+v", code, list)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, stray.Dir)); err != nil || len(entries) != 0 {
		t.Fatalf("%v, %v", entries, err)
	}
}

// TestPurgeRemovesNothingOfAnUnconfirmedCluster unless it is forced to (I22).
func TestPurgeRemovesNothingOfAnUnconfirmedCluster(t *testing.T) {
	dir := strayed(t, false)
	if code, list, stderr := purge(t, dir, "--yes"); code != config.ExitFailed || len(list) != 0 || !strings.Contains(stderr, "not confirmed") || !strings.Contains(stderr, "skiff quorum confirm") {
		t.Fatalf("exit %d, %+v, %s", code, list, stderr)
	}
	if code, list, _ := purge(t, dir); code != config.ExitOK || len(list) != 2 {
		t.Fatalf("exit %d, %+v", code, list)
	}
	if code, list, _ := purge(t, dir, "--yes", "--force"); code != config.ExitOK || len(list) != 2 || !list[1].Removed {
		t.Fatalf("exit %d, %+v", code, list)
	}
}

func TestStrayCommandsSayWhatIsMissing(t *testing.T) {
	t.Setenv("SKIFF_DATA", t.TempDir())
	for _, args := range [][]string{
		{"broker", "purge"}, {"broker", "adopt"}, {"broker", "adopt", "--data-dir", "x", "--yes", "--dry-run"}, {"topic", "undelete"}, {"topic", "undelete", "a", "b"},
		{"topic", "undelete", "--list", "a"}, {"topic", "undelete", "a", "--id", "b"}, {"topic", "undelete", "a", "--name", "b"},
	} {
		if code, stdout, stderr := skiff(t, args...); code != config.ExitUsage || stdout != "" || strings.Count(stderr, "\n") != 2 {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if code, _, stderr := skiff(t, "broker", "purge", "--data-dir", t.TempDir()); code != config.ExitFailed || !strings.Contains(stderr, "no broker's data directory") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
