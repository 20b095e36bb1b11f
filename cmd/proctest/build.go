package proctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/skiffmq/skiff/cmd/child"
)

// run is what one run of a test binary shares; Main fills it.
var run struct {
	dir      string
	children *child.Starter
	build    func() (string, error)
}

// Main runs the tests of a package and returns their exit code: func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "skiff-proctest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "proctest:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	run.dir, run.children, run.build = dir, child.NewStarter(), sync.OnceValues(build)
	defer run.children.Close()
	return m.Run()
}

// Binary returns the path of the skiff binary of this test run.
func Binary(t testing.TB) string {
	t.Helper()
	if run.build == nil {
		t.Fatal("proctest: TestMain does not call proctest.Main")
	}
	path, err := run.build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// BinaryWithTag builds skiff with a build tag and returns its path. SKIFF_BIN does not stand for it.
func BinaryWithTag(t testing.TB, tag string) string {
	t.Helper()
	if run.build == nil {
		t.Fatal("proctest: TestMain does not call proctest.Main")
	}
	path, err := compile("skiff-"+tag, "-tags", tag)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func build() (string, error) {
	if path := os.Getenv("SKIFF_BIN"); path != "" {
		return filepath.Abs(path)
	}
	return compile("skiff")
}

// compile builds skiff under a name in the directory of the run. With -trimpath, as `make build` does, so that what it has
// compiled is not compiled again.
func compile(name string, flags ...string) (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	path := filepath.Join(run.dir, name)
	cmd := exec.Command("go", slices.Concat([]string{"build", "-trimpath", "-o", path}, flags, []string{"./cmd/skiff"})...)
	cmd.Dir = strings.TrimSpace(string(root))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build skiff: %w\n%s", err, out)
	}
	return path, nil
}
