package endtoend

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/skiff/up"
	"github.com/skiffmq/skiff/cmd/verify"
)

// exitRefused is the exit code of an identity or a configuration that is refused: do not restart.
const exitRefused = 78

// brokerProcess runs a broker that must end by itself, and returns its exit code and what it said.
func brokerProcess(t *testing.T, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, proctest.Binary(t), append([]string{"brokerd"}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run broker: %v", err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// brokerArgs configure a broker beside a cluster, on free ports.
func brokerArgs(cluster *proctest.Cluster, id, dir string) []string {
	return []string{
		"--set", "node.id=" + id, "--set", "log.dirs=" + dir, "--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "admin.listeners=127.0.0.1:0",
		"--set", "controller.quorum.bootstrap.servers=" + strings.Join(cluster.Controllers(), ","),
	}
}

// requireSentences checks that the error names each thing, and comes with a next step.
func requireSentences(t *testing.T, out string, names ...string) {
	t.Helper()
	for _, name := range append(names, "fix:") {
		if !strings.Contains(out, name) {
			t.Errorf("the error does not name %q:\n%s", name, out)
		}
	}
}

func TestABrokerOfAnotherClusterIsRefusedOnce(t *testing.T) {
	t.Parallel()
	other := proctest.Start(t, proctest.Options{Controllers: 1, Brokers: 1})
	foreign, err := other.Status("b1")
	if err != nil {
		t.Fatal(err)
	}
	other.StopNode("b1")
	dir := filepath.Join(other.Dir(), "b1")
	cluster := proctest.Start(t, proctest.Options{Controllers: 1, Brokers: 1})
	own, err := cluster.Status("b1")
	if err != nil {
		t.Fatal(err)
	}
	code, out := brokerProcess(t, brokerArgs(cluster, "1", dir)...)
	if code != exitRefused {
		t.Errorf("exit code %d, want %d:\n%s", code, exitRefused, out)
	}
	requireSentences(t, out, foreign.ClusterID, own.ClusterID, "meta")
	other.Restart("b1") // nothing was rewritten: it still belongs where it belonged
}

func TestABrokerIDThatIsAliveElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	cluster := proctest.Start(t, proctest.Options{Controllers: 1, Brokers: 1})
	before, err := cluster.Status("b1")
	if err != nil {
		t.Fatal(err)
	}
	code, out := brokerProcess(t, brokerArgs(cluster, "1", t.TempDir())...)
	if code != exitRefused {
		t.Errorf("exit code %d, want %d:\n%s", code, exitRefused, out)
	}
	requireSentences(t, out, "broker id 1", "DUPLICATE_BROKER_REGISTRATION")
	after, err := cluster.Status("b1")
	if err != nil {
		t.Fatal(err)
	}
	if after.BrokerEpoch != before.BrokerEpoch || after.Fenced {
		t.Errorf("the living broker has epoch %d, fenced %v, and had epoch %d", after.BrokerEpoch, after.Fenced, before.BrokerEpoch)
	}
}

func TestMoreReplicasThanRegisteredBrokersAreRefused(t *testing.T) {
	t.Parallel()
	cluster := proctest.Start(t, proctest.Options{Controllers: 1, Brokers: 2})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	view, err := verify.NewView(cluster.BootstrapServers()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	if err := view.CreateTopic(ctx, "wide", 1, 3); !errors.Is(err, kerr.InvalidReplicationFactor) {
		t.Errorf("3 replicas on 2 brokers: %v, want INVALID_REPLICATION_FACTOR", err)
	}
	if _, err := view.Topic(ctx, "wide"); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("the refused topic: %v, want UNKNOWN_TOPIC_OR_PARTITION", err)
	}
	_, err = cluster.Skiff("topic", "create", "wide", "--partitions", "1", "--replication-factor", "3")
	if err == nil || !strings.Contains(err.Error(), "3") || !strings.Contains(err.Error(), "2") {
		t.Errorf("the tool says %v; it must name 3 replicas and 2 brokers", err)
	}
}

func TestAnUnknownConfigKeyIsNamedWithTheNearestOne(t *testing.T) {
	code, out := brokerProcess(t, "--set", "node.id=1", "--set", "lisstener=PLAINTEXT://127.0.0.1:0")
	if code != 2 {
		t.Errorf("exit code %d, want 2:\n%s", code, out)
	}
	requireSentences(t, out, "lisstener", "listeners")
}

func TestADataDirectoryThatCannotBeWrittenIsNamed(t *testing.T) {
	t.Parallel()
	cluster := proctest.Start(t, proctest.Options{Controllers: 1, Brokers: 1})
	readOnly := filepath.Join(t.TempDir(), "read-only")
	mountReadOnly(t, readOnly)
	code, out := brokerProcess(t, brokerArgs(cluster, "2", filepath.Join(readOnly, "data"))...)
	if code != exitRefused {
		t.Errorf("exit code %d, want %d:\n%s", code, exitRefused, out)
	}
	requireSentences(t, out, readOnly)
}

// mountReadOnly makes a directory that nobody can write to. Root writes to any directory that is only marked read-only,
// so for root it is a file system mounted read-only.
func mountReadOnly(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("root writes everywhere and may not mount here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v: %s", dir, err, out)
		}
	})
}

func TestATakenPortIsOneLineAndStartsNothing(t *testing.T) {
	t.Parallel()
	cluster := proctest.Start(t, proctest.Options{Controllers: 1, Brokers: 1})
	args := brokerArgs(cluster, "2", t.TempDir())
	args = append(args, "--set", "listeners=PLAINTEXT://"+cluster.BootstrapServers()[0])
	code, out := brokerProcess(t, args...)
	if code == 0 {
		t.Errorf("exit code 0:\n%s", out)
	}
	requireSentences(t, out, cluster.BootstrapServers()[0])
	if got := len(portsOf(cluster.Nodes(), up.Broker)); got != 1 {
		t.Errorf("%d brokers, want 1", got)
	}
	if _, err := cluster.Skiff("broker", "describe", "2"); err == nil {
		t.Error("broker 2 registered, though it could not listen")
	}
}
