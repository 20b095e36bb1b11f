package metadata

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

const (
	// defaultImageBytes of log after which an image is written: replaying this much takes well under a second.
	defaultImageBytes = 8 << 20
	// syncInterval is how long an entry may be without fsync. A power cut within it only means that the quorum sends
	// the entry again.
	syncInterval = time.Second
)

// Config of a Follower.
type Config struct {
	// Dir is where the metadata log is kept.
	Dir string
	// ClusterID that the broker is pinned to; empty accepts the first one it hears.
	ClusterID string
	// Source feeds the follower by calling Position, Snapshot, Entry and Beat on one goroutine until ctx ends.
	Source func(ctx context.Context, f *Follower) error
	// ImageBytes of log after which an image is written; 0 is 8 MiB.
	ImageBytes int64
	Logger     hclog.Logger
}

// Subscriber is told what changed and the image after it. It runs before the applied offset moves.
type Subscriber func(*fsm.Delta, *fsm.Image)

// Follower is a broker's copy of the metadata.
type Follower struct {
	cfg   Config
	image atomic.Pointer[fsm.Image]
	// told is the image that every subscriber has been told of.
	told        atomic.Pointer[fsm.Image]
	progress    *progress
	subscribers []Subscriber
	// heard is the newest controller epoch that a source told of, even if its claim is not folded yet.
	heard     atomic.Int64
	confirmed atomic.Bool
	// frozen and alarm are why the image stands still or is doubted; nil while all is well.
	frozen, alarm atomic.Pointer[error]
	fatal         context.CancelCauseFunc // set by Run

	// storeMu guards store's log file against the goroutine that syncs it, which does so without holding it.
	storeMu sync.Mutex
	store   *store
	// images counts image writers: at most one runs.
	images  sync.WaitGroup
	writing atomic.Bool
}

// Open reads the metadata log. Image is nil if there is none.
func Open(cfg Config) (*Follower, error) {
	if cfg.ImageBytes <= 0 {
		cfg.ImageBytes = defaultImageBytes
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	store, img, err := openStore(cfg.Dir, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("open metadata log in %s: %w", cfg.Dir, err)
	}
	f := &Follower{cfg: cfg, store: store, progress: newProgress()}
	if img == nil {
		return f, nil
	}
	if cfg.ClusterID != "" && img.ClusterID() != cfg.ClusterID {
		return nil, errors.Join(&ClusterError{Ours: cfg.ClusterID, Theirs: img.ClusterID()}, store.close())
	}
	f.image.Store(img)
	return f, nil
}

// Subscribe adds a subscriber; they are told in the order in which they were added. Call it before Run.
func (f *Follower) Subscribe(s Subscriber) { f.subscribers = append(f.subscribers, s) }

// Image is the metadata as applied, nil before the first. It never changes; ask once per request.
func (f *Follower) Image() *fsm.Image { return f.image.Load() }

// AppliedImage is the image that every subscriber has been told of, nil before the first. It may be one step behind
// Image.
func (f *Follower) AppliedImage() *fsm.Image { return f.told.Load() }

// Applied is the metadata offset up to which every subscriber has been told, -1 before the first image.
func (f *Follower) Applied() int64 {
	applied, _, _ := f.progress.get()
	return applied
}

// Await waits until a metadata offset is applied, until ctx ends or the follower stops (ErrClosed).
func (f *Follower) Await(ctx context.Context, offset int64) error {
	return f.progress.await(ctx, offset)
}

// ControllerEpoch is the newest that was heard of, folded or not; 0 if none.
func (f *Follower) ControllerEpoch() int64 {
	epoch := f.heard.Load()
	if img := f.Image(); img != nil {
		epoch = max(epoch, img.ControllerEpoch())
	}
	return epoch
}

// Confirmed tells whether the quorum has vouched for the image since the process started (I22). Until then it may
// be old: it came from the local log alone.
func (f *Follower) Confirmed() bool { return f.confirmed.Load() }

// Frozen returns why the image stands still, nil if it does not.
func (f *Follower) Frozen() error { return load(&f.frozen) }

// Alarm returns why the image is doubted, nil if it is not.
func (f *Follower) Alarm() error { return load(&f.alarm) }

// Trusted tells whether data may be deleted on the strength of the image (I22).
func (f *Follower) Trusted() bool {
	return f.Confirmed() && f.Frozen() == nil && f.Alarm() == nil
}

func load(p *atomic.Pointer[error]) error {
	if err := p.Load(); err != nil {
		return *err
	}
	return nil
}

// Run tells the subscribers what the log holds and then follows the source until ctx ends, which is nil, or until
// the source shows what must not be followed: a *ForeignLineageError, a *ClusterError, or a failed disk.
func (f *Follower) Run(ctx context.Context) error {
	defer f.progress.close()
	if img := f.Image(); img != nil {
		empty, err := EmptyLike(img)
		if err != nil {
			return err
		}
		f.tell(fsm.Diff(empty, img), img)
	}
	ctx, f.fatal = context.WithCancelCause(ctx)
	defer f.fatal(nil)
	var syncing sync.WaitGroup
	syncing.Go(func() { f.keepSynced(ctx) })
	err := f.cfg.Source(ctx, f)
	f.fatal(nil)
	syncing.Wait()
	f.images.Wait()
	f.storeMu.Lock()
	closed := f.store.close()
	f.storeMu.Unlock()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return errors.Join(cause, closed)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, closed)
}

