package netns

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// Limits of a network.
const (
	// numbers is how many networks one machine can have.
	numbers = 256
	// IDMax is the greatest node id that has an address.
	IDMax = 253
	// machine is the last part of this machine's address.
	machine = 254
)

// Node is a member of a network.
type Node struct {
	// Name of the node, at most 6 letters and digits: it becomes part of the names of its interface and namespace.
	Name string
	// ID is the last part of its address, from 1 to IDMax.
	ID int32
}

// Network is the wires of one cluster. Its methods may be called from any goroutine and process that may use ip.
type Network struct {
	number int
	nodes  []Node
}

// At returns the network with a number without touching anything.
func At(number int, nodes []Node) Network { return Network{number: number, nodes: slices.Clone(nodes)} }

// Possible tells why there can be no network namespaces here; nil if there can.
func Possible() error {
	switch {
	case runtime.GOOS != "linux":
		return fmt.Errorf("network namespaces need Linux, this is %s", runtime.GOOS)
	case os.Geteuid() != 0:
		return errors.New("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return errors.New("network namespaces need ip of iproute2, which is not on PATH")
	}
	name := fmt.Sprintf("skiff-probe-%d", os.Getpid())
	if err := ip("netns add "+name, "netns delete "+name); err != nil {
		return fmt.Errorf("network namespaces are not permitted here: %w", err)
	}
	return nil
}

// Create makes a network with a free number. The owner, a line of text, is noted at its bridge.
func Create(owner string, nodes []Node) (Network, error) {
	first := rand.IntN(numbers)
	for i := range numbers {
		n := At((first+i)%numbers, nodes)
		if exists("/sys/class/net/" + n.bridge()) {
			continue
		}
		err := n.build(owner)
		if errors.Is(err, errTaken) {
			continue // somebody else was faster
		}
		return n, err
	}
	return Network{}, fmt.Errorf("all of %d network numbers are taken", numbers)
}

// Recreate makes the network with its number again. What the same owner left behind is removed first; a network of
// somebody else is an error.
func (n Network) Recreate(owner string) error {
	before, taken, err := n.owner()
	switch {
	case err != nil:
		return err
	case taken && before != owner:
		return fmt.Errorf("network %d is that of %s", n.number, before)
	case taken:
		if err := n.Remove(); err != nil {
			return err
		}
	}
	return n.build(owner)
}

// Number of the network.
func (n Network) Number() int { return n.number }

// Address of a node, without a port.
func (n Network) Address(id int32) string { return fmt.Sprintf("10.213.%d.%d", n.number, id) }

// Command is a command line that runs another one in the namespace of a node, in the same process.
func (n Network) Command(node string, line ...string) []string {
	return append([]string{"ip", "netns", "exec", n.namespace(node)}, line...)
}

func (n Network) bridge() string               { return fmt.Sprintf("skiff%d", n.number) }
func (n Network) namespace(node string) string { return fmt.Sprintf("skiff%d-%s", n.number, node) }
func (n Network) cable(node string) string     { return fmt.Sprintf("sk%d-%s", n.number, node) }
func (n Network) hardware(id int32) string     { return fmt.Sprintf("02:53:4b:00:%02x:%02x", n.number, id) }

// errTaken is returned when somebody made the network meanwhile.
var errTaken = errors.New("the number is taken")

// nowhere is a hardware address that nobody has.
const nowhere = "02:53:4b:ff:ff:ff"

// owner is what is noted at the bridge, if there is one.
func (n Network) owner() (alias string, exists bool, err error) {
	data, err := os.ReadFile("/sys/class/net/" + n.bridge() + "/ifalias")
	if errors.Is(err, os.ErrNotExist) {
		return "", false, nil
	}
	return strings.TrimSpace(string(data)), err == nil, err
}

// build makes bridge, namespaces and cables. What fails half-way is removed.
func (n Network) build(owner string) error {
	if err := ip("link add " + n.bridge() + " type bridge"); err != nil && exists("/sys/class/net/"+n.bridge()) {
		return fmt.Errorf("make network %d: %w: %w", n.number, errTaken, err)
	} else if err != nil {
		return fmt.Errorf("make network %d: %w", n.number, err)
	}
	err := command("ip", "link", "set", n.bridge(), "alias", owner)
	if err == nil {
		err = ip("addr add "+n.Address(machine)+"/24 dev "+n.bridge(), "link set "+n.bridge()+" up")
	}
	for _, node := range n.nodes {
		if err == nil {
			err = n.wire(node)
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make network %d: %w", n.number, err), n.Remove())
	}
	return nil
}

// wire makes the namespace of a node and its cable to the bridge.
func (n Network) wire(node Node) error {
	if node.ID < 1 || node.ID > IDMax {
		return fmt.Errorf("node %s has id %d, and addresses are for 1 to %d", node.Name, node.ID, IDMax)
	}
	space, cable := n.namespace(node.Name), n.cable(node.Name)
	return ip(
		"netns add "+space,
		"link add "+cable+" type veth peer name eth0 netns "+space,
		"link set "+cable+" master "+n.bridge()+" up",
		"-n "+space+" link set lo up",
		"-n "+space+" link set eth0 address "+n.hardware(node.ID)+" up",
		"-n "+space+" addr add "+n.Address(node.ID)+"/24 dev eth0",
	)
}

// Remove takes the network away. Processes that are still in a namespace stay in it, connected to nobody.
func (n Network) Remove() error {
	var errs []error
	for _, node := range n.nodes {
		if exists("/run/netns/" + n.namespace(node.Name)) {
			errs = append(errs, ip("netns delete "+n.namespace(node.Name)))
		}
	}
	for _, node := range n.nodes {
		cable := "/sys/class/net/" + n.cable(node.Name)
		if !exists(cable) {
			continue // it went with its namespace
		}
		if err := ip("link delete " + n.cable(node.Name)); err != nil && exists(cable) {
			errs = append(errs, err)
		}
	}
	if exists("/sys/class/net/" + n.bridge()) {
		errs = append(errs, ip("link delete "+n.bridge()))
	}
	return errors.Join(errs...)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ip runs ip with each line of arguments until one fails.
func ip(lines ...string) error {
	for _, line := range lines {
		if err := command("ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

// command runs a command and tells what it said if it failed.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
