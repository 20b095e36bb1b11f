package replica

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/skiffmq/skiff/fsm"
)

// LogDir is the directory that the replicas of this broker are in.
type LogDir struct {
	// Path of the directory.
	Path string
	// TotalBytes of its file system, and how many of them are still usable.
	TotalBytes, UsableBytes int64
	// Replicas by topic and partition.
	Replicas []Held
}

// Held is one replica that this broker holds.
type Held struct {
	// ID of the partition, Topic its name.
	ID    fsm.PartitionID
	Topic string
	// SizeBytes of its record batches on disk.
	SizeBytes int64
	// Lag is how many offsets it is behind the high watermark that it knows of.
	Lag int64
}

// LogDir describes what this broker holds. The error is of the file system.
func (m *Manager) LogDir() (LogDir, error) {
	dir := LogDir{Path: m.cfg.Dir}
	var st unix.Statfs_t
	if err := unix.Statfs(m.cfg.Dir, &st); err != nil {
		return dir, fmt.Errorf("ask for the space of %s: %w: %w", m.cfg.Dir, ErrStorage, err)
	}
	dir.TotalBytes, dir.UsableBytes = int64(st.Blocks)*int64(st.Bsize), int64(st.Bavail)*int64(st.Bsize) //nolint:gosec,unconvert // types differ between systems
	for _, p := range m.held() {
		dir.Replicas = append(dir.Replicas, p.size())
	}
	slices.SortFunc(dir.Replicas, func(a, b Held) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.ID.Partition, b.ID.Partition))
	})
	return dir, nil
}

func (p *Partition) size() Held {
	p.mu.Lock()
	high := p.highWatermark()
	p.mu.Unlock()
	return Held{ID: p.id, Topic: p.topic, SizeBytes: p.log.SizeBytes(), Lag: max(0, high-p.log.EndOffset())}
}
