package quorum

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/quorum/transport"
)

var testSelf = transport.PeerID{NodeID: 101}

func runPreflight(logs raft.LogStore, snaps raft.SnapshotStore) (ground, error) {
	return preflight(logs, snaps, &logSize{}, testSelf, hclog.NewNullLogger())
}

func TestPreflightTakesWhatIsWhole(t *testing.T) {
	cases := map[string]struct {
		first, last uint64
		snapshots   []uint64
		wantLast    uint64
	}{
		"fresh":                  {0, 0, []uint64{1}, 1},
		"log after the snapshot": {2, 9, []uint64{1}, 9},
		"log around it":          {3, 9, []uint64{5}, 9},
		"log before it":          {3, 5, []uint64{9}, 9},
		"two snapshots":          {3, 9, []uint64{5, 7}, 9},
	}
	for name, c := range cases {
		logs, snaps := groundWith(t, c.first, c.last, c.snapshots...)
		g, err := runPreflight(logs, snaps)
		if err != nil || g.lastIndex != c.wantLast || g.snapshot.Index != c.snapshots[len(c.snapshots)-1] {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
}

func TestPreflightSaysWhatIsMissing(t *testing.T) {
	refused := func(name string, err error, words ...string) {
		t.Helper()
		var stop *StopError
		if !errors.As(err, &stop) || stop.Code != ExitRefused {
			t.Fatalf("%s: %v, want exit code 78", name, err)
		}
		for _, w := range append(words, transport.RejoinCommand(101)) {
			if !strings.Contains(stop.Cause+stop.Fix, w) {
				t.Errorf("%s: %q / %q do not say %q", name, stop.Cause, stop.Fix, w)
			}
		}
	}
	logs, snaps := groundWith(t, 8, 9, 5)
	_, err := runPreflight(logs, snaps)
	refused("gap behind the snapshot", err, "[6,7]")

	logs, snaps = groundWith(t, 2, 9)
	_, err = runPreflight(logs, snaps)
	refused("no snapshot", err, "no snapshot")

	logs, snaps = groundWith(t, 2, 9, 1)
	if err := logs.DeleteRange(5, 5); err != nil {
		t.Fatal(err)
	}
	_, err = runPreflight(logs, snaps)
	refused("hole in the log", err, "[5]")
}

// damage cuts the state of the snapshot at index to n bytes.
func damage(t *testing.T, snaps *snapshotsIn, index uint64, n int64) {
	t.Helper()
	metas, err := snaps.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range metas {
		if m.Index == index {
			if err := os.Truncate(filepath.Join(snaps.dir, m.ID, "state.bin"), n); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDamagedSnapshotFallsBackOnlyIfTheLogCoversTheGap: data is never given up for a snapshot that cannot be read (I22).
func TestDamagedSnapshotFallsBackOnlyIfTheLogCoversTheGap(t *testing.T) {
	logs, snaps := groundWith(t, 3, 12, 5, 9)
	damage(t, snaps, 9, 10)
	if g, err := runPreflight(logs, snaps); err != nil || g.snapshot.Index != 5 || g.lastIndex != 12 {
		t.Errorf("%+v, %v; want the older snapshot", g, err)
	}
	for name, bounds := range map[string][2]uint64{"log begins too late": {7, 12}, "log ends too early": {3, 8}} {
		logs, snaps := groundWith(t, bounds[0], bounds[1], 5, 9)
		damage(t, snaps, 9, 10)
		if _, err := runPreflight(logs, snaps); err == nil {
			t.Errorf("%s: started", name)
		}
	}
	logs, snaps = groundWith(t, 2, 12, 1)
	damage(t, snaps, 1, 0)
	if _, err := runPreflight(logs, snaps); err == nil {
		t.Error("started without any snapshot that can be read")
	}
}
