package netns

import (
	"errors"
	"fmt"
	"slices"
)

// Unplug takes the cable of a node out.
func (n Network) Unplug(node string) error { return ip("link set " + n.cable(node) + " down") }

// Plug puts the cable of a node back.
func (n Network) Plug(node string) error { return ip("link set " + n.cable(node) + " up") }

// Drop has what one node sends to another vanish.
func (n Network) Drop(from, to string) error {
	address, err := n.addressOf(to)
	if err != nil {
		return err
	}
	return ip("-n " + n.namespace(from) + " neigh replace " + address + " lladdr " + nowhere + " dev eth0 nud permanent")
}

// Pass undoes Drop; without one it does nothing.
func (n Network) Pass(from, to string) error {
	address, err := n.addressOf(to)
	if err != nil {
		return err
	}
	return ip("-n " + n.namespace(from) + " neigh flush to " + address + " dev eth0 nud all")
}

// Heal undoes everything that was done to the wires of a node, in both directions.
func (n Network) Heal(node string) error {
	errs := []error{n.Plug(node)}
	for _, other := range n.nodes {
		if other.Name != node {
			errs = append(errs, n.Pass(node, other.Name), n.Pass(other.Name, node))
		}
	}
	return errors.Join(errs...)
}

func (n Network) addressOf(node string) (string, error) {
	i := slices.IndexFunc(n.nodes, func(m Node) bool { return m.Name == node })
	if i < 0 {
		return "", fmt.Errorf("no node of the network is called %s", node)
	}
	return n.Address(n.nodes[i].ID), nil
}
