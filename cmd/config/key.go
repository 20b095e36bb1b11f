package config

import (
	"math"
	"strings"
)

// Role is the process that a configuration is for.
type Role int

// The roles; a key belongs to one or to both.
const (
	RoleQuorum Role = 1 << iota
	RoleBroker

	roleBoth = RoleQuorum | RoleBroker
)

// String returns the name of the binary.
func (r Role) String() string {
	if r == RoleQuorum {
		return "quorumd"
	}
	return "brokerd"
}

// kafkaRole is how Kafka's process.roles calls the role.
func (r Role) kafkaRole() string {
	if r == RoleQuorum {
		return "controller"
	}
	return "broker"
}

// Key is one key that Skiff uses.
type Key struct {
	// Name as Kafka has it, or ours.
	Name string
	// Default is the value when no source has one; empty means none.
	Default string
	// Doc is one sentence.
	Doc string

	kind    kind
	roles   Role
	aliases []string // older or finer names of Kafka's that mean the same key
}

const (
	maxInt32 = math.MaxInt32
	maxInt64 = math.MaxInt64
)

// keys are all keys that Skiff uses, in the order in which they are printed. Defaults are Kafka's where Kafka has the key and the
// last column of docs/divergence.md says nothing else.
var keys = []Key{
	{Name: "node.id", aliases: []string{"broker.id"}, kind: whole(0, maxInt32), roles: roleBoth, Doc: "Id of the node, unique over both roles."},
	{Name: "process.roles", kind: rolesOf, roles: roleBoth, Doc: "Checked against the binary: controller for quorumd, broker for brokerd."},
	{Name: "listeners", kind: listenerList, roles: roleBoth, Doc: "Sockets to bind. Default: CONTROLLER://127.0.0.1:9093 (quorumd), PLAINTEXT://127.0.0.1:9092 (brokerd)."},
	{Name: "advertised.listeners", kind: listenerList, roles: roleBoth, Doc: "Addresses that others are told. Default: those of listeners."},
	{Name: "listener.security.protocol.map", kind: protocolMap, roles: roleBoth, Doc: "Security protocol of each listener name."},
	{Name: "inter.broker.listener.name", Default: "", kind: anyText, roles: RoleBroker, Doc: "Listener that brokers use between them. Default: the first."},
	{Name: "controller.listener.names", kind: anyList, roles: roleBoth, Doc: "Which of listeners is the quorum's."},
	{Name: "controller.quorum.bootstrap.servers", kind: addressList, roles: roleBoth, Doc: "host:port of quorum nodes, to find the quorum by."},
	{Name: "controller.quorum.peers", kind: peerList, roles: RoleQuorum, Doc: "id@host:port of quorum nodes whose known address is not to be used."},
	{Name: "log.dirs", aliases: []string{"log.dir"}, kind: someText, roles: roleBoth, Doc: "Data directory."},
	{Name: "metadata.log.dir", kind: someText, roles: roleBoth, Doc: "Directory of the metadata log. Default: the first of log.dirs."},
	{Name: "broker.rack", kind: anyText, roles: RoleBroker, Doc: "Rack of the broker."},
	{Name: "num.partitions", Default: "1", kind: whole(1, 10_000), roles: roleBoth, Doc: "Partitions of a topic that does not say."},
	{Name: "default.replication.factor", Default: "1", kind: whole(1, math.MaxInt16), roles: roleBoth, Doc: "Replicas of a topic that does not say."},
	{Name: "min.insync.replicas", Default: "1", kind: whole(1, maxInt32), roles: roleBoth, Doc: "Members the ISR needs for acks=all, of a topic that does not say."},
	{Name: "auto.create.topics.enable", Default: "true", kind: boolean, roles: RoleBroker, Doc: "Whether asking for the metadata of an unknown topic creates it."},
	{Name: "unclean.leader.election.enable", Default: "false", kind: boolean, roles: roleBoth, Doc: "Whether a replica out of the ISR may lead when no other is left, at the price of records."},
	{Name: "broker.session.timeout.ms", Default: "9000", kind: whole(100, maxInt32), roles: roleBoth, Doc: "Silence after which the controller fences a broker."},
	{Name: "broker.heartbeat.interval.ms", kind: whole(10, maxInt32), roles: RoleBroker, Doc: "Default: a sixth of broker.session.timeout.ms."},
	{Name: "initial.broker.registration.timeout.ms", Default: "60000", kind: whole(1, maxInt32), roles: RoleBroker, Doc: "Time after which a broker that could not register says so and exits."},
	{Name: "controlled.shutdown.enable", Default: "true", kind: boolean, roles: RoleBroker, Doc: "Whether a broker hands its leaderships over before it stops."},
	{Name: "controlled.shutdown.timeout.ms", Default: "30000", kind: whole(0, maxInt32), roles: RoleBroker, Doc: "Longest wait for that."},
	{Name: "replica.lag.time.max.ms", Default: "30000", kind: whole(100, maxInt32), roles: RoleBroker, Doc: "A follower that has not caught up for so long leaves the ISR."},
	{Name: "replica.fetch.wait.max.ms", Default: "500", kind: whole(1, maxInt32), roles: RoleBroker, Doc: "How long a follower's fetch waits for news."},
	{Name: "message.max.bytes", Default: "1048588", kind: whole(0, maxInt32), roles: roleBoth, Doc: "Largest record batch, of a topic that does not say."},
	{Name: "log.segment.bytes", Default: "1073741824", kind: whole(1<<20, maxInt32), roles: roleBoth, Doc: "Size at which a segment is closed."},
	{Name: "log.retention.ms", kind: whole(-1, maxInt64), roles: roleBoth, Doc: "Age at which a closed segment is deleted, -1 for never. Where it is not given: log.retention.minutes, else log.retention.hours."},
	{Name: "log.retention.minutes", kind: whole(-1, maxInt32), roles: roleBoth, Doc: "See log.retention.ms."},
	{Name: "log.retention.hours", Default: "168", kind: whole(-1, maxInt32), roles: roleBoth, Doc: "See log.retention.ms."},
	{Name: "log.retention.bytes", Default: "-1", kind: whole(-1, maxInt64), roles: roleBoth, Doc: "Size over which the oldest segments of a partition are deleted, -1 for never."},
	{Name: "log.retention.check.interval.ms", Default: "300000", kind: whole(1, maxInt64), roles: RoleBroker, Doc: "How often retention is looked at."},
	{Name: "log.stray.retention.ms", Default: "86400000", kind: whole(1, maxInt64), roles: RoleBroker, Doc: "How long replicas are kept that the metadata no longer gives to the broker."},
	{Name: "log.stray.free.bytes.min", Default: "1073741824", kind: whole(0, maxInt64), roles: RoleBroker, Doc: "Free space below which the oldest of them go before that, 0 for never."},
	{Name: "log.message.timestamp.type", Default: "CreateTime", kind: oneOf("CreateTime", "LogAppendTime"), roles: roleBoth, Doc: "Whose clock stamps a record, of a topic that does not say."},
	{Name: "socket.request.max.bytes", Default: "104857600", kind: whole(1024, maxInt32), roles: RoleBroker, Doc: "Largest request; a larger one closes the connection before it is read."},
	{Name: "connections.max.idle.ms", Default: "600000", kind: whole(-1, maxInt64), roles: RoleBroker, Doc: "Silence after which a client's connection is closed, -1 for never."},
	{Name: "max.connections", Default: "2147483647", kind: whole(1, maxInt32), roles: RoleBroker, Doc: "Most client connections at a time."},
	{Name: "metadata.log.max.record.bytes.between.snapshots", Default: "20971520", kind: whole(1, maxInt64), roles: RoleQuorum, Doc: "Log bytes after which a snapshot is taken."},
	{Name: "metadata.log.max.snapshot.interval.ms", Default: "3600000", kind: whole(0, maxInt64), roles: RoleQuorum, Doc: "Age of the last snapshot after which one is taken if anything changed, 0 for never."},
	{Name: "recovery.election.wait.ms", Default: "60000", kind: whole(0, maxInt32), roles: RoleQuorum, Doc: "After a restore: how long an operator who wants leaders elected without the inventories of all brokers is asked to wait for them."},
	{Name: "snapshot.archive.dir", kind: someText, roles: RoleQuorum, Doc: "Directory in which snapshots of the metadata are archived; none by default."},
	{Name: "snapshot.archive.interval.ms", Default: "3600000", kind: whole(1000, maxInt64), roles: RoleQuorum, Doc: "How often a snapshot is archived, if the metadata changed."},
	{Name: "snapshot.archive.retention.count", Default: "48", kind: whole(-1, maxInt32), roles: RoleQuorum, Doc: "How many archived snapshots stay, -1 for all. The newest good one always stays."},
	{Name: "snapshot.archive.retention.ms", Default: "-1", kind: whole(-1, maxInt64), roles: RoleQuorum, Doc: "Age at which an archived snapshot is removed, -1 for never. The newest good one always stays."},
	{Name: "metadata.history.retention.bytes", Default: "1073741824", kind: whole(-1, maxInt64), roles: RoleQuorum, Doc: "Bytes of the metadata's history that a quorum node keeps, 0 for the default, -1 for no history."},
	{Name: "metadata.history.retention.ms", Default: "2592000000", kind: whole(1, maxInt64), roles: RoleQuorum, Doc: "Age at which the metadata's history is removed."},
	{Name: "raft.log.store", Default: "bolt", kind: oneOf("bolt", "wal"), roles: RoleQuorum, Doc: "Store of the Raft log; it cannot be changed afterwards."},
	{Name: "raft.multiplier", Default: "1", kind: whole(1, 10), roles: RoleQuorum, Doc: "Factor on Raft's timeouts of 500 ms, for slow disks and links."},
	{Name: "admin.listeners", kind: addressList, roles: roleBoth, Doc: "host:port of the admin HTTP server, empty for none. Default: 127.0.0.1:9644 (quorumd), 127.0.0.1:9645 (brokerd)."},
	{Name: "log.format", Default: "text", kind: oneOf("text", "json"), roles: roleBoth, Doc: "Form of the process's own log."},
	{Name: "log.level", Default: "info", kind: oneOf("trace", "debug", "info", "warn", "error"), roles: roleBoth, Doc: "Least level that is logged."},
}

// keysByName has every key under its name and its aliases.
var keysByName = func() map[string]*Key {
	byName := make(map[string]*Key)
	for i := range keys {
		byName[keys[i].Name] = &keys[i]
		for _, alias := range keys[i].aliases {
			byName[alias] = &keys[i]
		}
	}
	return byName
}()

// Keys returns the keys that a role uses, in the order in which they are printed.
func Keys(role Role) []Key {
	var list []Key
	for _, k := range keys {
		if k.roles&role != 0 {
			list = append(list, k)
		}
	}
	return list
}

// defaultFor returns the default of the key for a role.
func (k *Key) defaultFor(role Role) string {
	switch {
	case k.Name == "listeners" && role == RoleQuorum:
		return "CONTROLLER://127.0.0.1:9093"
	case k.Name == "listeners":
		return "PLAINTEXT://127.0.0.1:9092"
	case k.Name == "admin.listeners" && role == RoleQuorum:
		return "127.0.0.1:9644"
	case k.Name == "admin.listeners":
		return "127.0.0.1:9645"
	}
	return k.Default
}

// envName is the variable of a key without its prefix: node.id is NODE_ID.
func envName(key string) string {
	return strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}
