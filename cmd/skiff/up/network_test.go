package up

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/netns"
)

// TestIsolatedNodeIsReachedByNobody, until it is healed. The cluster continues on its network, and what is to be cut off must
// have been given wires.
func TestIsolatedNodeIsReachedByNobody(t *testing.T) {
	if err := netns.Possible(); err != nil {
		if os.Getenv("SKIFF_CI") != "" && os.Geteuid() == 0 {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	o := options(t.TempDir())
	o.Namespaces = true
	r := begin(t, o)
	r.ready()
	before, err := ReadState(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	if n := r.do("b1", Isolate); !n.Isolated || n.State != Running {
		t.Errorf("isolate: %+v", n)
	}
	if _, err := probePID(before.Nodes[1]); err == nil {
		t.Error("it is reached")
	}
	if _, err := probePID(before.Nodes[0]); err != nil {
		t.Errorf("the other node is not reached: %v", err)
	}
	if n := r.do("b1", Heal); n.Isolated {
		t.Errorf("heal: %+v", n)
	}
	eventually(t, "it is reached again", func() bool { pid, err := probePID(before.Nodes[1]); return err == nil && pid == r.node("b1").PID })
	r.stop()

	o.Controllers, o.Brokers, o.Port, o.Namespaces = Unset, Unset, Unset, false
	r = begin(t, o)
	r.ready()
	after, err := ReadState(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	if after.Network == nil || *after.Network != *before.Network || after.Nodes[1] != before.Nodes[1] {
		t.Errorf("before %+v, after %+v", before, after)
	}
	r.stop()
}

func TestNodesOfOneNetworkAreNotIsolated(t *testing.T) {
	o := options(t.TempDir())
	r := begin(t, o)
	r.ready()
	for _, verb := range []string{Isolate, Heal} {
		_, err := r.client.Do(context.Background(), "b1", verb, false)
		if config.ExitCode(err) != config.ExitFailed || !strings.Contains(err.Error(), "share one network") {
			t.Errorf("%s: %v", verb, err)
		}
	}
	r.stop()
	o.Controllers, o.Brokers, o.Port, o.Namespaces = Unset, Unset, Unset, true
	if err := begin(t, o).wait(); config.ExitCode(err) != config.ExitUsage {
		t.Errorf("namespaces for old data: %v", err)
	}
}
