package replica

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
)

// Directories and files in the data directory. docs/formats/stray.md describes the names.
const (
	partitionsDir = "partitions"
	strayDir      = "stray"
)

// uuidChars is the length of a topic id in a name; the id itself may contain the dash that follows it.
const uuidChars = 22

// stray is a replica that was put away.
type stray struct {
	id      fsm.PartitionID
	lineage uint64 // number of the lineage in which the metadata took it from us
	offset  int64  // metadata offset at which it did
	name    string // of its directory in stray/
}

func partitionName(id fsm.PartitionID) string { return fmt.Sprintf("%s-%d", id.Topic, id.Partition) }

func (m *Manager) partitionDir(id fsm.PartitionID) string {
	return filepath.Join(m.cfg.Dir, partitionsDir, partitionName(id))
}

// parsePartitionName reads "<topic id>-<partition>".
func parsePartitionName(name string) (fsm.PartitionID, error) {
	if len(name) < uuidChars+2 || name[uuidChars] != '-' {
		return fsm.PartitionID{}, fmt.Errorf("%q is not <topic id>-<partition>", name)
	}
	topic, err := fsm.ParseUUID(name[:uuidChars])
	if err != nil {
		return fsm.PartitionID{}, fmt.Errorf("%q: %w", name, err)
	}
	n, err := strconv.ParseInt(name[uuidChars+1:], 10, 32)
	if err != nil || n < 0 {
		return fsm.PartitionID{}, fmt.Errorf("%q: bad partition number", name)
	}
	return fsm.PartitionID{Topic: topic, Partition: int32(n)}, nil
}

// parseStrayName reads "<topic id>-<partition>@<lineage>.<offset>".
func parseStrayName(name string) (stray, error) {
	partition, taken, ok := strings.Cut(name, "@")
	number, offset, ok2 := strings.Cut(taken, ".")
	if !ok || !ok2 {
		return stray{}, fmt.Errorf("%q is not <topic id>-<partition>@<lineage>.<offset>", name)
	}
	id, err := parsePartitionName(partition)
	if err != nil {
		return stray{}, err
	}
	s := stray{id: id, name: name}
	if s.lineage, err = strconv.ParseUint(number, 10, 64); err != nil {
		return stray{}, fmt.Errorf("%q: lineage: %w", name, err)
	}
	if s.offset, err = strconv.ParseInt(offset, 10, 64); err != nil {
		return stray{}, fmt.Errorf("%q: offset: %w", name, err)
	}
	return s, nil
}

// partitionsOnDisk lists the replicas in dir; what has another name is not ours to touch.
func partitionsOnDisk(dir string) ([]fsm.PartitionID, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var ids []fsm.PartitionID
	for _, e := range entries {
		if id, err := parsePartitionName(e.Name()); err == nil && e.IsDir() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// strays lists what was put away, oldest first.
func (m *Manager) strays() ([]stray, error) {
	entries, err := os.ReadDir(filepath.Join(m.cfg.Dir, strayDir))
	if err != nil {
		return nil, fmt.Errorf("list strays: %w", err)
	}
	var list []stray
	for _, e := range entries {
		if s, err := parseStrayName(e.Name()); err == nil && e.IsDir() {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b stray) int {
		return cmp.Or(cmp.Compare(a.lineage, b.lineage), cmp.Compare(a.offset, b.offset), cmp.Compare(a.name, b.name))
	})
	return list, nil
}

// moveToStray renames a replica's directory; its age counts from now. The replica's log must be closed.
func (m *Manager) moveToStray(id fsm.PartitionID, img *fsm.Image) (string, error) {
	name := fmt.Sprintf("%s@%d.%d", partitionName(id), img.Lineage().ID.Number, img.AppliedOffset())
	from, to := m.partitionDir(id), filepath.Join(m.cfg.Dir, strayDir, name)
	now := time.Now()
	if err := os.Chtimes(from, now, now); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", fmt.Errorf("put away %s: %w", from, err)
	}
	return to, m.rename(from, to)
}

// takeBack gives a replica that was put away its place again, the newest if there are several, unless there is one.
func (m *Manager) takeBack(id fsm.PartitionID, dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	list, err := m.strays()
	if err != nil {
		return err
	}
	for _, s := range slices.Backward(list) {
		if s.id == id {
			m.logger.Info("a replica that was put away is ours again", "stray", s.name)
			return m.rename(filepath.Join(m.cfg.Dir, strayDir, s.name), dir)
		}
	}
	return nil
}

func (m *Manager) rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("rename replica: %w", err)
	}
	for _, dir := range []string{filepath.Dir(from), filepath.Dir(to)} {
		if err := disk.SyncDir(dir); err != nil {
			return fmt.Errorf("rename replica: %w", err)
		}
	}
	return nil
}

// purgeStrays removes what was put away longer ago than StrayAge, oldest first.
func (m *Manager) purgeStrays(now time.Time) error {
	if !m.cfg.Trusted() {
		return nil
	}
	list, err := m.strays()
	if err != nil {
		return err
	}
	for _, s := range list {
		path := filepath.Join(m.cfg.Dir, strayDir, s.name)
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("purge strays: %w", err)
		}
		if now.Sub(info.ModTime()) < m.cfg.StrayAge {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("purge strays: %w", err)
		}
		m.logger.Info("a stray was purged", "stray", s.name, "age", now.Sub(info.ModTime()).Round(time.Minute))
	}
	return nil
}
