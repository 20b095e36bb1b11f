package quorum

import (
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/active"
	"github.com/skiffmq/skiff/quorum/controller"
	"github.com/skiffmq/skiff/quorum/transport"
)

// Settings of Raft that nobody configures.
const (
	// baseTimeout is heartbeat, election and lease timeout before the multiplier. The three are one: a follower in a
	// sync or a restore answers no heartbeat, and the lease must survive that as long as the follower does.
	baseTimeout = 500 * time.Millisecond
	// commitTimeout is how late an idle leader tells followers what is committed.
	commitTimeout = 50 * time.Millisecond
	// appendEntriesMax bounds one append; entries have up to 1 MiB.
	appendEntriesMax = 16
	// logCacheEntries are kept in memory; more than can be in flight.
	logCacheEntries = 64
	// never is an interval that does not end, small enough for Raft to double it.
	never = time.Duration(1) << 61
)

// Defaults of what is configured.
const (
	// DefaultSnapshotBytes of log after which a snapshot is taken.
	DefaultSnapshotBytes = 64 << 20
	// DefaultSnapshotInterval after which one is taken if anything changed.
	DefaultSnapshotInterval = time.Hour
	// DefaultTrailingBytes of log kept behind the last snapshot.
	DefaultTrailingBytes = 256 << 20
	// DefaultSessionTimeout after which a silent broker is fenced.
	DefaultSessionTimeout = 9 * time.Second
)

// Endpoint is where a node is reached by the others.
type Endpoint struct {
	// Name of the listener, for example CONTROLLER.
	Name string
	// Host as advertised; it may be a name.
	Host string
	// Port as advertised; 0 stands for the port that is bound.
	Port uint16
}

// Config is what a node must be told.
type Config struct {
	// NodeID of the node, not negative.
	NodeID int32
	// DataDir is the node's directory; it is made if it does not exist.
	DataDir string
	// ClusterID that the directory must have once it is initialised; empty for any.
	ClusterID string
	// Advertised is where the other nodes and brokers reach this one.
	Advertised Endpoint
	// Peers are addresses that go before every other knowledge, by node id.
	Peers map[int32]string
	// Bootstrap are host:port of quorum nodes, asked when nothing else tells where a peer is.
	Bootstrap []string
	// LogStore is the kind of the raft store; empty for bolt. It is fixed when the node is initialised.
	LogStore StoreKind
	// Multiplier on Raft's timeouts, at least 1.
	Multiplier int
	// SnapshotBytes of log after which a snapshot is taken; 0 for the default.
	SnapshotBytes int64
	// SnapshotInterval after which one is taken if the metadata changed; 0 for never.
	SnapshotInterval time.Duration
	// TrailingBytes of log kept behind the last snapshot, for followers that lag; 0 for the default.
	TrailingBytes int64
	// Archive of snapshots that the node keeps; without a directory it keeps none.
	Archive ArchiveConfig
	// History of the metadata that the node keeps in its directory.
	History HistoryConfig
	// FreeBytesLow is the free space of the disk below which the node should not lead; 0 has nobody look.
	FreeBytesLow int64
	// SessionTimeout after which a silent broker is fenced; 0 for the default.
	SessionTimeout time.Duration
	// RecoveryWait is how long an operator is asked to wait for inventories that are missing after a restore.
	RecoveryWait time.Duration
	// Defaults of requests that leave values open.
	Defaults controller.Defaults
	// Dial connects to host:port; nil for TCP.
	Dial transport.DialFunc
	// Logger of the node; nil for none.
	Logger hclog.Logger
	// Registerer takes the node's metrics; nil for none.
	Registerer prometheus.Registerer

	// disk stands between the node and its store; nil but in tests.
	disk func(engine) engine
	// log stands between the active controller and Raft, and hint before each look at who leads; nil but in tests.
	log  func(active.Log) active.Log
	hint func()
	// depth is how many entries may be in flight, where a test wants more.
	depth int
	// space tells the free and the whole size of a directory's file system; nil for the system's word but in tests.
	space func(dir string) (free, total int64, err error)
}

func (c Config) withDefaults() Config {
	if c.LogStore == "" {
		c.LogStore = StoreBolt
	}
	c.Multiplier = max(c.Multiplier, 1)
	if c.SnapshotBytes <= 0 {
		c.SnapshotBytes = DefaultSnapshotBytes
	}
	if c.TrailingBytes <= 0 {
		c.TrailingBytes = DefaultTrailingBytes
	}
	c.Archive = c.Archive.withDefaults()
	if c.SessionTimeout <= 0 {
		c.SessionTimeout = DefaultSessionTimeout
	}
	if c.space == nil {
		c.space = space
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c
}

// timeout is Raft's heartbeat, election and lease timeout.
func (c Config) timeout() time.Duration { return baseTimeout * time.Duration(c.Multiplier) }

// raftConfig is how Raft is run.
func (c Config) raftConfig(self transport.PeerID, logger hclog.Logger) *raft.Config {
	rc := raft.DefaultConfig()
	rc.LocalID = self.ServerID()
	rc.HeartbeatTimeout = c.timeout()
	rc.ElectionTimeout = c.timeout()
	rc.LeaderLeaseTimeout = c.timeout()
	rc.CommitTimeout = commitTimeout
	rc.MaxAppendEntries = appendEntriesMax
	rc.BatchApplyCh = true
	rc.ShutdownOnRemove = false
	rc.SnapshotThreshold = ^uint64(0) // snapshots are taken by bytes and age, see snapshotter
	rc.SnapshotInterval = never       // with an empty log the threshold is reached by underflow
	rc.NoLegacyTelemetry = true
	rc.Logger = logger
	return rc
}

// listener is the node's endpoint as it stands in the metadata.
func (e Endpoint) listener(bound net.Addr) *metadatav1.Listener {
	port := uint32(e.Port)
	if port == 0 {
		port = uint32(boundPort(bound))
	}
	name := e.Name
	if name == "" {
		name = "CONTROLLER"
	}
	return &metadatav1.Listener{Name: name, Host: e.Host, Port: port}
}

func boundPort(addr net.Addr) int {
	_, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	return n
}
