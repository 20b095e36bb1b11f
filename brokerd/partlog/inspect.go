package partlog

import (
	"errors"
	"fmt"
)

// Summary is what a log's files say of it without its being opened.
type Summary struct {
	// TopicID and Partition say whose log it is.
	TopicID   [16]byte
	Partition int32
	// StartOffset is the first offset that may be read; EndOffset is the offset
	// behind the last record, or a lower bound of it if Clean is not set.
	StartOffset, EndOffset int64
	// LastEpoch is the leader epoch of the last record, NoEpoch if unknown or
	// if there has never been one.
	LastEpoch int32
	// Clean says that the log was closed as Close leaves it.
	Clean bool
	// SizeBytes is the size of all segments.
	SizeBytes int64
}

// Inspect reads the small files of the log in dir and changes nothing. The log
// must not be open. Where the files say nothing of use, only the size is told.
// The error of an absent directory is fs.ErrNotExist.
func Inspect(fsys FS, dir string) (Summary, error) {
	if fsys == nil {
		fsys = OSFS{}
	}
	s, err := inspect(fsys, dir)
	if err != nil {
		return Summary{}, fmt.Errorf("inspect %s: %w", dir, err)
	}
	return s, nil
}

func inspect(fsys FS, dir string) (Summary, error) {
	s := Summary{LastEpoch: NoEpoch}
	active, activeSize := NoOffset, int64(0)
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return s, err
	}
	for _, base := range offsetsOf(names, logSuffix) {
		if activeSize, err = fileSize(fsys, segmentFile(dir, base, logSuffix)); err != nil {
			return s, err
		}
		active = base
		s.SizeBytes += activeSize
	}
	m, err := readMeta(fsys, dir)
	if isNotExist(err) || errors.Is(err, errDamaged) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	epochs, err := readEpochs(fsys, dir)
	if err != nil && !isNotExist(err) && !errors.Is(err, errDamaged) {
		return s, err
	}
	s.TopicID, s.Partition, s.StartOffset, s.EndOffset = m.topicID, m.partition, m.start, max(m.recoveryPoint, m.start)
	if s.Clean = m.clean && m.activeBase == active && m.activeSize == activeSize; s.Clean {
		s.EndOffset = m.end
	}
	s.LastEpoch = epochs.lastRecord(s.StartOffset, s.EndOffset)
	return s, nil
}

func fileSize(fsys FS, name string) (int64, error) {
	f, err := fsys.Open(name, false)
	if err != nil {
		return 0, err
	}
	size, err := f.Size()
	return size, errors.Join(err, f.Close())
}

// LastRecordEpoch is the leader epoch of the last record. Of a log whose
// records were all deleted it is the newest epoch that the log knows: they were
// no older. NoEpoch says that there has never been a record.
func (l *Log) LastRecordEpoch() int32 {
	v := l.view.Load()
	return v.epochs.lastRecord(v.start, l.end.Load())
}

// lastRecord tells the epoch of the last record of a log from start to end. An
// epoch that begins at the end has no record: its leader was deposed, or has
// not appended yet.
func (h epochHistory) lastRecord(start, end int64) int32 {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].startOffset < end || start == end && end > 0 {
			return h[i].epoch
		}
	}
	return NoEpoch
}
