package metadata

import (
	"errors"
	"fmt"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// Entry takes one entry that took effect. It is folded, written to the log, and then told. An error asks the source
// to begin again from Position.
func (f *Follower) Entry(e *controllerv1.EntryApplied) error {
	img := f.Image()
	if img == nil {
		return errors.New("an entry came before any snapshot")
	}
	if f.Frozen() != nil || e.GetFirstMetadataOffset() < img.NextOffset() {
		return nil
	}
	res, err := fold(img, e)
	switch {
	case err != nil:
		f.freeze(err)
		return nil
	case res.Outcome == fsm.Dropped:
		return fmt.Errorf("entry at metadata offset %d does not continue the image: %w", e.GetFirstMetadataOffset(), res.Mismatch)
	case res.Outcome == fsm.Broken:
		f.freeze(res.Err)
		return nil
	}
	if res.Alarm != nil {
		f.raise(res.Alarm, e.GetFirstMetadataOffset())
	}
	if err := f.write(e); err != nil {
		f.fatal(err)
		return err
	}
	f.confirmed.Store(true)
	f.image.Store(res.Image)
	f.tell(res.Delta, res.Image)
	f.maybeWriteImage(res.Image)
	return nil
}

func (f *Follower) write(e *controllerv1.EntryApplied) error {
	f.storeMu.Lock()
	defer f.storeMu.Unlock()
	return f.store.append(e)
}

// freeze keeps the last good image for good, or until a snapshot beyond the entry that did not fold (I3).
func (f *Follower) freeze(err error) {
	err = fmt.Errorf("the image is frozen at metadata offset %d: %w", f.Image().AppliedOffset(), err)
	f.frozen.Store(&err)
	f.cfg.Logger.Error("an entry that took effect in the quorum does not fold here; this broker goes on with its last good image", "error", err)
}

// raise doubts the image: the decider had another one before this entry. It stays raised until the process starts
// again from what the quorum then says.
func (f *Follower) raise(m *fsm.Mismatch, offset int64) {
	if f.Alarm() != nil {
		return
	}
	err := fmt.Errorf("before metadata offset %d this broker's image and the controller's differ: %w", offset, m)
	f.alarm.Store(&err)
	f.cfg.Logger.Error("the digest does not fit: nothing is deleted from now on", "error", err)
}

// Snapshot takes a whole image in place of ours. An error asks the source to begin again; one that ends the process
// also ends Run.
func (f *Follower) Snapshot(img *fsm.Image) error {
	old := f.Image()
	if err := f.acceptable(old, img); err != nil {
		if !errors.Is(err, ErrBehind) {
			f.fatal(err)
		}
		return err
	}
	if err := f.replace(img); err != nil {
		f.fatal(err)
		return err
	}
	if old == nil {
		empty, err := EmptyLike(img)
		if err != nil {
			return err
		}
		old = empty
	}
	f.frozen.Store(nil)
	if img.Lineage().ID != old.Lineage().ID {
		f.alarm.Store(nil) // what was doubted is of the last lineage, and nothing of it is left
	}
	f.confirmed.Store(true)
	f.image.Store(img)
	f.cfg.Logger.Info("took a snapshot of the metadata", "lineage", img.Lineage().ID, "metadata_offset", img.AppliedOffset())
	f.tell(fsm.Diff(old, img), img)
	return nil
}

// replace makes img what the next process starts from.
func (f *Follower) replace(img *fsm.Image) error {
	f.images.Wait()
	if err := f.store.writeImage(img); err != nil {
		return err
	}
	f.storeMu.Lock()
	defer f.storeMu.Unlock()
	f.store.sinceImage = 0
	return f.store.roll(img)
}

// acceptable judges whether img may take the place of old (I6).
func (f *Follower) acceptable(old, img *fsm.Image) error {
	if pinned := f.cfg.ClusterID; pinned != "" && img.ClusterID() != pinned {
		return &ClusterError{Ours: pinned, Theirs: img.ClusterID()}
	}
	if old == nil {
		return nil
	}
	ours, theirs := old.Lineage().ID, img.Lineage()
	switch {
	case img.ClusterID() != old.ClusterID():
		return &ClusterError{Ours: old.ClusterID(), Theirs: img.ClusterID()}
	case theirs.ID == ours && img.NextOffset() >= old.NextOffset(), theirs.Descends(ours):
		return nil
	case theirs.ID == ours, old.Lineage().Descends(theirs.ID):
		return fmt.Errorf("snapshot of lineage %s up to %d, ours is %s up to %d: %w", theirs.ID, img.NextOffset(), ours, old.NextOffset(), ErrBehind)
	default:
		return &ForeignLineageError{Ours: ours, Theirs: theirs.ID, Dir: f.cfg.Dir}
	}
}

// maybeWriteImage writes an image in the background when the log behind the last one has grown. A doubted image is
// never written: it must not outlive the process.
func (f *Follower) maybeWriteImage(img *fsm.Image) {
	if f.store.sinceImage < f.cfg.ImageBytes || f.Alarm() != nil || !f.writing.CompareAndSwap(false, true) {
		return
	}
	f.storeMu.Lock()
	f.store.sinceImage = 0
	err := f.store.roll(img)
	f.storeMu.Unlock()
	if err != nil {
		f.writing.Store(false)
		f.fatal(err)
		return
	}
	f.images.Go(func() {
		defer f.writing.Store(false)
		if err := f.store.writeImage(img); err != nil {
			f.cfg.Logger.Error("no metadata image was written; the log goes on without it", "error", err)
		}
	})
}
