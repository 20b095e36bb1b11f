package up

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/skiffmq/skiff/cmd/config"
)

// Roles of a node.
const (
	Quorum = "quorum"
	Broker = "broker"
)

// loopback is where everything listens that has no namespace of its own: nothing of `up` is meant for other machines.
const loopback = "127.0.0.1"

// Sizes of a cluster that one machine is asked to carry.
const (
	controllersMax = 7
	brokersMax     = 100
	portStep       = 100 // between nodes of one role
	firstVoter     = 101 // ids are never shared across the roles
	adminQuorum    = 9644 - 9092
	adminBroker    = 9645 - 9092
)

// Spec is one node of the cluster as up.json has it.
type Spec struct {
	// Name is c1, c2, … for quorum nodes and b1, b2, … for brokers.
	Name string `json:"name"`
	// Role is quorum or broker.
	Role string `json:"role"`
	// ID is the node id.
	ID int32 `json:"id"`
	// Host is where it listens if it has a network namespace of its own, else empty.
	Host string `json:"host,omitempty"`
	// Port of the quorum or of the clients.
	Port int `json:"port"`
	// AdminPort of the admin HTTP server.
	AdminPort int `json:"admin_port"`
}

// Address is host:port of the node.
func (s Spec) Address() string { return net.JoinHostPort(s.host(), strconv.Itoa(s.Port)) }

// Admin is host:port of its admin server.
func (s Spec) Admin() string { return net.JoinHostPort(s.host(), strconv.Itoa(s.AdminPort)) }

func (s Spec) host() string {
	if s.Host == "" {
		return loopback
	}
	return s.Host
}

// layout is where things are in DATA.
type layout struct{ dir string }

func (l layout) state() string           { return filepath.Join(l.dir, "up.json") }
func (l layout) lock() string            { return filepath.Join(l.dir, "up.lock") }
func (l layout) data(name string) string { return filepath.Join(l.dir, name) }
func (l layout) conf(name string) string { return filepath.Join(l.dir, "conf", name+".properties") }
func (l layout) log(name string) string  { return filepath.Join(l.dir, "logs", name+".log") }
func (l layout) directories() []string {
	return []string{filepath.Join(l.dir, "conf"), filepath.Join(l.dir, "logs")}
}
func (l layout) socket() (string, error) { return socketPath(l.dir) }
func (l layout) makeDirectories() error {
	for _, dir := range l.directories() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return config.Failed("choose a directory that can be written, with --data", "%v", err)
		}
	}
	return nil
}

// specs lists the nodes of a new cluster with the ports that base gives: brokers at base, base+100, …, quorum nodes one above.
func specs(controllers, brokers, base int) []Spec {
	var list []Spec
	for i := range controllers {
		list = append(list, Spec{
			Name: fmt.Sprintf("c%d", i+1), Role: Quorum, ID: int32(firstVoter + i),
			Port: base + 1 + portStep*i, AdminPort: base + adminQuorum + portStep*i,
		})
	}
	return append(list, brokerSpecs(0, brokers, base)...)
}

// brokerSpecs lists the brokers from the first'th (counted from 0) up to, without, the last'th.
func brokerSpecs(first, last, base int) []Spec {
	var list []Spec
	for i := first; i < last; i++ {
		list = append(list, Spec{
			Name: fmt.Sprintf("b%d", i+1), Role: Broker, ID: int32(i + 1),
			Port: base + portStep*i, AdminPort: base + adminBroker + portStep*i,
		})
	}
	return list
}

// ofRole picks the nodes of a role.
func ofRole(list []Spec, role string) []Spec {
	var picked []Spec
	for _, s := range list {
		if s.Role == role {
			picked = append(picked, s)
		}
	}
	return picked
}

// addresses of nodes.
func addresses(list []Spec) []string {
	all := make([]string, 0, len(list))
	for _, s := range list {
		all = append(all, s.Address())
	}
	return all
}

// properties is the configuration file of a node. All of it is Kafka's server.properties but for admin.listeners.
func (l layout) properties(s Spec, all []Spec, extra []string) string {
	brokers := len(ofRole(all, Broker))
	replicas := min(3, max(1, brokers))
	inSync := 1
	if brokers >= 3 {
		inSync = 2
	}
	role, listener := "controller", "CONTROLLER"
	if s.Role == Broker {
		role, listener = "broker", "PLAINTEXT"
	}
	lines := []string{
		"# Written by skiff up at each start; changes here are lost. Use skiff up --set key=value.",
		fmt.Sprintf("node.id=%d", s.ID),
		"process.roles=" + role,
		fmt.Sprintf("listeners=%s://%s", listener, s.Address()),
		"controller.quorum.bootstrap.servers=" + strings.Join(addresses(ofRole(all, Quorum)), ","),
		"log.dirs=" + escapeProperty(l.data(s.Name)),
		"admin.listeners=" + s.Admin(),
		"broker.session.timeout.ms=3000",
		fmt.Sprintf("default.replication.factor=%d", replicas),
		fmt.Sprintf("min.insync.replicas=%d", inSync),
	}
	lines = slices.Concat(lines, extra)
	return strings.Join(lines, "\n") + "\n"
}

// escapeProperty writes a value so that a .properties reader gives it back.
func escapeProperty(value string) string {
	return strings.ReplaceAll(value, `\`, `\\`)
}
