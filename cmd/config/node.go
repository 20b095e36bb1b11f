package config

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Node is what both kinds of process are configured with.
type Node struct {
	// NodeID of the node, unique over both roles.
	NodeID int32
	// BootstrapServers are host:port of quorum nodes.
	BootstrapServers []string
	// AdminListeners are host:port of the admin HTTP server; empty for none.
	AdminListeners []string
	// SessionTimeout after which a silent broker is fenced.
	SessionTimeout time.Duration
	// Topic are the defaults of topics that do not say.
	Topic TopicDefaults
	// Logging of the process.
	Logging Logging
	// Warnings are lines to log once at the start.
	Warnings []string
	// Values are all keys with their sources.
	Values *Values
}

// TopicDefaults hold for topics that do not say.
type TopicDefaults struct {
	// NumPartitions of a new topic.
	NumPartitions int32
	// ReplicationFactor of a new topic.
	ReplicationFactor int16
	// MinInsyncReplicas that acks=all needs.
	MinInsyncReplicas int32
	// UncleanLeaderElection allows a leader from outside the ISR.
	UncleanLeaderElection bool
	// MessageBytesMax of one record batch.
	MessageBytesMax int32
	// SegmentBytes at which a segment is closed.
	SegmentBytes int64
	// Retention of closed segments; negative for ever.
	Retention time.Duration
	// RetentionBytes of a partition; negative for no limit.
	RetentionBytes int64
	// LogAppendTime stamps records by the broker's clock.
	LogAppendTime bool
}

// Logging tells how a process logs.
type Logging struct {
	// JSON rather than text.
	JSON bool
	// Level is the least that is logged: trace, debug, info, warn or error.
	Level string
}

// Logger returns a logger that writes to w in RFC 3339 UTC.
func (l Logging) Logger(w io.Writer, name string) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{
		Name:       name,
		Level:      hclog.LevelFromString(l.Level),
		Output:     w,
		JSONFormat: l.JSON,
		TimeFormat: "2006-01-02T15:04:05.000Z",
		TimeFn:     func() time.Time { return time.Now().UTC() },
	})
}

// node reads what both roles have.
func (v *Values) node() (Node, error) {
	c := Node{
		BootstrapServers: v.list("controller.quorum.bootstrap.servers"),
		AdminListeners:   v.list("admin.listeners"),
		SessionTimeout:   v.millis("broker.session.timeout.ms"),
		Topic:            v.topicDefaults(),
		Logging:          Logging{JSON: v.word("log.format") == "json", Level: v.word("log.level")},
		Warnings:         slices.Clone(v.warnings),
		Values:           v,
	}
	if !v.given("node.id") {
		return c, Usage("set node.id (or --node-id)", "configuration: node.id is missing")
	}
	c.NodeID = v.int32("node.id")
	if err := v.checkRoles(); err != nil {
		return c, err
	}
	for _, address := range c.AdminListeners {
		if !loopback(address) {
			c.Warnings = append(c.Warnings, fmt.Sprintf("admin.listeners has %s: the admin server knows no authentication, keep it away from strangers", address))
		}
	}
	return c, nil
}

// checkRoles refuses a file that is meant for another process. Kafka's combined mode is two processes here.
func (v *Values) checkRoles() error {
	if !v.given("process.roles") {
		return nil
	}
	roles := v.list("process.roles")
	if len(roles) == 1 && roles[0] == v.role.kafkaRole() {
		return nil
	}
	if len(roles) > 1 {
		return v.problem("process.roles", "run quorumd and brokerd, each with its own node.id and file", "one process has one role")
	}
	return v.problem("process.roles", "start the other binary with this file, or correct process.roles", "%s is %q", v.role, v.role.kafkaRole())
}

