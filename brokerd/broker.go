package brokerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/brokerd/kafka"
	"github.com/skiffmq/skiff/brokerd/lifecycle"
	"github.com/skiffmq/skiff/brokerd/metadata"
	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/recordbatch"
	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// Broker is one broker of a cluster.
type Broker struct {
	cfg    Config
	logger hclog.Logger
	// incarnation is new for each process.
	incarnation fsm.UUID
	// previousEpoch is the broker epoch of the last process if it stopped cleanly, else -1.
	previousEpoch int64
	meta          *meta
	lock          *os.File
	bound         []boundListener

	metadata *metadata.Follower
	client   *client.Client
	replicas *replica.Manager
	server   *kafka.Server
	session  *session
	reports  *reporter

	// killed is closed by Kill.
	killed   chan struct{}
	killOnce sync.Once

	// The following are owned by the metadata follower's goroutine. applying is set when the image holds our registration;
	// lineage is that of the metadata that was applied last; past is what the last process left, until it was asked for.
	applying bool
	lineage  fsm.LineageID
	past     *fsm.Image
	// claimEpoch: owned by the metadata follower's goroutine. The controller epoch of the last claim that was heard.
	claimEpoch int64
}

// metadataName is the directory of the metadata log where none is configured.
const metadataName = "metadata"

// boundListener is a listener with the address it got.
type boundListener struct {
	net.Listener
	advertised *metadatav1.Listener
}

// Open reads what the last process left and binds the listeners. It contacts nobody. The error is a *RefusedError
// where starting again cannot help.
func Open(cfg Config) (_ *Broker, err error) {
	cfg = cfg.withDefaults()
	cfg.Topics = cfg.Topics.On(cfg.NodeID)
	if len(cfg.Listeners) == 0 {
		return nil, &RefusedError{Cause: "no listener is configured", Fix: "set listeners"}
	}
	if cfg.MetadataDir == "" {
		cfg.MetadataDir = filepath.Join(cfg.Dir, metadataName)
	}
	b := &Broker{cfg: cfg, logger: cfg.Logger, incarnation: newUUID(), killed: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.release())
		}
	}()
	if b.meta, err = openMeta(cfg.Dir, cfg.NodeID); err != nil {
		return nil, err
	}
	if b.lock, err = lockDirectory(cfg.Dir); err != nil {
		return nil, err
	}
	if err := b.bind(); err != nil {
		return nil, err
	}
	if err := b.openMetadata(); err != nil {
		return nil, err
	}
	if b.previousEpoch, err = takeCleanStop(cfg.Dir); err != nil {
		return nil, err
	}
	if err := b.assemble(); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Broker) bind() error {
	for _, l := range b.cfg.Listeners {
		listener, err := b.cfg.Listen(l.Address)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", l.Address, err)
		}
		advertised, err := advertise(l, listener.Addr())
		b.bound = append(b.bound, boundListener{listener, advertised})
		if err != nil {
			return err
		}
	}
	return nil
}

