package endtoend

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/skiff/explain"
)

// explained runs `skiff explain` and returns what it says of the one subject.
func explained(t *testing.T, c *proctest.Cluster, args ...string) (explain.Explanation, error) {
	t.Helper()
	// The exit code says whether the subject is healthy; the output says it, too.
	out, _ := c.Skiff(append([]string{"explain", "-o", "json"}, args...)...)
	var list []explain.Explanation
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return explain.Explanation{}, fmt.Errorf("%q: %w", out, err)
	}
	if len(list) != 1 {
		return explain.Explanation{}, fmt.Errorf("%d explanations: %q", len(list), out)
	}
	return list[0], nil
}

// awaitExplained waits until an explanation has a sentence with the words among its causes.
func awaitExplained(t *testing.T, c *proctest.Cluster, words string, args ...string) explain.Explanation {
	t.Helper()
	var e explain.Explanation
	proctest.Eventually(t, patience, fmt.Sprintf("explain %v says %q", args, words), func() error {
		var err error
		if e, err = explained(t, c, args...); err != nil {
			return err
		}
		if !slices.ContainsFunc(e.Because, func(s string) bool { return strings.Contains(s, words) }) {
			return fmt.Errorf("because %q, needs %q", e.Because, e.Needs)
		}
		return nil
	})
	return e
}

// wantAsOf compares the state at a moment.
func wantAsOf(t *testing.T, c *proctest.Cluster, offset int64, state string, args ...string) {
	t.Helper()
	e, err := explained(t, c, append(args, "--as-of", fmt.Sprint(offset))...)
	if err != nil || !strings.Contains(e.State, state) {
		t.Errorf("as of %d: %q, %v, want %q in it", offset, e.State, err, state)
	}
}

// TestExplainSaysWhyAndAsOfShowsBothStates: a broker is killed and comes back, and each state on the way is explained by
// what really happened; before and after each event the metadata of that moment is shown.
func TestExplainSaysWhyAndAsOfShowsBothStates(t *testing.T) {
	c := proctest.Start(t, proctest.Options{Set: []string{"leader.imbalance.check.interval.seconds=3600"}})
	createTopic(t, c, "three", 3, 3)
	createTopic(t, c, "single", 3, 1)
	awaitVisible(t, c, "single")
	awaitFullISR(t, c, "three")
	before := offsetOf(t, c)
	led := leaderOnBroker(t, c, "three", 2)
	alone := leaderOnBroker(t, c, "single", 2)

	c.Kill("b2")
	awaitExplained(t, c, "refuses them", "broker", "2")
	e := awaitExplained(t, c, "replica 2 is not in the ISR: broker 2 is fenced", led)
	if story := e.Story[len(e.Story)-1]; !strings.Contains(story, "leader 2 -> ") || !strings.Contains(story, "refuses them") {
		t.Errorf("the story of %s ends with %q", led, story)
	}
	awaitExplained(t, c, "it has no leader: of its replicas only [2] may lead without losing records", alone)
	awaitExplained(t, c, "creating it is refused: INVALID_REPLICATION_FACTOR", "larger", "--partitions", "1", "--replication-factor", "4")
	after := offsetOf(t, c)
	wantAsOf(t, c, before, "active", "broker", "2")
	wantAsOf(t, c, after, "fenced", "broker", "2")
	wantAsOf(t, c, before, "leader 2", led)
	wantAsOf(t, c, after, "leader none", alone)

	c.Restart("b2")
	e = awaitExplained(t, c, "is not the preferred leader 2", led)
	if !slices.ContainsFunc(e.Needs, func(s string) bool { return strings.Contains(s, "replica 2") }) {
		t.Errorf("needs %q", e.Needs)
	}
	wantAsOf(t, c, after, "leader none", alone)
	told, err := c.Skiff("history", "broker", "2")
	if err != nil {
		t.Error(err)
	}
	for _, part := range []string{"broker 2 was fenced", "broker 2 registered again", "broker 2 was unfenced"} {
		if !strings.Contains(told, part) {
			t.Errorf("the history of broker 2 has no %q:\n%s", part, told)
		}
	}
}

// offsetOf is the metadata offset of the active controller.
func offsetOf(t *testing.T, c *proctest.Cluster) int64 {
	t.Helper()
	status, err := c.Status(c.ActiveController())
	if err != nil {
		t.Fatal(err)
	}
	return status.MetadataOffset
}

// leaderOnBroker is a partition of the topic that the broker leads, as TOPIC/PARTITION.
func leaderOnBroker(t *testing.T, c *proctest.Cluster, topic string, broker int32) string {
	t.Helper()
	leaders, err := leadersOf(t, viewOf(t, c.BootstrapServers()[0]), topic)
	if err != nil {
		t.Fatal(err)
	}
	for partition, leader := range leaders {
		if leader == broker {
			return fmt.Sprintf("%s/%d", topic, partition)
		}
	}
	t.Fatalf("broker %d leads no partition of %s: %v", broker, topic, leaders)
	return ""
}
