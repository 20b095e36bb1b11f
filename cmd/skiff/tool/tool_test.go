package tool

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
)

// skiff runs the tool and returns its exit code and what it wrote.
func skiff(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsageErrorsExitWithTwoAndSayWhereHelpIs(t *testing.T) {
	t.Setenv("SKIFF_DATA", t.TempDir())
	for _, args := range [][]string{
		{"nonsense"}, {"topic", "nonsense"}, {"topic", "create"}, {"version", "--nonsense"}, {"broker", "describe"}, {"broker", "describe", "1", "2"},
		{"node", "kill"}, {"up", "extra"}, {"version", "-o", "xml"}, {"quorum", "init", "--voters", "a:1"}, {"quorum", "status"},
		{"topic", "list", "--timeout", "soon"}, {"broker", "describe", "one", "--controllers", "127.0.0.1:1"},
		{"config", "check", "quorumd", "--set", "x"}, {"quorumd", "--config", "none.properties"}, {"brokerd"}, {"up", "--controllers", "0"},
		{"topic", "create", "x", "--config", "novalue"}, {"log", "dump", "nowhere"}, {"log", "dump", t.TempDir(), "-o", "yaml"},
	} {
		code, stdout, stderr := skiff(t, args...)
		if code != config.ExitUsage {
			t.Errorf("%q: exit %d, want 2: %s", args, code, stderr)
		}
		lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
		if stdout != "" || len(lines) != 2 || !strings.HasPrefix(lines[0], "skiff: ") || !strings.HasPrefix(lines[1], "fix: ") {
			t.Errorf("%q: want one line of cause and one of fix, got stdout %q, stderr %q", args, stdout, stderr)
		}
	}
}

func TestHelpIsNoError(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"topic"}, {"quorum", "--help"}} {
		if code, stdout, stderr := skiff(t, args...); code != config.ExitOK || !strings.Contains(stdout, "Usage:") || stderr != "" {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// TestEveryCommandIsDescribed: each has a short description and, if it takes arguments, a Use line that names them.
func TestEveryCommandIsDescribed(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" {
			t.Errorf("%s has no description", cmd.CommandPath())
		}
		if cmd.Args == nil {
			t.Errorf("%s takes any arguments", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(Command())
}

func TestVersionInEveryFormat(t *testing.T) {
	for format, want := range map[string]string{"table": "version   ", "json": `"version": "`, "yaml": "version: "} {
		if code, stdout, _ := skiff(t, "version", "-o", format); code != config.ExitOK || !strings.HasPrefix(strings.TrimLeft(stdout, "{\n "), want) {
			t.Errorf("%s: %d %q", format, code, stdout)
		}
	}
}

func TestConfigPrintShowsSources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte("node.id=1\nnum.io.threads=8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KAFKA_BROKER_RACK", "r1")
	code, stdout, stderr := skiff(t, "config", "print", "brokerd", "--config", file, "--data", "/d", "-o", "json")
	if code != config.ExitOK || !strings.Contains(stderr, "num.io.threads") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var values []printedValue
	if err := json.Unmarshal([]byte(stdout), &values); err != nil {
		t.Fatal(err)
	}
	want := map[string][2]string{
		"node.id": {"1", file + ":1"}, "broker.rack": {"r1", "env KAFKA_BROKER_RACK"}, "log.dirs": {"/d", "flag --data"}, "num.partitions": {"1", "default"},
	}
	for _, v := range values {
		if w, ok := want[v.Key]; ok && (v.Value != w[0] || v.Source != w[1]) {
			t.Errorf("%s = %q (%s), want %q", v.Key, v.Value, v.Source, w)
		}
	}
	if code, stdout, _ = skiff(t, "config", "check", "brokerd", "--config", file, "--data", "/d", "--controllers", "a:1"); code != config.ExitOK || stdout != "ok\n" {
		t.Errorf("check: %d %q", code, stdout)
	}
}

func TestClusterIsFoundInOrder(t *testing.T) {
	dir := t.TempDir()
	state := `{"version":1,"nodes":[{"name":"c1","role":"quorum","id":101,"port":9093,"admin_port":1},{"name":"b1","role":"broker","id":1,"port":9092,"admin_port":2}]}`
	if err := os.WriteFile(filepath.Join(dir, "up.json"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(file, []byte("controller.quorum.bootstrap.servers=c:9093,d:9093\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args                 []string
		brokers, controllers string
	}{
		"up":        {[]string{"--data", dir}, "127.0.0.1:9092", "127.0.0.1:9093"},
		"addresses": {[]string{"--data", dir, "--bootstrap-server", "a:1,b:2"}, "a:1 b:2", ""},
		"quorum":    {[]string{"--data", dir, "--controllers", "a:1"}, "", "a:1"},
		"config":    {[]string{"--config", file}, "", "c:9093 d:9093"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := group("x", "x")
			f := addFinder(cmd)
			if err := cmd.PersistentFlags().Parse(c.args); err != nil {
				t.Fatal(err)
			}
			found, err := f.find()
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(found.brokers, " "); got != c.brokers {
				t.Errorf("brokers %q, want %q", got, c.brokers)
			}
			if got := strings.Join(found.controllers, " "); got != c.controllers {
				t.Errorf("controllers %q, want %q", got, c.controllers)
			}
		})
	}
}

func TestUnreachableClusterFailsWithOne(t *testing.T) {
	for _, args := range [][]string{
		{"quorum", "status", "--controllers", "127.0.0.1:1", "--timeout", "2s"},
		{"broker", "list", "--controllers", "127.0.0.1:1", "--timeout", "1s"},
		{"topic", "list", "--bootstrap-server", "127.0.0.1:1", "--timeout", "1s"},
		{"quorum", "transfer", "--controllers", "127.0.0.1:1", "--timeout", "1s"},
	} {
		code, _, stderr := skiff(t, args...)
		if code != config.ExitFailed || !strings.Contains(stderr, "127.0.0.1:1") || strings.Count(stderr, "\n") != 2 {
			t.Errorf("%q: exit %d: %q", args, code, stderr)
		}
	}
}
