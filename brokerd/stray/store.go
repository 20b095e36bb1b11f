package stray

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/brokerd/partlog"
	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
)

// Stray is a replica that was put away.
type Stray struct {
	Name
	// Topic is what was known of its topic.
	Topic Topic
	// Since is the time at which the metadata took it from the broker.
	Since time.Time
	// Counted is the time that its age counts from: Since, or the confirmation of the lineage that took it.
	Counted time.Time
}

// Taken says which metadata takes a replica from the broker, and when.
type Taken struct {
	// Lineage and Offset of the metadata that no longer gives it.
	Lineage fsm.LineageID
	Offset  int64
	// At is the present time.
	At time.Time
	// Topic is what is known of its topic.
	Topic Topic
}

// operations are what a Store does to the disk. Tests end them after any of them, as a kill does.
type operations struct {
	writeFile func(path string, data []byte, perm fs.FileMode) error
	chtimes   func(path string, access, change time.Time) error
	rename    func(from, to string) error
	syncDir   func(dir string) error
	remove    func(path string) error
	removeAll func(path string) error
}

var onDisk = operations{
	writeFile: disk.WriteFileAtomic, chtimes: os.Chtimes, rename: os.Rename, syncDir: disk.SyncDir, remove: os.Remove, removeAll: os.RemoveAll,
}

// Store is the stray directory of one data directory, beside its partitions directory.
type Store struct {
	dataDir string
	logger  hclog.Logger
	do      operations

	// mu guards the following.
	mu sync.Mutex
	// known counts the strays of each partition, as this store has seen them: another process may have purged some.
	known map[fsm.PartitionID]int
	// changes counts what this store has seen change.
	changes uint64
	// topics remembers what each stray's file says, by the name of the directory.
	topics map[string]info
}

// Open looks at what was put away. It makes both directories if they are missing.
func Open(dataDir string, logger hclog.Logger) (*Store, error) {
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	s := &Store{dataDir: dataDir, logger: logger, do: onDisk, topics: map[string]info{}}
	for _, dir := range []string{PartitionsDir, Dir} {
		if err := os.MkdirAll(filepath.Join(dataDir, dir), 0o750); err != nil {
			return nil, fmt.Errorf("make data directory: %w", err)
		}
	}
	_, err := s.names()
	return s, err
}

// PartitionDir is where a replica that the metadata gives to the broker has its log.
func (s *Store) PartitionDir(id fsm.PartitionID) string {
	return filepath.Join(s.dataDir, PartitionsDir, PartitionName(id))
}

func (s *Store) path(name string) string { return filepath.Join(s.dataDir, Dir, name) }

// Partitions lists the replicas in the partitions directory; what has another name is not ours to touch.
func (s *Store) Partitions() ([]fsm.PartitionID, error) {
	entries, err := os.ReadDir(filepath.Join(s.dataDir, PartitionsDir))
	if err != nil {
		return nil, fmt.Errorf("list replicas: %w", err)
	}
	var ids []fsm.PartitionID
	for _, e := range entries {
		if id, err := ParsePartitionName(e.Name()); err == nil && e.IsDir() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// names lists the strays, oldest first, and counts them.
func (s *Store) names() ([]Name, error) {
	entries, err := os.ReadDir(filepath.Join(s.dataDir, Dir))
	if err != nil {
		return nil, fmt.Errorf("list strays: %w", err)
	}
	var list []Name
	known := map[fsm.PartitionID]int{}
	for _, e := range entries {
		if n, err := ParseName(e.Name()); err == nil && e.IsDir() {
			list = append(list, n)
			known[n.ID]++
		}
	}
	slices.SortFunc(list, Name.compare)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !maps.Equal(s.known, known) {
		s.changes++ // somebody else has been here
	}
	s.known = known
	return list, nil
}

// List tells of every stray, oldest first.
func (s *Store) List() ([]Stray, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	list := make([]Stray, 0, len(names))
	for _, n := range names {
		st, err := s.describe(n)
		if errors.Is(err, fs.ErrNotExist) {
			continue // taken back or purged meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, st)
	}
	return list, nil
}

func (s *Store) describe(n Name) (Stray, error) {
	dir, err := os.Stat(s.path(n.String()))
	if err != nil {
		return Stray{}, fmt.Errorf("look at stray: %w", err)
	}
	st := Stray{Name: n, Since: dir.ModTime(), Counted: dir.ModTime()}
	if i, ok := s.infoOf(n); ok {
		st.Topic, st.Since = i.topic, i.since
	}
	return st, nil
}

// infoOf reads the file of a stray. Without it, as older versions left strays, nothing is known of the topic.
func (s *Store) infoOf(n Name) (info, bool) {
	name := n.String()
	s.mu.Lock()
	i, ok := s.topics[name]
	s.mu.Unlock()
	if ok {
		return i, true
	}
	file, err := disk.ReadFile(filepath.Join(s.path(name), infoFile), infoBytesMax)
	if err == nil {
		i, err = decodeInfo(file)
	}
	if err == nil && i.name != n {
		err = fmt.Errorf("the file is of %s", i.name)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.logger.Warn("what was known of a stray's topic cannot be read", "stray", name, "error", err)
		}
		return info{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topics[name] = i
	return i, true
}

// Changes grows whenever strays come or go, by this store or by another process once this one looks.
func (s *Store) Changes() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// Any tells whether there was a stray when the store last looked.
func (s *Store) Any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known) > 0
}

// Inspect reads what the log of a stray says of itself.
func (s *Store) Inspect(n Name) (partlog.Summary, error) {
	return partlog.Inspect(partlog.OSFS{}, s.path(n.String()))
}

func (s *Store) count(id fsm.PartitionID, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	if s.known[id] += by; s.known[id] <= 0 {
		delete(s.known, id)
	}
}

// renamed makes a rename between the two directories durable.
func (s *Store) renamed(from, to string) error {
	if err := s.do.rename(from, to); err != nil {
		return fmt.Errorf("rename replica: %w", err)
	}
	for _, dir := range []string{filepath.Dir(to), filepath.Dir(from)} {
		if err := s.do.syncDir(dir); err != nil {
			return fmt.Errorf("rename replica: %w", err)
		}
	}
	return nil
}
