package quorum

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/skiffmq/skiff/fsm"
)

// DiskState is what the disk of a stopped quorum node holds.
type DiskState struct {
	// SnapshotIndex and SnapshotTerm are those of the snapshot that the log continues, SnapshotOffset its metadata offset.
	SnapshotIndex, SnapshotTerm uint64
	SnapshotOffset              int64
	// LastIndex and LastTerm are those of the last entry that was read.
	LastIndex, LastTerm uint64
	// Image holds everything: the snapshot and all entries of the log after it that take effect.
	Image *fsm.Image
	// Committed holds what a majority of the quorum certainly has. What Image has beyond it may be on this disk alone. It was
	// never told to anybody as done unless a majority has it.
	Committed *fsm.Image
	// Unknown is the number of entries beyond Committed.
	Unknown int
	// Trouble is why the rest of the disk could not be read; nil when all of it was.
	Trouble error
}

// ReadDisk reads the metadata from the data directory of a quorum node that is stopped, and changes nothing there. A node that
// runs is ErrDirectoryInUse; it cannot be started meanwhile.
func ReadDisk(dir string) (*DiskState, error) {
	unlock, err := holdStopped(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	d, err := readNewestSnapshot(filepath.Join(dir, raftDirName, "snapshots"))
	if err != nil {
		return nil, err
	}
	r := &diskReader{DiskState: d, next: d.SnapshotIndex + 1}
	d.Trouble = errors.Join(d.Trouble, ReadLog(dir, r.next, r.entry))
	return d, nil
}

// holdStopped makes sure that no process owns the directory, by a lock that any number of readers may have.
func holdStopped(dir string) (unlock func(), err error) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil // a copy of a directory has none
	}
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is locked", ErrDirectoryInUse, f.Name())
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}

// snapshotDir is the directory of one of Raft's snapshots: <term>-<index>-<milliseconds>.
type snapshotDir struct {
	name        string
	term, index uint64
	ms          int64
}

// readNewestSnapshot reads the newest snapshot that can be read back. It does not go through Raft's own store, which writes
// into the directory when it opens it.
func readNewestSnapshot(dir string) (*DiskState, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the snapshots: %w", err)
	}
	var list []snapshotDir
	for _, e := range entries {
		s := snapshotDir{name: e.Name()}
		if n, err := fmt.Sscanf(s.name, "%d-%d-%d", &s.term, &s.index, &s.ms); err == nil && n == 3 && fmt.Sprintf("%d-%d-%d", s.term, s.index, s.ms) == s.name {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b snapshotDir) int {
		return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.index, b.index), cmp.Compare(a.ms, b.ms))
	})
	var faults error
	for _, s := range slices.Backward(list) {
		img, err := readSnapshotFile(filepath.Join(dir, s.name, "state.bin"))
		if err != nil {
			faults = errors.Join(faults, err)
			continue
		}
		return &DiskState{
			SnapshotIndex: s.index, SnapshotTerm: s.term, SnapshotOffset: img.AppliedOffset(),
			LastIndex: s.index, LastTerm: s.term, Image: img, Committed: img, Trouble: faults,
		}, nil
	}
	if faults == nil {
		return nil, fmt.Errorf("%s holds no snapshot; every node has at least the one that its init wrote", dir)
	}
	return nil, faults
}

func readSnapshotFile(path string) (*fsm.Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	img, err := fsm.ReadSnapshot(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return img, nil
}

// diskReader folds a log and sees what of it is certainly committed: a controller decides an entry only after the entries
// before it, but for the last entriesInFlight, have taken effect on it. So an entry of a claim shows that the one before it in
// the same claim, or the claim itself, is committed. A claim shows nothing: it is written by whoever wins a term.
type diskReader struct {
	*DiskState
	next uint64
	// latest are the images after the last entries of the present claim, oldest first, at most entriesInFlight+1.
	latest []*fsm.Image
}

// entry takes in the next entry of the log.
func (r *diskReader) entry(e LogEntry) error {
	if e.Index != r.next {
		return fmt.Errorf("missing [%d,%d]: the log goes on with entry %d", r.next, e.Index-1, e.Index)
	}
	r.next++
	if e.Kind == "LogCommand" {
		if err := r.fold(e); err != nil {
			return fmt.Errorf("entry %d of term %d: %w", e.Index, e.Term, err)
		}
	}
	r.LastIndex, r.LastTerm = e.Index, e.Term
	return nil
}

func (r *diskReader) fold(e LogEntry) error {
	envelope, err := fsm.DecodeEnvelope(e.Data)
	if err != nil {
		return err
	}
	claim := r.Image.ClaimOffset()
	result := fsm.Apply(r.Image, fsm.Entry{Envelope: envelope, ControllerEpoch: r.Image.EpochBase() + int64(e.Term)})
	switch result.Outcome {
	case fsm.Broken:
		return fmt.Errorf("it passes the guard and does not fold: %w", result.Err)
	case fsm.Dropped:
		return nil
	case fsm.Applied:
	}
	r.Image = result.Image
	r.Unknown++
	if r.Image.ClaimOffset() != claim {
		r.latest = r.latest[:0]
	}
	r.latest = append(r.latest, r.Image)
	if len(r.latest) > entriesInFlight {
		r.Committed = r.latest[len(r.latest)-1-entriesInFlight]
		r.Unknown = entriesInFlight
		r.latest = slices.Delete(r.latest, 0, len(r.latest)-entriesInFlight)
	}
	return nil
}
