package up

import (
	"sync"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/netns"
)

// network is the wires of a cluster whose nodes have namespaces of their own. A nil network is that of all others.
type network struct {
	wires netns.Network
	// mu guards unplugged, and keeps verbs on one cable apart.
	mu        sync.Mutex
	unplugged map[string]bool
}

// wire lays the wires of a cluster that is to have or has namespaces, and gives its nodes their addresses.
func (o Options) wire(state State, exists bool) (State, *network, error) {
	if state.Network == nil && !(o.Namespaces && !exists) {
		return state, nil, nil
	}
	if err := netns.Possible(); err != nil {
		return State{}, nil, config.Failed("leave --network-namespaces out; the nodes of a new cluster share one network then", "%v", err)
	}
	var wires netns.Network
	var err error
	if state.Network == nil {
		wires, err = netns.Create(o.Data, netNodes(state.Nodes))
	} else {
		wires = netns.At(*state.Network, netNodes(state.Nodes))
		err = wires.Recreate(o.Data)
	}
	if err != nil {
		return State{}, nil, config.Failed("", "%v", err)
	}
	number := wires.Number()
	state.Network = &number
	for i := range state.Nodes {
		state.Nodes[i].Host = wires.Address(state.Nodes[i].ID)
	}
	return state, &network{wires: wires, unplugged: map[string]bool{}}, nil
}

// netNodes are the members of the network; a node's id is part of its address.
func netNodes(list []Spec) []netns.Node {
	nodes := make([]netns.Node, 0, len(list))
	for _, s := range list {
		nodes = append(nodes, netns.Node{Name: s.Name, ID: s.ID})
	}
	return nodes
}

// Wires are those of a cluster whose nodes have namespaces of their own; ok is false for every other.
func (s State) Wires() (wires netns.Network, ok bool) {
	if s.Network == nil {
		return netns.Network{}, false
	}
	return netns.At(*s.Network, netNodes(s.Nodes)), true
}

func (w *network) remove() error {
	if w == nil {
		return nil
	}
	return w.wires.Remove()
}

// isolate unplugs the cable of a node.
func (w *network) isolate(name string) error {
	return w.change(name, true, func() error { return w.wires.Unplug(name) })
}

// heal undoes everything that was done to the wires of a node.
func (w *network) heal(name string) error {
	return w.change(name, false, func() error { return w.wires.Heal(name) })
}

func (w *network) change(name string, unplugged bool, how func() error) error {
	if w == nil {
		return config.Failed("start a new cluster with skiff up --network-namespaces", "the nodes of this cluster share one network")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := how(); err != nil {
		return config.Failed("", "%v", err)
	}
	w.unplugged[name] = unplugged
	return nil
}

// isolated tells whether the cable of a node is unplugged.
func (w *network) isolated(name string) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unplugged[name]
}