// EmptyLike is an image of the same lineage with nothing in it: what a first delta is compared with.
func EmptyLike(img *fsm.Image) (*fsm.Image, error) {
	lineage := img.Lineage()
	born := &metadatav1.LineageStarted{ClusterId: img.ClusterID(), Lineage: lineage.ID.Proto(), NextMetadataOffset: 1}
	for _, a := range lineage.Ancestors {
		born.Ancestors = append(born.Ancestors, &metadatav1.LineageAncestor{Uuid: a.UUID.Bytes(), ForkOffset: a.ForkOffset})
	}
	empty, err := fsm.Genesis(born)
	if err != nil {
		return nil, fmt.Errorf("make an empty image: %w", err)
	}
	return empty, nil
}

// keepSynced flushes the log behind the appends.
func (f *Follower) keepSynced(ctx context.Context) {
	tick := time.NewTicker(syncInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := f.syncLog(); err != nil {
				f.fatal(err)
				return
			}
		}
	}
}

func (f *Follower) syncLog() error {
	f.storeMu.Lock()
	file, dirty := f.store.file, f.store.unsynced
	f.store.unsynced = false
	f.storeMu.Unlock()
	if file == nil || !dirty {
		return nil
	}
	if err := file.Sync(); err != nil && !errors.Is(err, fs.ErrClosed) && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("sync metadata log: %w", err)
	}
	return nil // a file that was closed meanwhile was synced by whoever closed it
}

// tell tells the subscribers, then those who wait for the offset.
func (f *Follower) tell(d *fsm.Delta, img *fsm.Image) {
	for _, s := range f.subscribers {
		s(d, img)
	}
	f.told.Store(img)
	f.progress.set(img.AppliedOffset())
}

// Position is where the follower stands: its lineage, zero if it has none, and the next metadata offset it needs.
func (f *Follower) Position() (fsm.LineageID, int64) {
	img := f.Image()
	if img == nil {
		return fsm.LineageID{}, 0
	}
	return img.Lineage().ID, img.NextOffset()
}

// Beat takes a source's sign of life.
func (f *Follower) Beat(b *controllerv1.Beat) {
	if img := f.Image(); img != nil && !b.GetBehind() {
		f.confirmed.Store(true)
	}
	if epoch := b.GetControllerEpoch(); epoch > f.heard.Load() {
		f.heard.Store(epoch)
	}
}