// advertise is what others are told of a listener.
func advertise(l Listener, bound net.Addr) (*metadatav1.Listener, error) {
	host, portText, err := net.SplitHostPort(bound.String())
	if err != nil {
		return nil, fmt.Errorf("listener %s is bound to %q: %w", l.Name, bound, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("listener %s is bound to %q: %w", l.Name, bound, err)
	}
	if l.AdvertisedHost != "" {
		host = l.AdvertisedHost
	}
	if l.AdvertisedPort != 0 {
		port = uint64(l.AdvertisedPort)
	}
	return &metadatav1.Listener{Name: l.Name, Host: host, Port: uint32(port), SecurityProtocol: l.SecurityProtocol}, nil
}

// Addr is the bound address of the i-th listener.
func (b *Broker) Addr(i int) net.Addr { return b.bound[i].Addr() }

func (b *Broker) openMetadata() error {
	follower, err := metadata.Open(metadata.Config{
		Dir: b.cfg.MetadataDir, ClusterID: b.meta.ClusterID, Source: b.followQuorum, Logger: b.logger.Named("metadata"),
	})
	if err != nil {
		return b.refuseMetadata(err)
	}
	b.metadata, b.past = follower, follower.Image()
	b.metadata.Subscribe(b.metadataChanged)
	return nil
}

// assemble puts the parts together; none of them runs yet.
func (b *Broker) assemble() (err error) {
	b.client, err = client.New(client.Config{
		Controllers: b.cfg.Controllers, ClusterID: b.meta.ClusterID, Dial: b.cfg.Dial, Logger: b.logger.Named("client"),
		Lineage: func() fsm.LineageID { lineage, _ := b.metadata.Position(); return lineage },
	})
	if err != nil {
		return fmt.Errorf("make the controller's client: %w", err)
	}
	b.reports = b.newReporter()
	b.session = b.newSession()
	if b.replicas, err = replica.Open(b.replicaConfig()); err != nil {
		return fmt.Errorf("open replicas: %w", err)
	}
	b.server, err = kafka.New(kafka.Config{
		NodeID: b.cfg.NodeID, BrokerEpoch: b.session.epoch, Image: b.metadata.Image, Await: b.metadata.Await,
		Replicas: b.replicas, Controller: b.client, AutoCreateTopics: b.cfg.AutoCreateTopics, Static: b.cfg.Topics, Limits: b.cfg.Limits,
		Logger: b.logger.Named("kafka"),
	})
	if err != nil {
		return fmt.Errorf("make the server: %w", err)
	}
	return nil
}

func (b *Broker) replicaConfig() replica.Config {
	return replica.Config{
		NodeID: b.cfg.NodeID, Dir: b.cfg.Dir, BrokerEpoch: b.session.epoch, Listener: b.cfg.InterBroker, Dial: b.cfg.Dial,
		Alter: b.client.AlterPartitions, Trusted: b.metadata.Trusted, LagMax: b.cfg.LagMax, FetchWaitMax: b.cfg.FetchWaitMax,
		CheckpointInterval: b.cfg.CheckpointInterval, RetentionInterval: b.cfg.RetentionInterval, Static: b.cfg.Topics,
		StrayAge: b.cfg.StrayAge, StrayFreeBytesMin: b.cfg.StrayFreeBytesMin, Past: b.takePast, InventoryChanged: b.reports.nudge,
		Log:    partlog.Options{Timestamps: timestamps, Files: b.cfg.Files},
		Logger: b.logger.Named("replica"),
	}
}

// takePast gives away what the last process left of the metadata.
func (b *Broker) takePast() *fsm.Image {
	past := b.past
	b.past = nil
	return past
}

// timestampsBytesMax bounds what is decompressed to find a record by its time.
const timestampsBytesMax = 128 << 20

// timestamps lets partlog look into compressed batches, which it cannot do itself.
func timestamps(batch []byte, visit func(offset, timestampMs int64) bool) error {
	return recordbatch.Iterate(batch, timestampsBytesMax, func(r recordbatch.Record) bool { return visit(r.Offset, r.TimestampMs) })
}

func (b *Broker) newSession() *session {
	return &session{
		controller: b.client, nodeID: b.cfg.NodeID, logger: b.logger.Named("session"), registration: b.registration,
		applied: b.metadata.Applied, controllerEpoch: b.metadata.ControllerEpoch, fixedInterval: b.cfg.HeartbeatInterval,
		patience: b.cfg.RegistrationTimeout, poke: make(chan struct{}, 1), stopped: make(chan struct{}), leaving: make(chan struct{}),
		life: lifecycle.New(), granted: defaultSessionTimeout, news: b.reports.nudge,
	}
}

// Run serves until ctx ends, stops cleanly and returns nil; or it returns why the broker cannot go on: a
// *RefusedError if starting again cannot help.
func (b *Broker) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	r := b.start(life)
	var failed error
	select {
	case <-ctx.Done():
		failed = b.handOver(r)
	case failed = <-r.failed:
	case <-b.killed:
		return b.die(r, end)
	}
	return b.stop(r, end, failed)
}

// ErrKilled is returned by Run after Kill.
var ErrKilled = errors.New("the broker was killed")

// Kill ends the broker without a word to anybody and without writing anything more, as far as a process can do that
// to itself: no hand-over, no clean marker, no goodbye. Tests use it to see what a kill leaves behind.
func (b *Broker) Kill() { b.killOnce.Do(func() { close(b.killed) }) }

// release gives back what Open took.
func (b *Broker) release() error {
	var err error
	for _, l := range b.bound {
		if e := l.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	if b.replicas != nil {
		err = errors.Join(err, b.replicas.Close())
	}
	if b.client != nil {
		err = errors.Join(err, b.client.Close())
	}
	if b.lock != nil {
		err = errors.Join(err, b.lock.Close())
	}
	return err
}

// serverDrain bounds the wait for requests in flight when the broker stops.
const serverDrain = 5 * time.Second
