package config

import (
	"slices"
	"strings"
	"time"
)

// Broker is the configuration of brokerd.
type Broker struct {
	Node

	// Listeners are the sockets that clients and brokers connect to.
	Listeners []Listener
	// Advertised has one address for each of Listeners, in their order; port 0 means the bound one.
	Advertised []Listener
	// InterBroker is the name of the listener that brokers use between them.
	InterBroker string
	// LogDirs are the absolute data directories, at least one.
	LogDirs []string
	// MetadataDir is the absolute directory of the metadata log.
	MetadataDir string
	// Rack of the broker; it counts only when HasRack.
	Rack string
	// HasRack tells that a rack was given.
	HasRack bool
	// AutoCreateTopics on a Metadata request that allows it.
	AutoCreateTopics bool
	// HeartbeatInterval of the session.
	HeartbeatInterval time.Duration
	// RegistrationTimeout after which a broker that could not register gives up.
	RegistrationTimeout time.Duration
	// ControlledShutdown hands leaderships over before the broker stops.
	ControlledShutdown bool
	// ControlledShutdownTimeout is the longest wait for that.
	ControlledShutdownTimeout time.Duration
	// ReplicaLagMax after which a follower that has not caught up leaves the ISR.
	ReplicaLagMax time.Duration
	// ReplicaFetchWait is how long a follower's fetch waits for news.
	ReplicaFetchWait time.Duration
	// RetentionCheck is how often retention is looked at.
	RetentionCheck time.Duration
	// StrayRetention is how long replicas are kept that the metadata no longer gives to the broker.
	StrayRetention time.Duration
	// StrayFreeBytesMin is the free space below which the oldest of them go before that, 0 for never.
	StrayFreeBytesMin int64
	// RequestBytesMax of one request frame.
	RequestBytesMax int32
	// ConnectionIdleMax after which a silent client is disconnected; negative for never.
	ConnectionIdleMax time.Duration
	// ConnectionsMax at a time.
	ConnectionsMax int32
}

// LoadBroker reads the configuration of brokerd. The error is an [*ExitError].
func LoadBroker(in Input) (*Broker, error) {
	v, err := Load(RoleBroker, in)
	if err != nil {
		return nil, err
	}
	return v.broker()
}

func (v *Values) broker() (*Broker, error) {
	node, err := v.node()
	if err != nil {
		return nil, err
	}
	b := &Broker{
		Node:                      node,
		Rack:                      v.text("broker.rack"),
		HasRack:                   v.text("broker.rack") != "",
		AutoCreateTopics:          v.flag("auto.create.topics.enable"),
		HeartbeatInterval:         v.heartbeat(node.SessionTimeout),
		RegistrationTimeout:       v.millis("initial.broker.registration.timeout.ms"),
		ControlledShutdown:        v.flag("controlled.shutdown.enable"),
		ControlledShutdownTimeout: v.millis("controlled.shutdown.timeout.ms"),
		ReplicaLagMax:             v.millis("replica.lag.time.max.ms"),
		ReplicaFetchWait:          v.millis("replica.fetch.wait.max.ms"),
		RetentionCheck:            v.millis("log.retention.check.interval.ms"),
		StrayRetention:            v.millis("log.stray.retention.ms"),
		StrayFreeBytesMin:         v.int64("log.stray.free.bytes.min"),
		RequestBytesMax:           v.int32("socket.request.max.bytes"),
		ConnectionIdleMax:         v.millis("connections.max.idle.ms"),
		ConnectionsMax:            v.int32("max.connections"),
	}
	if len(b.BootstrapServers) == 0 {
		return nil, Usage("set it to host:port of the quorum nodes (or --controllers)", "configuration: controller.quorum.bootstrap.servers is missing")
	}
	if err := b.readDirectories(v); err != nil {
		return nil, err
	}
	if err := b.readListeners(v); err != nil {
		return nil, err
	}
	if b.HeartbeatInterval*2 > b.SessionTimeout {
		return nil, v.problem("broker.heartbeat.interval.ms", "leave it out, a sixth of the session is the default", "at most half of broker.session.timeout.ms (%d)", b.SessionTimeout.Milliseconds())
	}
	return b, nil
}

// heartbeat is a sixth of the session unless it is given.
func (v *Values) heartbeat(session time.Duration) time.Duration {
	if v.given("broker.heartbeat.interval.ms") {
		return v.millis("broker.heartbeat.interval.ms")
	}
	return session / 6
}

func (b *Broker) readDirectories(v *Values) (err error) {
	if b.LogDirs, err = v.directories(); err != nil {
		return err
	}
	if len(b.LogDirs) == 0 {
		return Usage("set log.dirs (or --data)", "configuration: log.dirs is missing")
	}
	b.MetadataDir, err = v.metadataDirectory()
	return err
}

func (b *Broker) readListeners(v *Values) (err error) {
	if b.Listeners, err = v.listeners(); err != nil {
		return err
	}
	// A file made for Kafka's combined mode binds the controller's listener too; a broker of ours has none.
	controllers := v.list("controller.listener.names")
	b.Listeners = slices.DeleteFunc(b.Listeners, func(l Listener) bool { return slices.Contains(controllers, l.Name) })
	if len(b.Listeners) == 0 {
		return v.problem("listeners", "add a listener for clients", "all of them are named in controller.listener.names")
	}
	if b.Advertised, err = v.advertised(b.Listeners); err != nil {
		return err
	}
	b.InterBroker = b.Listeners[0].Name
	if name := strings.ToUpper(v.text("inter.broker.listener.name")); name != "" {
		if !slices.ContainsFunc(b.Listeners, func(l Listener) bool { return l.Name == name }) {
			return v.problem("inter.broker.listener.name", "name one of listeners", "no such listener")
		}
		b.InterBroker = name
	}
	return nil
}
