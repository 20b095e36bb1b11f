package proctest

import (
	"os"
	"testing"

	"github.com/skiffmq/skiff/cmd/netns"
	"github.com/skiffmq/skiff/cmd/skiff/up"
)

// NeedNamespaces skips the test where nodes cannot have network namespaces of their own. With SKIFF_CI=1 that fails the
// test if root runs it: then only something is missing that can be installed or permitted.
func NeedNamespaces(t testing.TB) {
	t.Helper()
	err := netns.Possible()
	if err == nil {
		return
	}
	if os.Getenv("SKIFF_CI") == "1" && os.Geteuid() == 0 {
		t.Fatal(err)
	}
	t.Skip(err)
}

// Isolate unplugs the cable of a node: it reaches nobody, and nobody reaches it, the test included.
func (c *Cluster) Isolate(name string) { c.t.Helper(); c.verb(name, up.Isolate) }

// Heal undoes everything that was done to the wires of a node.
func (c *Cluster) Heal(name string) { c.t.Helper(); c.verb(name, up.Heal) }

// Wires are those of a cluster with Options.Namespaces.
func (c *Cluster) Wires() netns.Network {
	c.t.Helper()
	state, err := up.ReadState(c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	wires, ok := state.Wires()
	if !ok {
		c.t.Fatal("the nodes of this cluster share one network")
	}
	return wires
}

// Sever has everything that a node and the others would send to each other vanish, in both directions. The test still
// reaches all of them, and so do clients.
func (c *Cluster) Sever(name string, others ...string) {
	c.t.Helper()
	wires := c.Wires()
	for _, other := range others {
		for _, pair := range [][2]string{{name, other}, {other, name}} {
			if err := wires.Drop(pair[0], pair[1]); err != nil {
				c.t.Fatal(err)
			}
		}
	}
}

// unwire removes the wires that `up` could not remove because it was killed.
func (c *Cluster) unwire() {
	if state, err := up.ReadState(c.dir); err == nil {
		if wires, ok := state.Wires(); ok {
			if err := wires.Remove(); err != nil {
				c.t.Log(err)
			}
		}
	}
}
