package brokerd

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/brokerd/kafka"
	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/fsm/topicconfig"
)

// Listener is a socket that clients and brokers connect to.
type Listener struct {
	// Name of the listener, for example "PLAINTEXT".
	Name string
	// Address to bind, host:port; port 0 lets the system choose.
	Address string
	// AdvertisedHost and AdvertisedPort are what others are told to connect to; empty and 0 mean the bound ones.
	AdvertisedHost string
	AdvertisedPort uint16
	// SecurityProtocol as Kafka numbers it.
	SecurityProtocol int32
}

// Config of a Broker.
type Config struct {
	// NodeID is the broker id.
	NodeID int32
	// Dir is the data directory; MetadataDir that of the metadata log, by default "metadata" in it.
	Dir, MetadataDir string
	// Controllers are host:port of quorum nodes.
	Controllers []string
	// Listeners, at least one; InterBroker names the one that brokers use among themselves, by default the first.
	Listeners   []Listener
	InterBroker string
	// Rack of the broker; it counts only when HasRack.
	Rack    string
	HasRack bool

	// HeartbeatInterval; 0 is a sixth of the session timeout that the controller grants.
	HeartbeatInterval time.Duration
	// RegistrationTimeout is how long to wait for another process to give the broker id up, at most duplicatePatience.
	RegistrationTimeout time.Duration
	// ControlledShutdown hands leaderships over before the broker stops, waiting at most for
	// ControlledShutdownTimeout; default 30 s.
	ControlledShutdown        bool
	ControlledShutdownTimeout time.Duration

	// LagMax, FetchWaitMax, RetentionInterval and CheckpointInterval: see replica.Config.
	LagMax, FetchWaitMax, RetentionInterval, CheckpointInterval time.Duration
	// StrayAge and StrayFreeBytesMin: see replica.Config.
	StrayAge          time.Duration
	StrayFreeBytesMin int64
	// Topics are this broker's values for topic configs that are set nowhere else.
	Topics topicconfig.Static
	// AutoCreateTopics lets clients create topics by asking for their metadata.
	AutoCreateTopics bool
	// Limits on what peers can make us hold.
	Limits kafka.Limits
	// Files bounds the open files of all logs; nil is half of what the process may open.
	Files *partlog.FileBudget

	// Listen and Dial are the network; nil means TCP.
	Listen func(address string) (net.Listener, error)
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	Logger hclog.Logger
}

const (
	// duplicatePatience is twice Kafka's session timeout and a little: a holder of our id that is gone is fenced by
	// then, and one that is still there will not go by itself.
	duplicatePatience = 20 * time.Second
	// defaultControlledShutdownTimeout is the longest wait for leaderships to be handed over.
	defaultControlledShutdownTimeout = 30 * time.Second
)

func (c Config) withDefaults() Config {
	if c.RegistrationTimeout <= 0 || c.RegistrationTimeout > duplicatePatience {
		c.RegistrationTimeout = duplicatePatience
	}
	if c.ControlledShutdownTimeout <= 0 {
		c.ControlledShutdownTimeout = defaultControlledShutdownTimeout
	}
	if c.InterBroker == "" && len(c.Listeners) > 0 {
		c.InterBroker = c.Listeners[0].Name
	}
	if c.Listen == nil {
		c.Listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	if c.Dial == nil {
		d := net.Dialer{Timeout: dialTimeout}
		c.Dial = func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// dialTimeout bounds the wait for a peer that does not answer at all.
const dialTimeout = 5 * time.Second
