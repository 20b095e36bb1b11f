package up

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/config"
)

func TestPortsFollowFromTheBase(t *testing.T) {
	var got []string
	for _, s := range specs(3, 3, 9092) {
		got = append(got, s.Name+" "+s.Address()+" "+s.Admin())
	}
	want := []string{
		"c1 127.0.0.1:9093 127.0.0.1:9644", "c2 127.0.0.1:9193 127.0.0.1:9744", "c3 127.0.0.1:9293 127.0.0.1:9844",
		"b1 127.0.0.1:9092 127.0.0.1:9645", "b2 127.0.0.1:9192 127.0.0.1:9745", "b3 127.0.0.1:9292 127.0.0.1:9845",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestNoTwoNodesShareAPort(t *testing.T) {
	seen := make(map[int]string)
	for _, s := range specs(controllersMax, brokersMax, 9092) {
		for _, port := range []int{s.Port, s.AdminPort} {
			if other, twice := seen[port]; twice {
				t.Errorf("%s and %s share port %d", other, s.Name, port)
			}
			seen[port] = s.Name
		}
	}
}

func TestFreePortsAreOutOfTheWayOfOutgoingConnections(t *testing.T) {
	list := specs(3, 3, 0)
	if err := freePorts(list); err != nil {
		t.Fatal(err)
	}
	seen := make(map[int]bool)
	for _, s := range list {
		for _, port := range []int{s.Port, s.AdminPort} {
			if seen[port] || port < freePortLeast || port >= ephemeralLeast() {
				t.Errorf("port %d of %s", port, s.Name)
			}
			seen[port] = true
		}
	}
}

// TestConfigurationIsReadBack: the file that is written for a node is one that the node takes, without a warning.
func TestConfigurationIsReadBack(t *testing.T) {
	where := layout{dir: `/data/with \ and space`}
	for brokers, want := range map[int][2]int32{1: {1, 1}, 2: {2, 1}, 3: {3, 2}, 5: {3, 2}} {
		all := specs(3, brokers, 9092)
		for _, s := range all {
			path := t.TempDir() + "/node.properties"
			if err := writeFile(path, []byte(where.properties(s, all, []string{"log.level=debug"}))); err != nil {
				t.Fatal(err)
			}
			in := config.Input{File: path, FileGiven: true}
			var node config.Node
			if s.Role == Quorum {
				q, err := config.LoadQuorum(in)
				if err != nil {
					t.Fatal(err)
				}
				node = q.Node
			} else {
				b, err := config.LoadBroker(in)
				if err != nil {
					t.Fatal(err)
				}
				node = b.Node
			}
			if len(node.Warnings) > 0 || node.NodeID != s.ID || node.SessionTimeout != 3*time.Second || node.Logging.Level != "debug" ||
				int32(node.Topic.ReplicationFactor) != want[0] || node.Topic.MinInsyncReplicas != want[1] || len(node.BootstrapServers) != 3 {
				t.Errorf("%d brokers, %s: %+v", brokers, s.Name, node)
			}
		}
	}
}

func TestSizesAreChecked(t *testing.T) {
	for _, c := range []struct {
		controllers, brokers, base int
		ok                         bool
	}{
		{1, 0, 9092, true}, {7, 100, 9092, true}, {3, 3, 0, true}, {0, 3, 9092, false}, {8, 3, 9092, false}, {3, 101, 9092, false},
		{3, -1, 9092, false}, {3, 3, 80, false}, {3, 3, 65_000, false},
	} {
		if err := checkSizes(c.controllers, c.brokers, c.base); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestLongDirectoriesHaveAShortSocket(t *testing.T) {
	short, err := socketPath("/data")
	if err != nil || short != "/data/up.sock" {
		t.Errorf("%s %v", short, err)
	}
	long, err := socketPath("/" + strings.Repeat("d", 200))
	if err != nil || len(long) > socketPathMax {
		t.Errorf("%s %v", long, err)
	}
	other, err := socketPath("/" + strings.Repeat("e", 200))
	if err != nil || other == long {
		t.Errorf("two directories share %s", other)
	}
}

func TestChildrenDoNotSeeKeysInTheEnvironment(t *testing.T) {
	got := childEnvironment([]string{"PATH=/bin", "SKIFF_NODE_ID=1", "KAFKA_LISTENERS=x", "SKIFFY=1"})
	if !slices.Equal(got, []string{"PATH=/bin", "SKIFFY=1"}) {
		t.Errorf("got %q", got)
	}
}
