package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/brokerd/stray"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/topicconfig"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// Defaults of Config, Kafka's where Kafka has the key.
const (
	DefaultLagMax             = 30 * time.Second // replica.lag.time.max.ms
	DefaultFetchWaitMax       = 500 * time.Millisecond
	DefaultCheckpointInterval = 5 * time.Second
	DefaultRetentionInterval  = 5 * time.Minute
	DefaultStrayAge           = 24 * time.Hour
	// DefaultStrayFreeBytesMin leaves room to work in when a disk fills up with replicas that nobody asked to keep.
	DefaultStrayFreeBytesMin = 1 << 30
)

// Config of a Manager.
type Config struct {
	// NodeID is this broker's id.
	NodeID int32
	// Dir is the broker's data directory; partitions/, stray/ and high-watermarks are made in it.
	Dir string
	// BrokerEpoch returns the epoch of this broker's registration, -1 before it has one.
	BrokerEpoch func() int64
	// Listener names the listener on which brokers fetch from each other.
	Listener string
	// Dial connects to a broker; nil means TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Alter asks the active controller for other ISRs.
	Alter func(context.Context, *controllerv1.AlterPartitionsRequest) (*controllerv1.AlterPartitionsResponse, error)
	// Trusted tells whether the metadata passed all its checks. While it did not, no replica is put away and no
	// stray is purged (I22). Nil means always.
	Trusted func() bool
	// LagMax is how long a follower may be behind before it is wished out of the ISR.
	LagMax time.Duration
	// FetchWaitMax is how long a leader may park a follower's fetch.
	FetchWaitMax time.Duration
	// CheckpointInterval is how often high watermarks are written to disk.
	CheckpointInterval time.Duration
	// RetentionInterval is how often old segments are looked for.
	RetentionInterval time.Duration
	// StrayAge is how long a stray is kept.
	StrayAge time.Duration
	// StrayFreeBytesMin is the free space below which the oldest strays are purged before their time; negative for never.
	StrayFreeBytesMin int64
	// Past is the metadata that the last process left, for the names of replicas that the present one does not know; nil
	// if there is none. It is asked once, by the first Apply.
	Past func() *fsm.Image
	// InventoryChanged tells that a report of the broker's inventory may be due; it does not block. Nil tells nobody.
	InventoryChanged func()
	// Static are the broker's own values for topic configs that are not set on the topic or the cluster.
	Static topicconfig.Static
	// Log is the template of each log's options.
	Log    partlog.Options
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.LagMax, DefaultLagMax}, {&c.FetchWaitMax, DefaultFetchWaitMax}, {&c.CheckpointInterval, DefaultCheckpointInterval},
		{&c.RetentionInterval, DefaultRetentionInterval}, {&c.StrayAge, DefaultStrayAge},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.StrayFreeBytesMin == 0 {
		c.StrayFreeBytesMin = DefaultStrayFreeBytesMin
	}
	if c.Past == nil {
		c.Past = func() *fsm.Image { return nil }
	}
	if c.InventoryChanged == nil {
		c.InventoryChanged = func() {}
	}
	if c.Trusted == nil {
		c.Trusted = func() bool { return true }
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Manager holds the replicas of this broker.
type Manager struct {
	cfg    Config
	logger hclog.Logger
	image  atomic.Pointer[fsm.Image]
	// applied is the image that every role stands by; image is one step ahead of it during Apply.
	applied  atomic.Pointer[fsm.Image]
	strays   *stray.Store
	awaiting awaiting
	fetchers *fetchers
	proposer *proposer
	counters counters
	// failures has room for the first failure of a log; later ones say nothing new.
	failures chan error

	stop    context.CancelFunc
	running sync.WaitGroup

	// apply: owned by the goroutine that calls Apply. checkpointed are the high watermarks read at start, of partitions
	// not yet held. standsStill tells that the metadata is not confirmed and no stray may be purged. told is the generation of the
	// inventory that was last told of.
	checkpointed map[fsm.PartitionID]int64
	standsStill  bool
	told         uint64

	// house: owned by keepHouse, and by Close after it. What the checkpoint on disk says.
	written map[string]int64

	mu sync.RWMutex
	// mu guards the following.
	partitions map[fsm.PartitionID]*Partition
	// unopened holds why a partition that the metadata gives us could not be opened.
	unopened map[fsm.PartitionID]error
	closed   bool
}

// Open prepares the data directory and starts the manager's goroutines. It holds no partition before Apply.
func Open(cfg Config) (*Manager, error) {
	cfg = cfg.withDefaults()
	strays, err := stray.Open(cfg.Dir, cfg.Logger)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, logger: cfg.Logger, failures: make(chan error, 1), strays: strays,
		partitions: map[fsm.PartitionID]*Partition{}, unopened: map[fsm.PartitionID]error{},
	}
	highs, err := readHighWatermarks(cfg.Dir)
	if err != nil {
		m.logger.Warn("the high watermark checkpoint is unreadable; logs begin at their start", "error", err)
	}
	m.checkpointed = highs
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.fetchers = newFetchers(ctx, m)
	m.proposer = newProposer(m)
	m.running.Go(func() { m.proposer.run(ctx) })
	m.running.Go(func() { m.keepHouse(ctx) })
	return m, nil
}

// Failures tells of the first log that failed. A broker whose disk fails should stop, so that others lead.
func (m *Manager) Failures() <-chan error { return m.failures }

// Close stops fetching and closes every log cleanly. The high watermarks are on disk when it returns.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.fetchers.wait()
	m.running.Wait()
	held := m.held()
	err := m.checkpoint()
	for _, p := range held {
		err = errors.Join(err, p.close())
	}
	return err
}

// Abandon ends the manager's goroutines and writes nothing more, as a killed process does. Tests use it to see what a
// kill leaves behind.
func (m *Manager) Abandon() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.fetchers.wait()
	m.running.Wait()
}

// held lists the partitions of this moment.
func (m *Manager) held() []*Partition {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := make([]*Partition, 0, len(m.partitions))
	for _, p := range m.partitions {
		list = append(list, p)
	}
	return list
}

// partition looks one up; its error is why this broker cannot serve it.
func (m *Manager) partition(id fsm.PartitionID) (*Partition, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch p, ok := m.partitions[id]; {
	case ok:
		return p, nil
	case m.closed:
		return nil, ErrClosed
	case m.unopened[id] != nil:
		return nil, m.unopened[id]
	default:
		return nil, fmt.Errorf("%s-%d: %w", id.Topic, id.Partition, ErrUnknownPartition)
	}
}

// world gives partitions the view of this moment.
func (m *Manager) world(s topicconfig.Settings) view {
	img := m.image.Load()
	return view{now: time.Now(), lag: m.cfg.LagMax, minISR: int(s.MinInSyncReplicas), member: func(id int32) (int64, bool) {
		b, ok := img.Broker(id)
		if !ok {
			return noEpoch, false
		}
		return b.Epoch, b.Active()
	}}
}

// report logs a failure and, if a log failed, tells the broker.
func (m *Manager) report(what string, err error) {
	m.logger.Error(what, "error", err)
	if errors.Is(err, ErrStorage) {
		select {
		case m.failures <- err:
		default:
		}
	}
}
