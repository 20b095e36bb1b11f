package quorum

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// machine is what Raft sees of the fold. Its methods but image, fault and their like run on Raft's FSM goroutine (and,
// before Raft starts, on the goroutine that opens the node), one at a time. Nothing in them waits: a fold that blocks
// would block Raft's main goroutine behind it, while heartbeats go on.
type machine struct {
	logger hclog.Logger
	// clusterID and lineage are the node's; a snapshot of another is not restored.
	clusterID string
	lineage   fsm.LineageID
	// published is told of each entry that took effect, observed of each entry, restored after each restore. They do
	// not block, and are set before Raft starts.
	published func(*controllerv1.EntryApplied, *fsm.Image)
	observed  func(fsm.Result, *metadatav1.Envelope)
	restored  func(*fsm.Image)
	// froze is called once when the image freezes.
	froze func()

	image   atomic.Pointer[fsm.Image] // never nil once Raft has started
	fault   atomic.Pointer[fault]     // nil while the image is sound
	index   atomic.Uint64             // of the last entry that was consumed
	dropped atomic.Uint64             // entries that failed the guard
}

// fault is why the image is not to be trusted.
type fault struct {
	// frozen: an entry passed the guard and did not fold (I3); the image stays what it was before it. Otherwise the
	// digest was not the one that the controller decided on (I1), and the image goes on.
	frozen bool
	err    error
}

// Error says what is wrong.
func (f *fault) Error() string { return f.err.Error() }

var _ raft.BatchingFSM = (*machine)(nil)

// ApplyBatch folds committed entries in order. The answer to an entry is its fsm.Result.
func (m *machine) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	for i, log := range logs {
		answers[i] = m.Apply(log)
	}
	return answers
}

// Apply folds one committed entry. Raft calls it when it recovers a cluster, ApplyBatch otherwise.
func (m *machine) Apply(log *raft.Log) any {
	m.index.Store(log.Index)
	if log.Type != raft.LogCommand {
		return nil
	}
	img := m.image.Load()
	if f := m.fault.Load(); f != nil && f.frozen {
		return fsm.Result{Outcome: fsm.Broken, Image: img, Err: f.err}
	}
	envelope, err := fsm.DecodeEnvelope(log.Data)
	if err != nil {
		return m.freeze(log, fsm.Result{Outcome: fsm.Broken, Image: img, Err: err})
	}
	result := fsm.Apply(img, fsm.Entry{Envelope: envelope, ControllerEpoch: img.EpochBase() + int64(log.Term)})
	m.settle(log, envelope, &result)
	return result
}

// settle makes the outcome of a fold the node's.
func (m *machine) settle(log *raft.Log, envelope *metadatav1.Envelope, result *fsm.Result) {
	switch result.Outcome {
	case fsm.Applied:
		m.image.Store(result.Image)
		if result.Alarm != nil {
			m.alarm(log, result.Alarm)
		}
		m.published(&controllerv1.EntryApplied{
			FirstMetadataOffset: result.FirstOffset,
			ControllerEpoch:     result.ControllerEpoch,
			Envelope:            log.Data,
		}, result.Image)
		m.observed(*result, envelope)
	case fsm.Dropped:
		m.dropped.Add(1)
		m.logger.Info("dropped an entry of the metadata log", "index", log.Index, "term", log.Term, "reason", result.Mismatch)
		m.observed(*result, envelope)
	case fsm.Broken:
		*result = m.freeze(log, *result)
	}
}

// freeze keeps the image as it is for good; entries are consumed without it.
func (m *machine) freeze(log *raft.Log, result fsm.Result) fsm.Result {
	result.Err = fmt.Errorf("I3: entry %d of term %d passed the guard and does not fold: %w", log.Index, log.Term, result.Err)
	m.fault.Store(&fault{frozen: true, err: result.Err})
	m.logger.Error("the image is frozen: this node serves no metadata any more", "error", result.Err,
		"metadata-offset", result.Image.AppliedOffset())
	m.froze()
	return result
}

// alarm is raised once; the fold goes on, so that the node's digest can be compared with the others'.
func (m *machine) alarm(log *raft.Log, mismatch *fsm.Mismatch) {
	err := fmt.Errorf("I1: the digest before entry %d of term %d: %w", log.Index, log.Term, mismatch)
	if m.fault.CompareAndSwap(nil, &fault{err: err}) {
		m.logger.Error("this node's image is not the controller's: it serves no metadata any more", "error", err,
			"metadata-offset", m.image.Load().AppliedOffset())
	}
}

// Snapshot takes the image as it is: a pointer. It is refused while the image is not to be trusted, so that a fault
// never becomes the state that everybody starts from.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if f := m.fault.Load(); f != nil {
		return nil, fmt.Errorf("no snapshot of an image that is not to be trusted: %w", f)
	}
	return &imageSnapshot{image: m.image.Load()}, nil
}

// Restore reads a snapshot aside and then puts it in the image's place.
func (m *machine) Restore(r io.ReadCloser) error {
	img, err := fsm.ReadSnapshot(r)
	if err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	if img.ClusterID() != m.clusterID || img.Lineage().ID != m.lineage {
		return fmt.Errorf("the snapshot is of cluster %s, lineage %s; this node is of cluster %s, lineage %s",
			img.ClusterID(), img.Lineage().ID, m.clusterID, m.lineage)
	}
	if old := m.image.Load(); old != nil && img.NextOffset() < old.NextOffset() {
		return fmt.Errorf("I6: the snapshot ends at metadata offset %d, the image is at %d already", img.AppliedOffset(), old.AppliedOffset())
	}
	m.image.Store(img)
	if f := m.fault.Swap(nil); f != nil {
		m.logger.Info("the image was replaced by a snapshot and is sound again", "fault", f)
	}
	m.restored(img)
	return nil
}

// imageSnapshot is a snapshot that is about to be written: an image never changes, so it is only a pointer.
type imageSnapshot struct{ image *fsm.Image }

// Persist writes the image; raft closes the sink, or cancels it when this fails.
func (s *imageSnapshot) Persist(sink raft.SnapshotSink) error {
	if err := fsm.WriteSnapshot(s.image, sink); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}

// Release has nothing to release.
func (s *imageSnapshot) Release() {}
