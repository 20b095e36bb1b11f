package proctest_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skiffmq/skiff/cmd/proctest"
)

func TestMain(m *testing.M) { os.Exit(proctest.Main(m)) }

// TestClusterSurvivesStopAndCrash: stopped in order and started, killed as a whole and started, it is the same cluster with the same topic.
func TestClusterSurvivesStopAndCrash(t *testing.T) {
	c := proctest.Start(t, proctest.Options{Brokers: 2})
	if _, err := c.Skiff("topic", "create", "kept", "--partitions", "2"); err != nil {
		t.Fatal(err)
	}
	before := c.AwaitAgreement(30 * time.Second)

	c.Stop()
	c.Start()
	describeTopic(t, c)

	c.CrashAll()
	c.Start()
	describeTopic(t, c)
	after := c.AwaitAgreement(30 * time.Second)
	if after.ClusterID != before.ClusterID || after.Lineage != before.Lineage || after.MetadataOffset <= before.MetadataOffset {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func describeTopic(t *testing.T, c *proctest.Cluster) {
	t.Helper()
	proctest.Eventually(t, time.Minute, "the topic has leaders", func() error {
		out, err := c.Skiff("topic", "describe", "kept")
		if err != nil {
			return err
		}
		if lines := strings.Count(out, "\nkept"); lines != 2 {
			t.Fatalf("want 2 partitions:\n%s", out)
		}
		return nil
	})
}

// TestActiveControllerIsReplaced: after a kill and after a pause another quorum node is active, and the first one comes back.
func TestActiveControllerIsReplaced(t *testing.T) {
	c := proctest.Start(t, proctest.Options{NoBrokers: true})
	first := c.ActiveController()
	c.Kill(first)
	second := c.ActiveController()
	if second == first {
		t.Fatalf("%s is active though it was killed", first)
	}
	c.Restart(first)
	c.Pause(second)
	third := c.ActiveController()
	if third == second {
		t.Fatalf("%s is active though it is paused", second)
	}
	c.Resume(second)
	c.AwaitReady(second)
	if out, err := c.Skiff("quorum", "status"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := c.Node(first); n.PID == 0 {
		t.Errorf("%+v", n)
	}
	c.AwaitAgreement(30 * time.Second)
}
