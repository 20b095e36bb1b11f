package stray

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// purgeSuffix marks a stray that is being removed: half a log must never be taken back.
const purgeSuffix = ".purge"

// Policy says which strays are purged.
type Policy struct {
	// Now is the present time.
	Now time.Time
	// Age after which a stray goes; 0 or below: never by age.
	Age time.Duration
	// FreeBytesMin is the free space below which the oldest go whatever their age; 0 or below: never for space.
	FreeBytesMin int64
	// Free tells the free space of the data directory; nil asks the system.
	Free func() (int64, error)
}

// Purge removes strays, oldest first. It finishes what a crash left half removed.
func (s *Store) Purge(p Policy) error {
	if err := s.finishPurges(); err != nil {
		return err
	}
	if p.Free == nil {
		p.Free = s.free
	}
	list, err := s.List()
	if err != nil {
		return err
	}
	for _, st := range list {
		why, err := p.due(st)
		if err != nil {
			return err
		}
		if why == "" {
			continue
		}
		if err := s.Remove(st.Name); err != nil {
			return err
		}
		s.logger.Info("a stray was purged", "stray", st.Name, "topic", st.Topic.Name, "age", p.Now.Sub(st.Counted).Round(time.Minute), "reason", why)
	}
	return nil
}

// due is why a stray goes, empty if it stays.
func (p Policy) due(st Stray) (string, error) {
	if p.Age > 0 && p.Now.Sub(st.Counted) >= p.Age {
		return "age", nil
	}
	if p.FreeBytesMin <= 0 {
		return "", nil
	}
	free, err := p.Free()
	if err != nil {
		return "", fmt.Errorf("purge strays: %w", err)
	}
	if free < p.FreeBytesMin {
		return fmt.Sprintf("%d bytes are free, want %d", free, p.FreeBytesMin), nil
	}
	return "", nil
}

// free is the space that this user may still fill.
func (s *Store) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.dataDir, &st); err != nil {
		return 0, fmt.Errorf("ask for the free space of %s: %w", s.dataDir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // the types differ between systems
}

// Remove removes one stray for good. It takes the name away first, so that from then on nobody takes the stray back; one
// that is gone already is no error.
func (s *Store) Remove(n Name) error {
	path := s.path(n.String())
	err := s.do.rename(path, path+purgeSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		s.count(n.ID, -1)
		err = s.do.syncDir(filepath.Dir(path))
	}
	if err == nil {
		err = s.do.removeAll(path + purgeSuffix)
	}
	if err != nil {
		return fmt.Errorf("purge stray: %w", err)
	}
	return nil
}

func (s *Store) finishPurges() error {
	entries, err := os.ReadDir(filepath.Join(s.dataDir, Dir))
	if err != nil {
		return fmt.Errorf("list strays: %w", err)
	}
	for _, e := range entries {
		name, half := strings.CutSuffix(e.Name(), purgeSuffix)
		if _, err := ParseName(name); !half || err != nil {
			continue
		}
		if err := s.do.removeAll(s.path(e.Name())); err != nil {
			return fmt.Errorf("purge stray: %w", err)
		}
	}
	return nil
}

// Recount lets the age of every stray count from now: the metadata that took them was not confirmed until now.
func (s *Store) Recount(now time.Time) error {
	names, err := s.names()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := s.do.chtimes(s.path(n.String()), now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("let a stray's age count anew: %w", err)
		}
	}
	return nil
}
