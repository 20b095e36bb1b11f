package quorum

import (
	"time"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/archive"
)

// Defaults of the archive.
const (
	// DefaultArchiveInterval between two files.
	DefaultArchiveInterval = time.Hour
	// DefaultArchiveCount of files that stay.
	DefaultArchiveCount = 48
)

// ArchiveConfig is where and how long snapshots are archived.
type ArchiveConfig struct {
	// Dir of the archive; empty for none.
	Dir string
	// Interval between two files; 0 for the default.
	Interval time.Duration
	// RetentionCount is how many files of a lineage stay; 0 for the default, negative for all.
	RetentionCount int
	// RetentionAge is how long a file stays; 0 or negative for ever.
	RetentionAge time.Duration
}

func (c ArchiveConfig) withDefaults() ArchiveConfig {
	if c.Interval <= 0 {
		c.Interval = DefaultArchiveInterval
	}
	if c.RetentionCount == 0 {
		c.RetentionCount = DefaultArchiveCount
	}
	return c
}

// newArchive gives the archive of this member, nil if it keeps none.
func (m *member) newArchive() *archive.Archive {
	c := m.cfg.Archive
	if c.Dir == "" {
		return nil
	}
	return archive.New(archive.Config{
		Dir: c.Dir, NodeID: m.self.NodeID, Interval: c.Interval, RetentionCount: max(c.RetentionCount, 0), RetentionAge: c.RetentionAge,
		Image: m.archived, Logger: m.logger.Named("archive"),
	})
}

// archived is the image that is worth keeping: none before a controller has claimed the lineage, and none that is not to be
// trusted.
func (m *member) archived() (*fsm.Image, error) {
	if f := m.machine.fault.Load(); f != nil {
		return nil, f
	}
	img := m.machine.image.Load()
	if img == nil || img.ClaimOffset() < 0 {
		return nil, nil
	}
	return img, nil
}

// addArchive adds the gauges of the archive. Each is there, as a 0, when none is kept.
func (g *gauges) addArchive() {
	g.add("skiff_snapshot_archive_enabled", "1 when snapshots are archived.", func(_ *Node, s Status) float64 { return number(s.Archive != nil) })
	g.add("skiff_snapshot_archive_failing", "1 when the last attempt to archive a snapshot failed.",
		archiveValue(func(s *archive.Status) float64 { return number(s.Failing) }))
	g.add("skiff_snapshot_archive_last_success_timestamp_seconds", "When the archive last held all there was to hold; 0 if not since the start.",
		archiveValue(func(s *archive.Status) float64 { return unixSeconds(s.LastSuccess) }))
	g.add("skiff_snapshot_archive_last_error_timestamp_seconds", "When an attempt last failed; 0 if none has since the start.",
		archiveValue(func(s *archive.Status) float64 { return unixSeconds(s.LastErrorAt) }))
	g.add("skiff_snapshot_archive_metadata_offset", "Metadata offset of the newest archived snapshot.",
		archiveValue(func(s *archive.Status) float64 { return float64(s.LastOffset) }))
	g.count("skiff_snapshot_archive_written_total", "Snapshots written to the archive.",
		archiveValue(func(s *archive.Status) float64 { return float64(s.Written) }))
	g.count("skiff_snapshot_archive_removed_total", "Snapshots removed from the archive by retention.",
		archiveValue(func(s *archive.Status) float64 { return float64(s.Removed) }))
	g.count("skiff_snapshot_archive_failures_total", "Attempts to archive a snapshot that failed.",
		archiveValue(func(s *archive.Status) float64 { return float64(s.Failures) }))
}

// archiveValue is 0 where no archive is kept.
func archiveValue(read func(*archive.Status) float64) func(*Node, Status) float64 {
	return func(_ *Node, s Status) float64 {
		if s.Archive == nil {
			return 0
		}
		return read(s.Archive)
	}
}

func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1e3
}
