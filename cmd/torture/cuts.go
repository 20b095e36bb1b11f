package torture

import (
	"context"
	"errors"

	"github.com/skiffmq/skiff/cmd/skiff/up"
)

// cut does one of networkKinds to a node, and undoes it.
func (n *nemesis) cut(ctx context.Context, name string, f Fault) error {
	var err error
	if f.Kind == Isolate {
		err = n.system.do(ctx, name, up.Isolate)
	} else {
		err = n.drop(name, n.ends(name, f), f.Way)
	}
	if err == nil {
		rest(ctx, f.For)
	}
	if err := errors.Join(err, n.system.do(context.WithoutCancel(ctx), name, up.Heal)); err != nil {
		return err
	}
	return n.system.awaitReady(ctx, name)
}

// ends are the nodes at the other ends of the wires that are cut.
func (n *nemesis) ends(name string, f Fault) []string {
	var others []string
	for _, node := range n.system.nodes {
		if node.Name != name {
			others = append(others, node.Name)
		}
	}
	if f.Kind == CutLink {
		return []string{others[f.Other%len(others)]}
	}
	return others
}

// drop has what a node and others send to each other vanish.
func (n *nemesis) drop(name string, others []string, way Way) error {
	for _, other := range others {
		if way != Inbound {
			if err := n.system.wires.Drop(name, other); err != nil {
				return err
			}
		}
		if way != Outbound {
			if err := n.system.wires.Drop(other, name); err != nil {
				return err
			}
		}
	}
	return nil
}
