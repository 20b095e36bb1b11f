package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/client"
	"github.com/skiffmq/skiff/quorum/rpc/rpctest"
)

// bubble runs a test on a quorum with a client, in virtual time.
func bubble(t *testing.T, opts rpctest.Options, test func(t *testing.T, q *rpctest.Quorum, c *client.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := rpctest.New(t, opts)
		defer q.Close()
		c := newClient(t, q, nil)
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		test(t, q, c)
	})
}

func newClient(t *testing.T, q *rpctest.Quorum, lineage func() fsm.LineageID) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Controllers: q.Addresses(), Dial: q.Dial, Lineage: lineage})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// broker is a registered broker of a test.
type broker struct {
	id    int32
	epoch int64
}

func register(t *testing.T, c *client.Client, id int32) broker {
	t.Helper()
	resp, err := c.Register(within(t, 10*time.Second), &controllerv1.RegisterRequest{
		BrokerId: id, IncarnationId: fsm.UUID{byte(id), byte(id >> 8), 1}.Bytes(), PreviousBrokerEpoch: -1,
		Directories: [][]byte{fsm.UUID{byte(id), byte(id >> 8), 2}.Bytes()},
		Listeners:   []*metadatav1.Listener{{Name: "PLAINTEXT", Host: "localhost", Port: 9092}},
	})
	if err != nil {
		t.Fatalf("register broker %d: %v", id, err)
	}
	return broker{id: id, epoch: resp.GetBrokerEpoch()}
}

func (b broker) beat(sequence int64) *controllerv1.SessionRequest {
	return &controllerv1.SessionRequest{BrokerId: b.id, BrokerEpoch: b.epoch, MetadataOffset: 1 << 30, Sequence: sequence}
}

// follower is a caller of Follow that folds what it hears.
type follower struct {
	t    *testing.T
	mu   sync.Mutex
	img  *fsm.Image
	all  int // entries that were taken
	base int // snapshots that were taken
	beat *controllerv1.Beat
	// slow, if set, is called before each entry.
	slow func()
}

func (f *follower) config(name string) client.FollowConfig {
	return client.FollowConfig{Name: name, Position: f.position, Snapshot: f.snapshot, Entry: f.entry, Beat: f.beats}
}

func (f *follower) position() (fsm.LineageID, int64) {
	img := f.image()
	if img == nil {
		return fsm.LineageID{}, 0
	}
	return img.Lineage().ID, img.NextOffset()
}

func (f *follower) image() *fsm.Image {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.img
}

func (f *follower) snapshot(img *fsm.Image) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.img = img
	f.base++
	return nil
}

func (f *follower) entry(e *controllerv1.EntryApplied) error {
	if f.slow != nil {
		f.slow()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	env, err := fsm.DecodeEnvelope(e.GetEnvelope())
	if err != nil {
		return err
	}
	res := fsm.Follow(f.img, fsm.Entry{Envelope: env, ControllerEpoch: e.GetControllerEpoch(), FirstOffset: e.GetFirstMetadataOffset()})
	if res.Outcome != fsm.Applied || res.Alarm != nil {
		f.t.Errorf("entry at %d: %s %v %v %v", e.GetFirstMetadataOffset(), res.Outcome, res.Mismatch, res.Err, res.Alarm)
		return errors.New("does not fold")
	}
	f.img = res.Image
	f.all++
	return nil
}

func (f *follower) beats(b *controllerv1.Beat) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beat = b
}

func (f *follower) lastBeat() *controllerv1.Beat {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.beat
}

func (f *follower) counts() (snapshots, entries int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.base, f.all
}

// wantSame checks that the follower's image is the node's.
func (f *follower) wantSame(n *rpctest.Node) {
	f.t.Helper()
	img := f.image()
	if img == nil {
		f.t.Fatal("the follower has no image")
	}
	if img.NextOffset() != n.Image().NextOffset() || img.Digest() != n.Image().Digest() {
		f.t.Fatalf("the follower is at %d with digest %s, %s is at %d with digest %s",
			img.NextOffset(), img.Digest(), n.Addr, n.Image().NextOffset(), n.Image().Digest())
	}
}

// follow runs Follow until the returned function is called, which returns its error.
func follow(c *client.Client, cfg client.FollowConfig) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Follow(ctx, cfg) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// reserve makes entries: each reserves a block of producer ids.
func reserve(t *testing.T, c *client.Client, b broker, count int) {
	t.Helper()
	for range count {
		if _, err := c.ReserveProducerIDs(within(t, 10*time.Second), &controllerv1.ReserveProducerIDsRequest{BrokerId: b.id, BrokerEpoch: b.epoch}); err != nil {
			t.Fatal(err)
		}
	}
}

// eventually waits, in virtual time, until cond holds.
func eventually(t *testing.T, d time.Duration, what string, cond func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !cond() {
		if time.Since(begin) > d {
			t.Fatalf("after %s: not %s", d, what)
		}
		time.Sleep(max(d/1000, time.Millisecond))
	}
	return time.Since(begin)
}

func topicsRequest(names ...string) *controllerv1.CreateTopicsRequest {
	req := &controllerv1.CreateTopicsRequest{Context: &controllerv1.RequestContext{RequestId: fsm.UUID{42, byte(len(names))}.Bytes()}}
	for _, name := range names {
		req.Topics = append(req.Topics, &controllerv1.CreatableTopic{Name: name, NumPartitions: 1, ReplicationFactor: 1})
	}
	return req
}

func asError(t *testing.T, err error) *client.Error {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *client.Error", err)
	}
	return e
}
