package archive

import (
	"fmt"
	"slices"
	"time"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
)

// retain removes the files of a lineage that are too many or too old. The newest that can be read back stays whatever the
// bounds are, so that damage to a newer one never costs the last good one.
func (a *Archive) retain(lineage fsm.LineageID, now time.Time) error {
	files, err := list(a.cfg.Dir)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f file) bool { return f.lineage != lineage })
	surplus := a.surplus(files, now)
	if len(surplus) == 0 {
		return nil
	}
	kept, ok := a.newestGood(files)
	if !ok {
		return fmt.Errorf("no file of lineage %s in the archive can be read back; nothing was removed", lineage)
	}
	for _, f := range surplus {
		if f.name == kept {
			continue
		}
		if err := removeIfThere(a.path(f.name)); err != nil {
			return fmt.Errorf("remove what is no longer kept: %w", err)
		}
		a.note(func(s *Status) { s.Removed++ })
		a.cfg.Logger.Info("removed a snapshot from the archive", "file", f.String())
	}
	return disk.SyncDir(a.cfg.Dir)
}

// surplus are the files that the bounds do not keep, oldest first.
func (a *Archive) surplus(files []file, now time.Time) (list []file) {
	for i, f := range files {
		tooMany := a.cfg.RetentionCount > 0 && len(files)-i > a.cfg.RetentionCount
		tooOld := a.cfg.RetentionAge > 0 && now.Sub(f.modified) > a.cfg.RetentionAge
		if tooMany || tooOld {
			list = append(list, f)
		}
	}
	return list
}

// newestGood is the last file that can be read back.
func (a *Archive) newestGood(files []file) (name, bool) {
	for _, f := range slices.Backward(files) {
		err := verify(a.path(f.name))
		if err == nil {
			return f.name, true
		}
		a.cfg.Logger.Error("a file of the archive cannot be read back", "file", f.String(), "error", err)
	}
	return name{}, false
}
