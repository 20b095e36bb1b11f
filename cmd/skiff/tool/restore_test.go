package tool

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/fsm"
)

// brokenSnapshot is a stream whose frames, counts and digest are right and whose image breaks I7: a fenced broker leads.
const brokenSnapshot = "testdata/fenced-leader.snapshot"

// restoreOf runs restore of a file against nodes that do not exist: what it refuses, it refuses before it asks them.
func restoreOf(t *testing.T, path string, flags ...string) (code int, stderr string) {
	t.Helper()
	args := append([]string{"snapshot", "restore", path, "--voters", "101@127.0.0.1:1", "--timeout", "300ms"}, flags...)
	code, stdout, stderr := skiff(t, args...)
	if stdout != "" {
		t.Errorf("%q printed %q", args, stdout)
	}
	return code, stderr
}

// TestRestoreOffersRepairsAndAppliesNoneUnasked.
func TestRestoreOffersRepairsAndAppliesNoneUnasked(t *testing.T) {
	code, stderr := restoreOf(t, brokenSnapshot)
	for _, words := range []string{"I7:", "rule forget-isr would change", "nothing was touched", "--repair forget-isr"} {
		if code != config.ExitFailed || !strings.Contains(stderr, words) {
			t.Errorf("exit %d, want 1 and %q in:\n%s", code, words, stderr)
		}
	}
	if code, stderr = restoreOf(t, brokenSnapshot, "--repair", "drop-topics"); code != config.ExitFailed || !strings.Contains(stderr, "do not suffice") {
		t.Errorf("the wrong rule: exit %d:\n%s", code, stderr)
	}
	if code, stderr = restoreOf(t, brokenSnapshot, "--repair", "nonsense"); code != config.ExitUsage {
		t.Errorf("no rule: exit %d:\n%s", code, stderr)
	}
	code, stderr = restoreOf(t, brokenSnapshot, "--repair", "forget-isr")
	if code != config.ExitFailed || !strings.Contains(stderr, "repaired with forget-isr") || !strings.Contains(stderr, "waiting for 1 of 1 nodes") {
		t.Errorf("the right rule: exit %d:\n%s", code, stderr)
	}
}

// TestRestoreValidatesBeforeItAsksAnybody: a file that is cut, changed or of a newer format is refused without a word to a node.
func TestRestoreValidatesBeforeItAsksAnybody(t *testing.T) {
	sound, err := os.ReadFile(soundSnapshot(t))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(sound)
	flipped[len(flipped)/2] ^= 1
	newer := bytes.Clone(sound)
	newer[11] = 9 // the version, docs/formats/snapshot.md
	for name, c := range map[string]struct {
		data []byte
		says string
	}{
		"cut": {sound[:len(sound)-1], "no whole and sound snapshot"}, "flipped": {flipped, "no whole and sound snapshot"},
		"newer": {newer, "nothing was touched"}, "empty": {nil, "no whole and sound snapshot"},
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		code, stderr := restoreOf(t, path)
		if code != config.ExitFailed || !strings.Contains(stderr, c.says) || strings.Contains(stderr, "waiting for") {
			t.Errorf("%s: exit %d:\n%s", name, code, stderr)
		}
	}
}

// TestRestoreRefusesContradictoryFlags.
func TestRestoreRefusesContradictoryFlags(t *testing.T) {
	path := soundSnapshot(t)
	for _, flags := range [][]string{
		{"--replace", "--cluster-id", fsm.UUID{7}.String()}, {"--voters", "nonsense"}, {"--voters", "101@a:1,101@b:1"},
	} {
		if code, stderr := restoreOf(t, path, flags...); code != config.ExitUsage || strings.Contains(stderr, "waiting for") {
			t.Errorf("%q: exit %d:\n%s", flags, code, stderr)
		}
	}
	if code, stderr := restoreOf(t, path, "--witness", "nowhere"); code != config.ExitFailed || !strings.Contains(stderr, "witness nowhere") {
		t.Errorf("exit %d:\n%s", code, stderr)
	}
}

// soundSnapshot is a file that can be restored.
func soundSnapshot(t *testing.T) string {
	t.Helper()
	f, err := os.Open(brokenSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := fsm.ReadSnapshotUnchecked(f)
	if err != nil {
		t.Fatal(err)
	}
	if img, err = fsm.Repair(img, fsm.RepairForgetISR); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := fsm.WriteSnapshot(img, &out); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sound.snapshot")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
