// Package cmd_test holds the rules of the whole tree that no compiler knows: which package may import which, and that each is described.
package cmd_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/skiffmq/skiff"

// floors are all packages from the ground up. Each may import only what stands before it.
var floors = []string{
	"proto/metadata/v1",
	"proto/controller/v1",
	"proto/quorum/v1",
	"proto",
	"fsm/disk",
	"fsm",
	"fsm/topicconfig",

	"quorum/controller",
	"quorum/active",
	"quorum/feed",
	"quorum/history",
	"quorum/rpc",
	"quorum/rpc/rpctest",
	"quorum/client",
	"quorum/transport",
	"quorum/bootstrap",
	"quorum/archive",
	"quorum/boltfile",
	"quorum",
	"quorum/quorumtest",

	"brokerd/wire",
	"brokerd/recordbatch",
	"brokerd/partlog",
	"brokerd/partlog/partlogtest",
	"brokerd/lifecycle",
	"brokerd/metadata",
	"brokerd/stray",
	"brokerd/replica",
	"brokerd/kafka",
	"brokerd",
	"brokerd/brokerdtest",

	"cmd/version",
	"cmd/config",
	"cmd/admin",
	"cmd/quorumcmd",
	"cmd/brokercmd",
	"cmd/quorumd",
	"cmd/brokerd",
	"cmd/sim",
	"cmd/verify",
	"cmd/child",
	"cmd/netns",
	"cmd/skiff/output",
	"cmd/skiff/up",
	"cmd/bench",
	"cmd/skiff/explain",
	"cmd/skiff/tool",
	"cmd/skiff",
	"cmd/proctest",
	"cmd/powercut",
	"cmd/golden",
	"cmd/mutants",
	"cmd/torture",
	"cmd/endtoend",
	"cmd/restoretest",
	"cmd",
}

// goPackage is what `go list` says of a package.
type goPackage struct {
	ImportPath string
	Name       string
	Doc        string
	Imports    []string
}

// floor is the package's path in the module.
func (p goPackage) floor() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// ours are the packages of the module that p imports.
func (p goPackage) ours() []string {
	var list []string
	for _, i := range p.Imports {
		if rest, ok := strings.CutPrefix(i, module+"/"); ok {
			list = append(list, rest)
		}
	}
	return list
}

// importsAny tells which package that starts with prefix p imports.
func (p goPackage) importsAny(prefix string) (string, bool) {
	i := slices.IndexFunc(p.Imports, func(i string) bool { return i == prefix || strings.HasPrefix(i, prefix+"/") })
	if i < 0 {
		return "", false
	}
	return p.Imports[i], true
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Doc,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func TestEveryPackageImportsOnlyWhatStandsBelowIt(t *testing.T) {
	for _, p := range listPackages(t) {
		own := slices.Index(floors, p.floor())
		if own < 0 {
			t.Errorf("%s has no floor: put it into floors where it belongs", p.floor())
			continue
		}
		for _, imported := range p.ours() {
			if at := slices.Index(floors, imported); at >= own {
				t.Errorf("%s imports %s, which stands above it", p.floor(), imported)
			}
		}
	}
}

func TestFloorsNameNoPackageTwice(t *testing.T) {
	seen := make(map[string]bool)
	for _, f := range floors {
		if seen[f] {
			t.Errorf("%s stands twice in floors", f)
		}
		seen[f] = true
	}
}

// TestTheThreeCuts: broker and controller meet only on the wire, Raft lives in quorum, and the fold knows no disk.
func TestTheThreeCuts(t *testing.T) {
	raftMayBeIn := []string{"quorum", "quorum/transport", "quorum/quorumtest"}
	for _, p := range listPackages(t) {
		floor := p.floor()
		if pkg, found := p.importsAny("github.com/hashicorp/raft"); found && !slices.Contains(raftMayBeIn, floor) {
			t.Errorf("%s imports %s: Raft lives in quorum", floor, pkg)
		}
		for _, imported := range p.ours() {
			switch {
			case under(floor, "brokerd") && floor != "brokerd/brokerdtest" && under(imported, "quorum") && imported != "quorum/client":
				t.Errorf("%s imports %s: brokers see only quorum/client", floor, imported)
			case under(floor, "quorum") && under(imported, "brokerd"):
				t.Errorf("%s imports %s: nothing in quorum calls a broker", floor, imported)
			case floor == "fsm" && imported == "fsm/disk":
				t.Errorf("fsm imports fsm/disk: the fold knows no disk")
			case under(imported, "cmd") && !under(floor, "cmd"):
				t.Errorf("%s imports %s: cmd starts things and is imported by nobody", floor, imported)
			}
		}
	}
}

// under tells whether a package is dir or below it.
func under(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

func TestEveryPackageIsDescribed(t *testing.T) {
	for _, p := range listPackages(t) {
		if !under(p.floor(), "proto") && p.floor() != "cmd" && p.Doc == "" {
			t.Errorf("%s has no package comment", p.floor())
		}
	}
}

func TestNoPackageIsADrawerForOddments(t *testing.T) {
	drawers := []string{"util", "utils", "common", "helper", "helpers", "types", "models", "misc", "shared", "internal", "pkg"}
	for _, p := range listPackages(t) {
		for part := range strings.SplitSeq(p.floor(), "/") {
			if slices.Contains(drawers, part) {
				t.Errorf("%s: a package named %s says nothing of what is in it", p.floor(), part)
			}
		}
		if p.Name != "main" && !under(p.floor(), "proto") && p.Name != path.Base(p.floor()) && p.floor() != "" {
			t.Errorf("%s is called %s: directory and package have one name", p.floor(), p.Name)
		}
	}
}
