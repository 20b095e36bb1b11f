package partlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Open opens the log in dir, or makes a new one there. A log that was closed
// is trusted; of any other everything behind its recovery point is checked,
// and it is cut at the first byte that is not as it was written. Recovered
// tells.
//
// Errors: ErrIdentity when the directory is another partition's,
// ErrUnsupportedVersion when a newer version wrote it, else the disk's.
func Open(dir string, opts Options) (*Log, error) {
	l := &Log{dir: dir, opts: opts.withDefaults(), disk: newGate(), writer: newGate()}
	l.recovered = Recovered{CutAt: NoOffset, LostTo: NoOffset}
	names, err := l.enter()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	if err := l.load(names); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return l, nil
}

// enter makes the directory if need be and returns what is in it, without
// what a crash left half written.
func (l *Log) enter() ([]string, error) {
	fsys := l.opts.FS
	names, err := fsys.ReadDir(l.dir)
	if isNotExist(err) {
		err = fsys.MkdirAll(l.dir)
	}
	if err != nil {
		return nil, err
	}
	kept := names[:0]
	for _, name := range names {
		if !strings.HasSuffix(name, tmpSuffix) {
			kept = append(kept, name)
			continue
		}
		if err := removeFile(fsys, filepath.Join(l.dir, name)); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// contents is what Open found in the directory.
type contents struct {
	meta meta
	// known says that partition.meta could be read.
	known    bool
	segments []*segment
}

func (l *Log) load(names []string) error {
	c, err := l.survey(names)
	switch {
	case err != nil:
	case len(c.segments) > 0 && c.cleanlyClosed():
		err = l.openClean(c)
	default:
		err = l.recover(c)
	}
	if err == nil {
		err = l.removeLitter(names)
	}
	if err == nil && l.opts.Flush == FlushBatch {
		// What a killed process wrote may be read only once it is on disk.
		err = l.flushTo(l.next)
	}
	if err != nil {
		for _, s := range c.segments {
			err = errors.Join(err, s.close())
		}
	}
	return err
}

// removeLitter removes indexes that have no segment.
func (l *Log) removeLitter(names []string) error {
	bases := make(map[int64]bool)
	for _, s := range l.view.Load().segments {
		bases[s.base] = true
	}
	for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
		for _, base := range offsetsOf(names, suffix) {
			if bases[base] {
				continue
			}
			if err := removeFile(l.opts.FS, segmentFile(l.dir, base, suffix)); err != nil {
				return err
			}
		}
	}
	return nil
}

// survey reads partition.meta and looks at the size of each segment.
func (l *Log) survey(names []string) (contents, error) {
	var c contents
	var err error
	c.meta, err = readMeta(l.opts.FS, l.dir)
	switch {
	case err == nil:
		c.known = true
	case errors.Is(err, errDamaged):
		l.recovered.repaired(metaName)
	case !isNotExist(err):
		return c, err
	}
	if err := l.identify(&c); err != nil {
		return c, err
	}
	for _, base := range offsetsOf(names, logSuffix) {
		s := newSegment(l, base, false)
		err := s.withFile(func(file File) error {
			size, err := file.Size()
			s.size.Store(size)
			return err
		})
		if err != nil {
			return c, err
		}
		c.segments = append(c.segments, s)
	}
	if len(c.segments) > 0 && !c.known && isNotExist(err) {
		l.recovered.repaired(metaName)
	}
	return c, nil
}

// identify compares whose log it is with whose it should be.
func (l *Log) identify(c *contents) error {
	if !c.known {
		return nil
	}
	asked := l.opts.TopicID != [16]byte{}
	if asked && (c.meta.topicID != l.opts.TopicID || c.meta.partition != l.opts.Partition) {
		return fmt.Errorf("%w: it is %x-%d, not %x-%d", ErrIdentity,
			c.meta.topicID, c.meta.partition, l.opts.TopicID, l.opts.Partition)
	}
	l.opts.TopicID, l.opts.Partition = c.meta.topicID, c.meta.partition
	return nil
}

// cleanlyClosed says whether the directory is as Close left it.
func (c contents) cleanlyClosed() bool {
	last := c.segments[len(c.segments)-1]
	if !c.known || !c.meta.clean || last.base != c.meta.activeBase || last.size.Load() != c.meta.activeSize {
		return false
	}
	for i, s := range c.segments[:len(c.segments)-1] {
		if s.size.Load() == 0 && c.segments[i+1].base > c.meta.start {
			return false
		}
	}
	return c.segments[0].base <= c.meta.start
}

// openClean takes the files' word for everything.
func (l *Log) openClean(c contents) error {
	epochs, err := readEpochs(l.opts.FS, l.dir)
	if errors.Is(err, errDamaged) || isNotExist(err) && c.meta.end > c.segments[0].base {
		// Only the batches know the epochs now.
		return l.recover(c)
	}
	if err != nil && !isNotExist(err) {
		return err
	}
	for _, s := range c.segments {
		s.synced = s.size.Load()
	}
	v := &view{segments: c.segments, start: c.meta.start, epochs: epochs}
	if err := l.install(v, c.meta.end); err != nil {
		return err
	}
	l.flushed.Store(c.meta.end)
	l.savedPoint, l.epochsSaved = c.meta.recoveryPoint, epochs
	l.untouched.Store(true)
	l.foundSynced = true
	return nil
}

// install makes the log consist of v, ending at end.
func (l *Log) install(v *view, end int64) error {
	if err := v.active().loadIndex(); err != nil {
		return err
	}
	var err error
	if l.producers, err = l.replay(v.segments, end); err != nil {
		return err
	}
	if l.recovered.Unclean {
		l.keepProducers(end)
	}
	l.next = end
	l.end.Store(end)
	l.view.Store(v)
	return nil
}
