package cmd_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wanted marks a line of testdata/breaches on which linters must report, each named as often as it reports.
var wanted = regexp.MustCompile(`// want ((?:[a-z]+ ?)+)$`)

// TestPlantedBreachesAreReported lints a module that breaks the rules, under the tree's own configuration. A rule whose breach is
// not reported guards nothing.
func TestPlantedBreachesAreReported(t *testing.T) {
	linter, err := exec.LookPath("golangci-lint")
	if err != nil {
		skipOutsideCI(t, "golangci-lint is not on PATH (make tools installs it)")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/breaches")); err != nil {
		t.Fatal(err)
	}
	settings, err := os.ReadFile("../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".golangci.yml"), settings, 0o600); err != nil {
		t.Fatal(err)
	}
	want, got := plantedFindings(t, dir), reportedFindings(t, linter, dir)
	for _, place := range slices.Sorted(maps.Keys(want)) {
		if want[place] > got[place] {
			t.Errorf("%s: reported %d times, want %d", place, got[place], want[place])
		}
	}
	for _, place := range slices.Sorted(maps.Keys(got)) {
		if got[place] > want[place] {
			t.Errorf("%s: reported %d times, want %d", place, got[place], want[place])
		}
	}
}

// plantedFindings counts what is marked, by "file:line linter".
func plantedFindings(t *testing.T, dir string) map[string]int {
	t.Helper()
	want := make(map[string]int)
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for number := 1; lines.Scan(); number++ {
			if m := wanted.FindStringSubmatch(lines.Text()); m != nil {
				for linter := range strings.FieldsSeq(m[1]) {
					want[place(t, dir, path, number, linter)]++
				}
			}
		}
		return lines.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(want) == 0 {
		t.Fatal("no breach is planted")
	}
	return want
}

func place(t *testing.T, dir, path string, line int, linter string) string {
	t.Helper()
	relative, err := filepath.Rel(dir, path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s:%d %s", filepath.ToSlash(relative), line, linter)
}

// reportedFindings counts what the linter reports.
func reportedFindings(t *testing.T, linter, dir string) map[string]int {
	t.Helper()
	cmd := exec.Command(linter, "run", "--issues-exit-code=0", "--output.json.path=stdout", "--output.text.path=stderr", "./...")
	cmd.Dir = dir
	// The linter's cache knows files by content: it would report those of an earlier directory.
	cmd.Env = append(os.Environ(), "GOLANGCI_LINT_CACHE="+t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("golangci-lint: %v\n%s", err, stderr.String())
	}
	var report struct {
		Issues []struct {
			FromLinter string
			Text       string
			Pos        struct {
				Filename string
				Line     int
			}
		}
	}
	if err := json.NewDecoder(strings.NewReader(string(out))).Decode(&report); err != nil {
		t.Fatalf("golangci-lint's report: %v\n%s", err, out)
	}
	got := make(map[string]int)
	for _, i := range report.Issues {
		t.Logf("%s:%d %s: %s", i.Pos.Filename, i.Pos.Line, i.FromLinter, i.Text)
		got[place(t, dir, filepath.Join(dir, i.Pos.Filename), i.Pos.Line, i.FromLinter)]++
	}
	return got
}

// skipOutsideCI skips a test that needs a tool; in CI, where everything is there, that is a failure.
func skipOutsideCI(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("SKIFF_CI") == "1" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}
