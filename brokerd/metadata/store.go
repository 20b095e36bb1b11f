package metadata

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/fsm/disk"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

const (
	imageSuffix = ".image"
	logSuffix   = ".log"
	tempSuffix  = ".tmp"
)

// store is the directory of images and log files. An image is a snapshot stream; a log file holds the entries
// after it. Both are named by the lineage number and the next metadata offset they begin with. It is used by one
// goroutine, but for writeImage.
type store struct {
	dir    string
	logger hclog.Logger
	// file is the log file that is appended to; nil before there is an image.
	file *os.File
	// size of file in bytes, and of all frames since the last image.
	size, sinceImage int64
	// unsynced tells whether file has bytes that an fsync has not covered.
	unsynced bool
	buf      []byte
}

// name of a file in the store.
type name struct {
	lineage uint64
	next    int64
	suffix  string
}

func (n name) String() string { return fmt.Sprintf("%020d-%020d%s", n.lineage, n.next, n.suffix) }

func (n name) compare(m name) int {
	return cmp.Or(cmp.Compare(n.lineage, m.lineage), cmp.Compare(n.next, m.next))
}

func parseName(s string) (name, bool) {
	suffix := filepath.Ext(s)
	number, next, ok := strings.Cut(strings.TrimSuffix(s, suffix), "-")
	if !ok || (suffix != imageSuffix && suffix != logSuffix) {
		return name{}, false
	}
	n := name{suffix: suffix}
	var err1, err2 error
	n.lineage, err1 = strconv.ParseUint(number, 10, 64)
	n.next, err2 = strconv.ParseInt(next, 10, 64)
	return n, err1 == nil && err2 == nil
}

// removeUnfinished removes what an interrupted write left.
func (s *store) removeUnfinished() error {
	left, err := filepath.Glob(s.path("*" + tempSuffix))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return fmt.Errorf("remove unfinished files: %w", err)
	}
	return nil
}

func (s *store) path(file string) string { return filepath.Join(s.dir, file) }

// append writes an entry behind the last one. It survives a kill of the process at once and a power cut after the
// next sync.
func (s *store) append(e *controllerv1.EntryApplied) error {
	b, err := appendFrame(s.buf[:0], e)
	if err != nil {
		return err
	}
	s.buf = b
	if _, err := s.file.WriteAt(b, s.size); err != nil {
		return fmt.Errorf("append to metadata log: %w", err)
	}
	s.size += int64(len(b))
	s.sinceImage += int64(len(b))
	s.unsynced = true
	return nil
}

func (s *store) sync() error {
	if !s.unsynced {
		return nil
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("sync metadata log: %w", err)
	}
	s.unsynced = false
	return nil
}

// roll begins a new log file that continues img.
func (s *store) roll(img *fsm.Image) error {
	if s.file != nil {
		if err := errors.Join(s.sync(), s.file.Close()); err != nil {
			return err
		}
		s.file = nil
	}
	h := logHeader{lineage: img.Lineage().ID, first: img.NextOffset()}
	path := s.path(name{h.lineage.Number, h.first, logSuffix}.String())
	if err := disk.WriteFileAtomic(path, h.encode(), 0o640); err != nil {
		return fmt.Errorf("begin metadata log: %w", err)
	}
	return s.open(path, logHeaderSize)
}

func (s *store) open(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open metadata log: %w", err)
	}
	s.file, s.size = file, size
	return nil
}

// writeImage makes img durable and then removes what it replaces: all but the newest two images, and the log files
// that the older of them does not need. It touches no field that append uses, so that it may run beside it.
func (s *store) writeImage(img *fsm.Image) error {
	path := s.path(name{img.Lineage().ID.Number, img.NextOffset(), imageSuffix}.String())
	if err := writeImageFile(path, img); err != nil {
		return fmt.Errorf("write metadata image: %w", err)
	}
	return s.prune()
}

func writeImageFile(path string, img *fsm.Image) error {
	f, err := os.OpenFile(path+tempSuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	err = fsm.WriteSnapshot(img, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path+tempSuffix))
	}
	if err := os.Rename(path+tempSuffix, path); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}

// imagesKept is how many images stay: the newest, and one to fall back on.
const imagesKept = 2

func (s *store) prune() error {
	images, logs, err := s.list()
	if err != nil || len(images) <= imagesKept {
		return err
	}
	oldest := images[len(images)-imagesKept]
	for _, n := range images[:len(images)-imagesKept] {
		if err := os.Remove(s.path(n.String())); err != nil {
			return fmt.Errorf("remove old image: %w", err)
		}
	}
	for i, n := range logs {
		// A log file is needed while the one after it begins behind the oldest image.
		if i+1 < len(logs) && logs[i+1].compare(oldest) <= 0 {
			if err := os.Remove(s.path(n.String())); err != nil {
				return fmt.Errorf("remove old metadata log: %w", err)
			}
		}
	}
	return nil
}

// list returns the images and the log files, oldest first.
func (s *store) list() (images, logs []name, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list metadata log: %w", err)
	}
	for _, e := range entries {
		switch n, ok := parseName(e.Name()); {
		case ok && n.suffix == imageSuffix:
			images = append(images, n)
		case ok:
			logs = append(logs, n)
		}
	}
	slices.SortFunc(images, name.compare)
	slices.SortFunc(logs, name.compare)
	return images, logs, nil
}

func (s *store) close() error {
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.sync(), s.file.Close())
	s.file = nil
	return err
}
