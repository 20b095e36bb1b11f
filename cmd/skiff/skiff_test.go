package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/proctest"
)

func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

// tool is one cluster with the tool's answers as JSON.
type tool struct {
	t *testing.T
	c *proctest.Cluster
}

// ask runs the tool and reads its JSON.
func (k tool) ask(into any, args ...string) {
	k.t.Helper()
	out, err := k.c.Skiff(append(args, "-o", "json")...)
	if err != nil {
		k.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		k.t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// fails runs the tool and wants an exit code and words of its error.
func (k tool) fails(code string, words string, args ...string) {
	k.t.Helper()
	_, err := k.c.Skiff(args...)
	if err == nil || !strings.Contains(err.Error(), "exit status "+code) || !strings.Contains(err.Error(), words) {
		k.t.Errorf("%q: want exit status %s and %q, got %v", args, code, words, err)
	}
}

// TestOperatorsWalk goes through every command on one cluster of real processes.
func TestOperatorsWalk(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "archive")
	c := proctest.Start(t, proctest.Options{Set: []string{
		"snapshot.archive.dir=" + archive, "snapshot.archive.interval.ms=1000", "snapshot.archive.retention.count=5",
	}})
	k := tool{t: t, c: c}
	topics(k)
	brokers(k)
	quorum(k)
	fromOtherAddresses(k)
	logs(k)
	snapshots(k, archive)
}

func topics(k tool) {
	k.t.Helper()
	var created []struct {
		Name       string
		Partitions int
		Replicas   int `json:"replication_factor"`
	}
	k.ask(&created, "topic", "create", "orders", "--partitions", "4", "--config", "retention.ms=1000")
	if len(created) != 1 || created[0].Name != "orders" || created[0].Partitions != 4 || created[0].Replicas != 3 {
		k.t.Errorf("created %+v", created)
	}
	k.fails("1", "orders: TOPIC_ALREADY_EXISTS", "topic", "create", "orders")
	k.fails("1", "INVALID_REPLICATION_FACTOR", "topic", "create", "wide", "--replication-factor", "4")
	var described []struct {
		Configs    map[string]string
		Partitions []struct {
			Leader   int32
			Replicas []int32
			ISR      []int32
		}
	}
	k.ask(&described, "topic", "describe", "orders")
	if len(described) != 1 || len(described[0].Partitions) != 4 || described[0].Configs["retention.ms"] != "1000" {
		k.t.Fatalf("described %+v", described)
	}
	for _, p := range described[0].Partitions {
		if p.Leader < 1 || len(p.Replicas) != 3 || len(p.ISR) != 3 {
			k.t.Errorf("partition %+v", p)
		}
	}
	k.fails("1", "nothing: UNKNOWN_TOPIC_OR_PARTITION", "topic", "describe", "nothing")
	var list []struct{ Name string }
	k.ask(&list, "topic", "list")
	if len(list) != 1 || list[0].Name != "orders" {
		k.t.Errorf("list %+v", list)
	}
}

func brokers(k tool) {
	k.t.Helper()
	type broker struct {
		ID       int32
		State    string
		Replicas int
		Led      int
		OutOfISR int `json:"out_of_isr"`
	}
	var list []broker
	k.ask(&list, "broker", "list")
	led := 0
	for _, b := range list {
		led += b.Led
		if b.State != "active" || b.Replicas != 4 || b.OutOfISR != 0 {
			k.t.Errorf("broker %+v", b)
		}
	}
	if len(list) != 3 || led != 4 {
		k.t.Errorf("brokers %+v", list)
	}
	k.c.Kill("b3")
	proctest.Eventually(k.t, 30*time.Second, "broker 3 is fenced and out of every ISR", func() error {
		var b broker
		k.ask(&b, "broker", "describe", "3")
		if b.State != "fenced" || b.OutOfISR != 4 || b.Led != 0 {
			return fmt.Errorf("broker %+v", b)
		}
		return nil
	})
	k.c.Restart("b3")
	proctest.Eventually(k.t, 60*time.Second, "broker 3 is back in every ISR", func() error {
		var b broker
		k.ask(&b, "broker", "describe", "3")
		if b.State != "active" || b.OutOfISR != 0 {
			return fmt.Errorf("broker %+v", b)
		}
		return nil
	})
	k.fails("1", "no broker 9 is registered", "broker", "describe", "9")
}

func quorum(k tool) {
	k.t.Helper()
	var status struct {
		ActiveID int32 `json:"active_id"`
		Healthy  bool
		Nodes    []struct{ ID int32 }
	}
	k.ask(&status, "quorum", "status")
	if !status.Healthy || len(status.Nodes) != 3 {
		k.t.Fatalf("status %+v", status)
	}
	target := int32(101)
	if status.ActiveID == target {
		target = 102
	}
	var moved struct{ From, To int32 }
	k.ask(&moved, "quorum", "transfer", "--to", map[int32]string{101: "101", 102: "102"}[target])
	if moved.From != status.ActiveID || moved.To != target {
		k.t.Errorf("moved %+v, want %d to %d", moved, status.ActiveID, target)
	}
	voters := make([]string, 3)
	for i, address := range k.c.Controllers() {
		voters[i] = []string{"101", "102", "103"}[i] + "@" + address
	}
	var again struct {
		ClusterID string `json:"cluster_id"`
		Changed   bool
	}
	k.ask(&again, "quorum", "init", "--voters", strings.Join(voters, ","))
	if again.Changed || again.ClusterID == "" {
		k.t.Errorf("init of what is initialised: %+v", again)
	}
	k.fails("78", "is initialised with voters", "quorum", "init", "--voters", strings.Join(voters[:2], ","), "--timeout", "20s")
	k.c.Kill("c3")
	k.fails("10", "the quorum is not healthy", "quorum", "status")
	k.c.Restart("c3")
}

// fromOtherAddresses: the cluster is found without the directory, too.
func fromOtherAddresses(k tool) {
	k.t.Helper()
	var list []struct{ Name string }
	k.ask(&list, "topic", "list", "--bootstrap-server", k.c.BootstrapServers()[1])
	if len(list) != 1 {
		k.t.Errorf("by a broker: %+v", list)
	}
	k.ask(&list, "topic", "list", "--controllers", k.c.Controllers()[2])
	if len(list) != 1 {
		k.t.Errorf("by a quorum node: %+v", list)
	}
	var brokers []struct{ ID int32 }
	k.ask(&brokers, "broker", "list", "--config", filepath.Join(k.c.Dir(), "conf", "b1.properties"))
	if len(brokers) != 3 {
		k.t.Errorf("by a configuration file: %+v", brokers)
	}
}

func logs(k tool) {
	k.t.Helper()
	var deleted []string
	k.ask(&deleted, "topic", "delete", "orders")
	if len(deleted) != 1 || deleted[0] != "orders" {
		k.t.Errorf("deleted %q", deleted)
	}
	k.c.AwaitAgreement(30 * time.Second)
	for _, node := range []string{"c1", "b1"} { // they run
		out, err := k.c.Skiff("log", "dump", node)
		if err != nil {
			k.t.Errorf("%s: %v", node, err)
		}
		for _, want := range []string{"CreateTopics by", `"name":"orders"`, "DeleteTopics by", "broker_unfenced"} {
			if !strings.Contains(strings.ReplaceAll(out, `": "`, `":"`), want) {
				k.t.Errorf("%s: the log does not show %q:\n%s", node, want, out)
			}
		}
		if out, err := k.c.Skiff("log", "dump", node, "--topic", "orders"); err != nil || !strings.Contains(out, "orders") || strings.Contains(out, "broker_unfenced") {
			k.t.Errorf("%s: of the topic alone: %v\n%s", node, err, out)
		}
	}
}
