package brokerdtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/skiffmq/skiff/brokerd"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum"
	"github.com/skiffmq/skiff/quorum/quorumtest"
)

const (
	// kafkaPort is the port of every broker, each on its own host.
	kafkaPort = 9092
	// patience bounds every wait, in the clock of the test.
	patience = 60 * time.Second
	// look is how often a condition is looked at.
	look = 5 * time.Millisecond
)

// Cluster is a quorum and brokers in this process.
type Cluster struct {
	// Quorum is the quorum and the network.
	Quorum *quorumtest.Cluster
	// Brokers by their place: broker 1 is Brokers[0].
	Brokers []*Broker

	t      testing.TB
	change func(*brokerd.Config)
}

// Broker is one broker, running or not.
type Broker struct {
	// Broker is the running broker; nil while it is stopped.
	*brokerd.Broker
	// ID of the broker.
	ID int32
	// Name of its host, b1 for broker 1.
	Name string
	// Dir is its data directory.
	Dir string

	host   *quorumtest.Host
	cancel context.CancelFunc
	done   chan error
}

// New starts a quorum of that many nodes and that many brokers, and waits until every broker is unfenced. change may
// alter each broker's configuration; it may be nil. Everything ends with the test.
func New(t testing.TB, controllers, brokers int, change func(*brokerd.Config)) *Cluster {
	t.Helper()
	return NewWith(t, controllers, brokers, change, nil)
}

// NewWith is New with a change of the quorum nodes' configuration.
func NewWith(t testing.TB, controllers, brokers int, change func(*brokerd.Config), quorumChange func(*quorum.Config)) *Cluster {
	t.Helper()
	c := &Cluster{Quorum: quorumtest.New(t, controllers, quorumChange), t: t, change: change}
	for i := range brokers {
		name := fmt.Sprintf("b%d", i+1)
		c.Brokers = append(c.Brokers, &Broker{
			ID: int32(i + 1), Name: name, Dir: filepath.Join(t.TempDir(), name), host: c.Quorum.Net.Host(name),
		})
	}
	t.Cleanup(c.stop)
	for _, b := range c.Brokers {
		c.Start(b)
	}
	c.AwaitReady()
	return c
}

// Start starts a broker that is stopped; it does not wait until it is ready.
func (c *Cluster) Start(b *Broker) {
	c.t.Helper()
	if err := c.TryStart(b); err != nil {
		c.t.Fatalf("start %s: %v", b.Name, err)
	}
}

// TryStart is Start with the reason why a broker does not start.
func (c *Cluster) TryStart(b *Broker) error {
	broker, err := brokerd.Open(c.config(b))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.Broker, b.cancel, b.done = broker, cancel, make(chan error, 1)
	go func() { b.done <- broker.Run(ctx) }()
	return nil
}

func (c *Cluster) config(b *Broker) brokerd.Config {
	cfg := brokerd.Config{
		NodeID: b.ID, Dir: b.Dir, ControlledShutdown: true, AutoCreateTopics: true,
		Listeners: []brokerd.Listener{{Name: "PLAINTEXT", Address: net.JoinHostPort(b.Name, strconv.Itoa(kafkaPort))}},
		Listen: func(address string) (net.Listener, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			n, err := strconv.Atoi(port)
			if err != nil {
				return nil, err
			}
			return b.host.Listen(n)
		},
		Dial: b.host.Dial, Logger: quorumtest.Logger(c.t, b.Name),
	}
	for _, n := range c.Quorum.Nodes {
		cfg.Controllers = append(cfg.Controllers, n.Addr)
	}
	if c.change != nil {
		c.change(&cfg)
	}
	return cfg
}

// Crash stops a broker as a kill of its process does.
func (c *Cluster) Crash(b *Broker) {
	c.t.Helper()
	if b.Broker == nil {
		return
	}
	c.Quorum.Net.Reset(b.Name)
	b.Kill()
	if err := <-b.done; !errors.Is(err, brokerd.ErrKilled) {
		c.t.Errorf("crash %s: %v", b.Name, err)
	}
	b.cancel()
	b.Broker = nil
}

// Terminate stops a broker as SIGTERM does and returns what its Run returned.
func (c *Cluster) Terminate(b *Broker) error {
	if b.Broker == nil {
		return nil
	}
	b.cancel()
	err := <-b.done
	b.Broker = nil
	return err
}

