package quorum

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"github.com/skiffmq/skiff/quorum/boltfile"
)

// walReader reads a raft-wal beside the process that writes it: the list of segments from its meta database, and the segments'
// files, which only grow. What the list says is removed from a segment is not read.
type walReader struct {
	dir   string
	filer *segment.Filer
	// next is the index to read next.
	next uint64
	each func(*raft.Log) error
}

// readWAL reads the log in a wal directory from an index on.
func readWAL(dir string, from uint64, each func(*raft.Log) error) error {
	r := &walReader{dir: dir, filer: segment.NewFiler(dir, walfs.New()), next: from, each: each}
	var missing error
	for {
		segments, err := r.segments()
		if err != nil {
			return err
		}
		err = r.all(segments)
		switch {
		case !errors.Is(err, os.ErrNotExist):
			return err
		case missing != nil && missing.Error() == err.Error():
			return fmt.Errorf("read raft log in %s: %w", dir, err)
		}
		missing = err // the writer has removed the segment since the list was read, or it is lost
	}
}

// all reads the segments in order.
func (r *walReader) all(segments []types.SegmentInfo) error {
	for _, s := range segments {
		if err := r.segment(s); err != nil {
			return err
		}
	}
	return nil
}

// segments are those that the log consists of, in order.
func (r *walReader) segments() ([]types.SegmentInfo, error) {
	file, err := boltfile.Open(filepath.Join(r.dir, metadb.FileName))
	if err != nil {
		return nil, fmt.Errorf("open raft store: %w", err)
	}
	raw, err := file.Get(metadb.MetaBucket, []byte(metadb.MetaKey))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read the list of segments in %s: %w", r.dir, err)
	}
	var state types.PersistentState
	if len(raw) == 0 {
		return nil, nil // nothing was ever appended
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		return nil, fmt.Errorf("read the list of segments in %s: %w", r.dir, err)
	}
	slices.SortFunc(state.Segments, func(a, b types.SegmentInfo) int { return cmp.Compare(a.BaseIndex, b.BaseIndex) })
	return state.Segments, nil
}

// segment reads what the log has in one segment. The last one is not sealed and has no end yet. Of a batch whose end is cut off
// the library's own bound would skip all, so the bound is looked at here.
func (r *walReader) segment(s types.SegmentInfo) error {
	first := max(r.next, s.MinIndex, 1)
	if s.MaxIndex > 0 && first > s.MaxIndex {
		return nil
	}
	err := r.filer.DumpSegment(s.BaseIndex, s.ID, first-1, 0, func(_ types.SegmentInfo, e types.LogEntry) (bool, error) {
		if s.MaxIndex > 0 && e.Index > s.MaxIndex {
			return false, nil
		}
		entry, err := decodeWALEntry(e)
		if err != nil {
			return false, fmt.Errorf("raft log in %s at index %d: %w", r.dir, e.Index, err)
		}
		r.next = e.Index + 1
		return true, r.each(entry)
	})
	if err == nil && s.MaxIndex > 0 && r.next <= s.MaxIndex {
		err = fmt.Errorf("raft log in %s: the segment that begins at index %d ends before index %d", r.dir, s.BaseIndex, s.MaxIndex)
	}
	return err
}

// decodeWALEntry reads an entry as raft-wal writes it. Its decoder trusts the bytes and panics on some that are damaged.
func decodeWALEntry(e types.LogEntry) (entry *raft.Log, err error) {
	defer func() {
		if p := recover(); p != nil {
			entry, err = nil, fmt.Errorf("the entry is damaged: %v", p)
		}
	}()
	entry = new(raft.Log)
	if err := (&wal.BinaryCodec{}).Decode(e.Data, entry); err != nil {
		return nil, err
	}
	if entry.Index != e.Index {
		return nil, fmt.Errorf("the entry says that it is %d", entry.Index)
	}
	return entry, nil
}
