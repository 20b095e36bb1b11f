package restoretest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skiffmq/skiff/cmd/proctest"
)

// runbookFile holds the commands that these tests run.
const runbookFile = "../../docs/restore.md"

// block is a run of commands in the runbook. kind says where it is to be run: "" for anywhere.
type block struct {
	kind, text string
	line       int
}

// readRunbook gives the blocks of the runbook in their order.
func readRunbook(t *testing.T) []block {
	t.Helper()
	data, err := os.ReadFile(runbookFile)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	open := -1
	for i, line := range strings.Split(string(data), "\n") {
		switch {
		case open < 0 && strings.HasPrefix(line, "```sh"):
			blocks = append(blocks, block{kind: strings.TrimSpace(strings.TrimPrefix(line, "```sh")), line: i + 1})
			open = i
		case open < 0 && strings.HasPrefix(line, "```"):
			t.Fatalf("%s:%d: a block that is not sh is not run", runbookFile, i+1)
		case open >= 0 && line == "```":
			open = -1
		case open >= 0:
			blocks[len(blocks)-1].text += line + "\n"
		}
	}
	return blocks
}

// shell runs blocks as an operator would type them.
type shell struct {
	t   *testing.T
	dir string
	env []string
}

// newShell gives a shell with skiff and systemctl on its PATH. systemctl stops and starts nodes of the cluster.
func newShell(t *testing.T, c *proctest.Cluster) *shell {
	t.Helper()
	dir := filepath.Join(c.Dir(), "operator")
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(proctest.Binary(t), filepath.Join(bin, "skiff")); err != nil {
		t.Fatal(err)
	}
	systemctl := "#!/bin/sh\nset -e\nskiff node --data " + c.Dir() + " kill $NODE >/dev/null 2>&1 || true # it may be down already\n" +
		"test $1 = stop || exec skiff node --data " + c.Dir() + " restart $NODE\n"
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte(systemctl), 0o755); err != nil { //nolint:gosec // a script
		t.Fatal(err)
	}
	return &shell{t: t, dir: dir, env: append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SKIFF_DATA="+filepath.Join(dir, "none"))}
}

func (s *shell) set(key, value string) { s.env = append(s.env, key+"="+value) }

// run runs a block and fails the test when any of its commands fails.
func (s *shell) run(b block) string {
	s.t.Helper()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", b.text)
	cmd.Dir, cmd.Env = s.dir, s.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%s:%d: %v\n%s\n%s", runbookFile, b.line, err, b.text, out.String())
	}
	return out.String()
}

// names are the variables of the setup block: the test gives each of them its own value.
func names(t *testing.T, blocks []block) []string {
	t.Helper()
	if blocks[0].kind != "setup" {
		t.Fatalf("%s begins with the block %q", runbookFile, blocks[0].kind)
	}
	var list []string
	for _, m := range regexp.MustCompile(`(?m)^export ([A-Z]+)=`).FindAllStringSubmatch(blocks[0].text, -1) {
		list = append(list, m[1])
	}
	return list
}

// TestRunbook loses a quorum and follows the runbook to the letter.
func TestRunbook(t *testing.T) {
	blocks := readRunbook(t)
	c := proctest.Start(t, proctest.Options{})
	skiff(t, c, "topic", "create", "orders", "--partitions", "3")
	s := newShell(t, c)
	file := filepath.Join(c.Dir(), "nightly.snapshot")
	before := save(t, c, file)
	skiff(t, c, "topic", "create", "newer", "--partitions", "1")
	s.prepare(t, c, file, blocks)
	for _, n := range quorumNodes(c) { // the disaster
		c.Kill(n.Name)
	}
	for _, b := range blocks[1:] {
		switch b.kind {
		case "":
			s.once(b)
		case "on every quorum node":
			for _, n := range quorumNodes(c) {
				on := *s
				on.env = append(slices.Clone(s.env), "NODE="+n.Name, "DATA="+n.Data)
				on.run(b)
			}
		case "drill":
			drill(t, b, file)
		default:
			t.Fatalf("%s:%d: nobody knows where to run %q", runbookFile, b.line, b.kind)
		}
	}
	after := save(t, c, filepath.Join(c.Dir(), "after.snapshot"))
	for _, name := range []string{"orders", "newer"} {
		if _, ok := after.TopicByName(name); !ok {
			t.Errorf("topic %s is not there", name)
		}
	}
	if !after.Confirmed() || !after.Lineage().Descends(before.Lineage().ID) || after.NumAwaiting() > 0 {
		t.Errorf("lineage %v, confirmed %t, %d partitions wait", after.Lineage(), after.Confirmed(), after.NumAwaiting())
	}
}

// prepare gives the variables of the runbook their values.
func (s *shell) prepare(t *testing.T, c *proctest.Cluster, file string, blocks []block) {
	t.Helper()
	values := map[string]string{
		"VOTERS": voters(c), "CONTROLLERS": strings.Join(c.Controllers(), ","), "SNAPSHOT": file,
		"WITNESS": filepath.Join(c.Dir(), "c1.lost"), "DATA": "set-on-each-node",
	}
	list := names(t, blocks)
	if len(list) != len(values) {
		t.Fatalf("the runbook sets %v", list)
	}
	for _, name := range list {
		if values[name] == "" {
			t.Fatalf("the runbook sets %s, of which the test knows nothing", name)
		}
		s.set(name, values[name])
	}
}

// once runs a block. What is left of c1 is its own directory as long as step 3 has not moved it.
func (s *shell) once(b block) {
	s.t.Helper()
	on := *s
	on.env = slices.Clone(s.env)
	for _, pair := range s.env {
		if name, path, _ := strings.Cut(pair, "="); name == "WITNESS" {
			if _, err := os.Stat(path); err != nil {
				on.env = append(on.env, "WITNESS="+strings.TrimSuffix(path, ".lost"))
			}
		}
	}
	s.t.Logf("%s:%d\n%s%s", runbookFile, b.line, b.text, on.run(b))
}

// drill runs a block against empty nodes of another cluster.
func drill(t *testing.T, b block, file string) {
	t.Helper()
	c := proctest.Start(t, proctest.Options{NoBrokers: true, Controllers: 1})
	destroyQuorum(t, c)
	startEmpty(t, c)
	s := newShell(t, c)
	s.set("VOTERS", voters(c))
	s.set("CONTROLLERS", strings.Join(c.Controllers(), ","))
	s.set("SNAPSHOT", file)
	t.Logf("%s:%d\n%s%s", runbookFile, b.line, b.text, s.run(b))
}