// Ended waits until a broker ends by itself, and returns why.
func (c *Cluster) Ended(b *Broker) error {
	c.t.Helper()
	select {
	case err := <-b.done:
		b.cancel()
		b.Broker = nil
		return err
	case <-time.After(patience):
		c.t.Fatalf("%s does not end", b.Name)
		return nil
	}
}

func (c *Cluster) stop() {
	for _, b := range c.Brokers {
		c.Crash(b)
	}
}

// Running are the brokers that run.
func (c *Cluster) Running() []*Broker {
	var out []*Broker
	for _, b := range c.Brokers {
		if b.Broker != nil {
			out = append(out, b)
		}
	}
	return out
}

// Isolate cuts a broker from everybody but the client, both ways.
func (c *Cluster) Isolate(b *Broker) { c.eachPeer(b, c.Quorum.Net.Partition) }

// Heal ends Isolate.
func (c *Cluster) Heal(b *Broker) { c.eachPeer(b, c.Quorum.Net.Rejoin) }

func (c *Cluster) eachPeer(b *Broker, do func(a, b string)) {
	for _, other := range c.Brokers {
		if other != b {
			do(b.Name, other.Name)
		}
	}
	for _, n := range c.Quorum.Nodes {
		do(b.Name, n.Name)
	}
}

// Await waits until the condition holds.
func (c *Cluster) Await(what string, ok func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			c.t.Fatalf("waited %s for %s\n%s", patience, what, c.Describe())
		}
		time.Sleep(look)
	}
}

// AwaitReady waits until every running broker serves.
func (c *Cluster) AwaitReady() {
	c.t.Helper()
	c.Await("every broker to be ready", func() bool {
		for _, b := range c.Running() {
			if !b.Status().Ready {
				return false
			}
		}
		return true
	})
}

// AwaitSame waits until every running process has one (lineage, metadata offset, digest) (I1).
func (c *Cluster) AwaitSame() {
	c.t.Helper()
	c.Quorum.AwaitSame()
	c.Await("every broker to have the quorum's image", func() bool {
		want := c.Image()
		for _, b := range c.Running() {
			img := b.Status().Image
			if img == nil || img.NextOffset() != want.NextOffset() {
				return false
			}
			if img.Lineage().ID != want.Lineage().ID || img.Digest() != want.Digest() {
				c.t.Fatalf("I1: %s has digest %s at metadata offset %d, the quorum %s", b.Name, img.Digest(), img.AppliedOffset(), want.Digest())
			}
		}
		return true
	})
}

// Image is the newest image of the quorum.
func (c *Cluster) Image() *fsm.Image {
	var newest *fsm.Image
	for _, n := range c.Quorum.Running() {
		if img := n.Status().Image; img != nil && (newest == nil || img.NextOffset() > newest.NextOffset()) {
			newest = img
		}
	}
	return newest
}

// Describe says where everybody stands.
func (c *Cluster) Describe() string {
	out := c.Quorum.Describe()
	for _, b := range c.Running() {
		s := b.Status()
		out += fmt.Sprintf("\n%s: %s, epoch %d, metadata offset %d, not ready: %q, %+v", b.Name, s.State, s.BrokerEpoch, s.Applied, s.NotReady, s.Replicas)
	}
	if img := c.Image(); img != nil {
		out += "\n" + fsm.Describe(img)
	}
	return out
}

// Twin is another process with the id of b on a host and a directory of its own. It is stopped with the test.
func (c *Cluster) Twin(b *Broker) *Broker {
	return c.add(&Broker{ID: b.ID, Name: b.Name + "-twin", Dir: filepath.Join(c.t.TempDir(), b.Name+"-twin")})
}

// Adopt makes a stopped broker of another cluster, with its directory, one of this cluster.
func (c *Cluster) Adopt(b *Broker) *Broker {
	return c.add(&Broker{ID: b.ID, Name: b.Name + "-moved", Dir: b.Dir})
}

func (c *Cluster) add(b *Broker) *Broker {
	b.host = c.Quorum.Net.Host(b.Name)
	c.Brokers = append(c.Brokers, b)
	return b
}
