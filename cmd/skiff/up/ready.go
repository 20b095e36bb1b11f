package up

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
)

// Ready is what the ready file holds: how to reach a cluster that runs.
type Ready struct {
	// BootstrapServers are host:port of the brokers.
	BootstrapServers []string `json:"bootstrap_servers"`
	// Controllers are host:port of the quorum nodes.
	Controllers []string `json:"controllers"`
	// Data is the cluster's directory.
	Data string `json:"data"`
	// PID of `skiff up`.
	PID int `json:"pid"`
	// Nodes of the cluster.
	Nodes []Node `json:"nodes"`
}

// Node is one node as the ready file and `skiff node list` show it.
type Node struct {
	// Name is c1.. or b1...
	Name string `json:"name"`
	// Role is quorum or broker.
	Role string `json:"role"`
	// ID is the node id.
	ID int32 `json:"id"`

	View

	// Isolated tells that its cable is unplugged.
	Isolated bool `json:"isolated,omitempty"`
	// Addresses are host:port of its listeners.
	Addresses []string `json:"addresses"`
	// Admin is host:port of its admin server.
	Admin string `json:"admin"`
	// Data is its directory.
	Data string `json:"data"`
	// Log is the file with its output.
	Log string `json:"log"`
}

// describe gathers what is known of a node.
func (c *cluster) describe(n *node) Node {
	return Node{
		Name: n.spec.Name, Role: n.spec.Role, ID: n.spec.ID, View: *n.view.Load(), Isolated: c.wires.isolated(n.spec.Name), Addresses: []string{n.spec.Address()},
		Admin: n.spec.Admin(), Data: c.where.data(n.spec.Name), Log: c.where.log(n.spec.Name),
	}
}

func (c *cluster) list() []Node {
	nodes := make([]Node, 0, len(c.nodes))
	for _, n := range c.nodes {
		nodes = append(nodes, c.describe(n))
	}
	return nodes
}

// announce writes the ready file and prints the table.
func (c *cluster) announce() error {
	nodes := c.list()
	if c.options.ReadyFile != "" {
		ready := Ready{
			BootstrapServers: addresses(ofRole(c.state.Nodes, Broker)), Controllers: addresses(ofRole(c.state.Nodes, Quorum)),
			Data: c.where.dir, PID: os.Getpid(), Nodes: nodes,
		}
		data, err := json.MarshalIndent(ready, "", "  ")
		if err != nil {
			return config.Failed("", "%s: %v", c.options.ReadyFile, err)
		}
		if err := writeFile(c.options.ReadyFile, append(data, '\n')); err != nil {
			return err
		}
	}
	if err := output.Print(c.options.Stdout, output.Table, nil, Table(nodes)); err != nil {
		return err
	}
	if brokers := ofRole(c.state.Nodes, Broker); len(brokers) > 0 {
		fmt.Fprintf(c.options.Stdout, "\nready: bootstrap server %s, data %s, Ctrl-C stops the cluster\n", brokers[0].Address(), c.where.dir)
	}
	return nil
}

// Table shows nodes to a person.
func Table(nodes []Node) output.Rows {
	table := output.Rows{Head: []string{"name", "role", "id", "state", "pid", "address", "admin", "restarts", "last exit"}}
	for _, n := range nodes {
		state := n.State
		if n.Isolated {
			state += ", isolated"
		}
		table.Add(n.Name, n.Role, n.ID, state, n.PID, n.Addresses[0], n.Admin, n.Restarts, n.LastExit)
	}
	return table
}
