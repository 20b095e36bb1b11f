package restoretest

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/proctest"
	"github.com/skiffmq/skiff/cmd/skiff/up"
)

// refusal bounds a process that is to refuse its start.
const refusal = 60 * time.Second

// emptyQuorum is a quorum node without a past and without brokers.
func emptyQuorum(t *testing.T) *proctest.Cluster {
	t.Helper()
	c := proctest.Start(t, proctest.Options{NoBrokers: true, Controllers: 1})
	destroyQuorum(t, c)
	startEmpty(t, c)
	return c
}

// small is a cluster with one node of each kind and a topic.
func small(t *testing.T) *proctest.Cluster {
	t.Helper()
	c := proctest.Start(t, proctest.Options{Controllers: 1, Brokers: 1})
	skiff(t, c, "topic", "create", "orders")
	return c
}

// brokerAt runs the cluster's broker, which is stopped, against another quorum.
func brokerAt(t *testing.T, of *proctest.Cluster, broker up.Node, quorum *proctest.Cluster) (output string, code int) {
	t.Helper()
	return run(t, refusal, "brokerd", "--config", filepath.Join(of.Dir(), "conf", broker.Name+".properties"),
		"--controllers", strings.Join(quorum.Controllers(), ","))
}

// wantForeign wants a broker to have refused a quorum for good, with the next step.
func wantForeign(t *testing.T, output string, code int, words ...string) {
	t.Helper()
	if code != config.ExitRefused {
		t.Errorf("exit %d, want 78:\n%s", code, output)
	}
	for _, w := range append(words, "fix") {
		if !strings.Contains(output, w) {
			t.Errorf("the refusal does not say %q:\n%s", w, output)
		}
	}
}

// TestDrillLeavesProductionAlone: a restore beside production, under another cluster id or even under its own, touches
// neither its brokers nor its quorum; and a broker of production that is sent to a drill of another id refuses.
func TestDrillLeavesProductionAlone(t *testing.T) {
	production := small(t)
	file := filepath.Join(production.Dir(), "s.snapshot")
	lineage := save(t, production, file).Lineage().ID
	drill, twin := emptyQuorum(t), emptyQuorum(t)
	restore(t, drill, file)
	restore(t, twin, file, "--replace")
	for _, c := range []*proctest.Cluster{drill, twin} {
		awaitLineage(t, c, "c1", lineage.UUID.String())
	}
	skiff(t, production, "topic", "create", "goes-on")
	agreed := production.AwaitAgreement(patience)
	if agreed.Lineage.UUID != lineage.UUID.String() {
		t.Errorf("production follows lineage %+v", agreed.Lineage)
	}
	broker := production.Node("b1")
	production.StopNode("b1")
	output, code := brokerAt(t, production, broker, drill)
	wantForeign(t, output, code, agreed.ClusterID)
	production.Restart("b1")
	if agreed := production.AwaitAgreement(patience); agreed.Lineage.UUID != lineage.UUID.String() {
		t.Errorf("production follows lineage %+v", agreed.Lineage)
	}
}

// TestSameFileRestoredTwice makes two clusters: a broker that has followed the one refuses the other, and goes on with its own.
func TestSameFileRestoredTwice(t *testing.T) {
	first := small(t)
	file := filepath.Join(first.Dir(), "s.snapshot")
	lost := save(t, first, file).Lineage().ID
	destroyQuorum(t, first)
	startEmpty(t, first)
	restore(t, first, file, "--replace")
	awaitLineage(t, first, "b1", lost.UUID.String())
	followed := first.AwaitAgreement(patience).Lineage
	second := emptyQuorum(t)
	restore(t, second, file, "--replace")
	awaitLineage(t, second, "c1", lost.UUID.String())

	broker := first.Node("b1")
	first.StopNode("b1")
	output, code := brokerAt(t, first, broker, second)
	wantForeign(t, output, code, followed.UUID, "skiff broker adopt")
	first.Restart("b1")
	if now := first.AwaitAgreement(patience).Lineage; now != followed {
		t.Errorf("lineage %+v, was %+v", now, followed)
	}
}

// TestDirectoryOfTheLostQuorumIsRefused: a node that comes back with its old disk meets the restored quorum, and stops
// for good, at each start.
func TestDirectoryOfTheLostQuorumIsRefused(t *testing.T) {
	c := proctest.Start(t, proctest.Options{NoBrokers: true})
	file := filepath.Join(c.Dir(), "s.snapshot")
	lost := save(t, c, file).Lineage().ID
	old := destroyQuorum(t, c)
	startEmpty(t, c)
	restore(t, c, file, "--replace")
	awaitLineage(t, c, "c1", lost.UUID.String())
	back := c.Node("c3")
	c.StopNode("c3")
	for range 2 {
		output, code := run(t, refusal, "quorumd", "--config", filepath.Join(c.Dir(), "conf", "c3.properties"), "--data", filepath.Join(old, back.Name))
		if code != config.ExitRefused || !strings.Contains(output, "superseded") || !strings.Contains(output, lost.UUID.String()) || !strings.Contains(output, "rejoin") {
			t.Errorf("exit %d, want 78 and the reason:\n%s", code, output)
		}
	}
	c.Restart("c3")
	c.AwaitAgreement(patience)
}