func (v *Values) topicDefaults() TopicDefaults {
	return TopicDefaults{
		NumPartitions:         v.int32("num.partitions"),
		ReplicationFactor:     int16(v.int64("default.replication.factor")),
		MinInsyncReplicas:     v.int32("min.insync.replicas"),
		UncleanLeaderElection: v.flag("unclean.leader.election.enable"),
		MessageBytesMax:       v.int32("message.max.bytes"),
		SegmentBytes:          v.int64("log.segment.bytes"),
		Retention:             v.millis("log.retention.ms"),
		RetentionBytes:        v.int64("log.retention.bytes"),
		LogAppendTime:         v.word("log.message.timestamp.type") == "logappendtime",
	}
}

// directories reads log.dirs, every path made absolute.
func (v *Values) directories() ([]string, error) {
	var dirs []string
	for _, dir := range v.list("log.dirs") {
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, v.problem("log.dirs", "give an absolute path", "%v", err)
		}
		if slices.Contains(dirs, path) {
			return nil, v.problem("log.dirs", "name each directory once", "%s stands there twice", path)
		}
		dirs = append(dirs, path)
	}
	return dirs, nil
}

// protocols gives every listener its security protocol and refuses what cannot be spoken.
func (v *Values) protocols(key string, listeners []Listener) ([]Listener, error) {
	protocols, err := parseProtocols(v.text("listener.security.protocol.map"))
	if err != nil {
		return nil, v.problem("listener.security.protocol.map", "write NAME:PROTOCOL", "%v", err)
	}
	for i, l := range listeners {
		protocol, mapped := protocols[l.Name]
		if _, isProtocol := protocolIDs[l.Name]; !mapped && isProtocol {
			protocol, mapped = l.Name, true
		}
		if !mapped && (len(protocols) == 0 || v.role == RoleQuorum) {
			protocol, mapped = "PLAINTEXT", true
		}
		if !mapped {
			return nil, v.problem(key, "add it to listener.security.protocol.map", "listener %s has no security protocol", l.Name)
		}
		if protocol != "PLAINTEXT" {
			return nil, v.problem(key, "use PLAINTEXT", "listener %s wants %s, which is not supported yet", l.Name, protocol)
		}
		listeners[i].Protocol = protocol
	}
	return listeners, nil
}

// listeners reads the sockets to bind.
func (v *Values) listeners() ([]Listener, error) {
	list, err := ParseListeners(v.text("listeners"))
	if err != nil {
		return nil, v.problem("listeners", "write NAME://host:port", "%v", err)
	}
	return v.protocols("listeners", list)
}

// advertised reads the addresses that others are told: one for each bound listener, in their order.
func (v *Values) advertised(bound []Listener) ([]Listener, error) {
	var list []Listener
	key := "listeners"
	if v.given("advertised.listeners") {
		key = "advertised.listeners"
		var err error
		if list, err = ParseListeners(v.text(key)); err != nil {
			return nil, v.problem(key, "write NAME://host:port", "%v", err)
		}
	}
	for _, l := range list {
		if !slices.ContainsFunc(bound, func(b Listener) bool { return b.Name == l.Name }) {
			return nil, v.problem(key, "advertise only what listeners binds", "listener %s is not bound", l.Name)
		}
	}
	told := make([]Listener, len(bound))
	for i, b := range bound {
		told[i] = b
		if at := slices.IndexFunc(list, func(l Listener) bool { return l.Name == b.Name }); at >= 0 {
			told[i] = list[at]
		}
		host, err := v.advertisedHost(key, told[i])
		if err != nil {
			return nil, err
		}
		told[i].Host = host
	}
	return v.protocols(key, told)
}

// advertisedHost gives an empty host this machine's name. 0.0.0.0 is refused: nobody can connect to it.
func (v *Values) advertisedHost(key string, l Listener) (string, error) {
	if !l.wildcard() {
		return l.Host, nil
	}
	if l.Host != "" {
		return "", v.problem(key, "set advertised.listeners to an address that clients reach", "%s cannot be advertised", l.Host)
	}
	name, err := v.hostname()
	if err == nil && name == "" {
		err = errors.New("the machine has no name")
	}
	if err != nil {
		return "", v.problem(key, "set advertised.listeners", "no host is given, and %v", err)
	}
	return name, nil
}

// loopback tells whether a host:port is this machine's alone.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
