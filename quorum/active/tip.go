package active

import (
	"github.com/skiffmq/skiff/fsm"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

// tip is the image that the next decision sees: what was applied when the claim was opened, and everything that was
// decided since. It lives as long as the claim.
type tip struct {
	epoch       int64
	claimOffset int64
	// image is never published: it may hold what is never committed.
	image *fsm.Image

	// staged batches are folded into image and not proposed yet, in order.
	staged      []staged
	stagedBytes int
	// flights are proposed and not answered yet, in order.
	flights     []*flight
	flightBytes int
	// held were decided on image and wait for the next entry, whatever is in it. Invariant: nothing is staged.
	held held
}

// held are decisions that wrote nothing and whose answers wait for an entry that is proposed after them.
type held struct {
	decisions []*decided
	// bytes is the size of their requests.
	bytes int
}

// take empties it.
func (h *held) take() []*decided {
	all := h.decisions
	*h = held{}
	return all
}

// staged is a batch that waits for its entry.
type staged struct {
	batch *metadatav1.Batch
	size  int
	// before and after are the tip around the batch.
	before *fsm.Image
	after  *fsm.Image
	// owner made the batch; last says that it is the owner's last one.
	owner *decided
	last  bool
	// riders changed nothing themselves, and were decided when this was the newest batch.
	riders []*decided
}

// flight is an entry that was proposed.
type flight struct {
	id          uint64
	epoch       int64
	claimOffset int64
	first       int64
	bytes       int
	// after is the tip after the entry.
	after *fsm.Image
	// owners have batches in the entry, each once; those in waiters have their last one here, or rode on it.
	owners  []*decided
	waiters []*decided
	// barriers are answered with the image after the entry.
	barriers []*Op
}

// decided is a request whose decision was made in the open claim.
type decided struct {
	// ops are answered with the decision: the request and its retries.
	ops     []*Op
	outcome Outcome
	// writes tells that the decision made batches; begun that one took effect, lost that one never will, done that all
	// of them did.
	writes bool
	begun  bool
	lost   bool
	done   bool
	// unknown counts the entries with its batches that were handed to the log and whose outcome is not known yet.
	unknown int
}

// hasRoom tells whether another entry may be proposed.
func (t *tip) hasRoom(depth int) bool {
	return len(t.flights) < depth && t.flightBytes+fsm.MaxEntryBytes <= MaxInFlightBytes
}

// stage adds a decision's batches.
func (t *tip) stage(parts []staged) {
	for _, p := range parts {
		t.stagedBytes += p.size + batchOverhead
	}
	t.staged = append(t.staged, parts...)
	t.image = parts[len(parts)-1].after
}

// ride makes d wait for everything that it was decided on. It returns false when all of that is applied already.
func (t *tip) ride(d *decided) bool {
	switch {
	case len(t.staged) > 0:
		last := &t.staged[len(t.staged)-1]
		last.riders = append(last.riders, d)
	case len(t.flights) > 0:
		last := t.flights[len(t.flights)-1]
		last.waiters = append(last.waiters, d)
	default:
		return false
	}
	return true
}

// hold makes d wait for an entry that is yet to be proposed.
func (t *tip) hold(d *decided, size int) {
	if len(t.staged) > 0 {
		t.ride(d)
		return
	}
	t.held.decisions = append(t.held.decisions, d)
	t.held.bytes += size
}

// launch takes as many staged batches as fit an entry of that many bytes, at least one, and makes a flight of them.
func (t *tip) launch(id uint64, entryBytes int) (*flight, []*metadatav1.Batch) {
	f := &flight{id: id, epoch: t.epoch, claimOffset: t.claimOffset, first: t.staged[0].before.NextOffset()}
	var batches []*metadatav1.Batch
	for _, s := range t.staged {
		if len(batches) > 0 && f.bytes+s.size+batchOverhead > entryBytes {
			break
		}
		f.bytes += s.size + batchOverhead
		batches = append(batches, s.batch)
		if n := len(f.owners); n == 0 || f.owners[n-1] != s.owner {
			f.owners = append(f.owners, s.owner)
			s.owner.unknown++
		}
		if s.last {
			f.waiters = append(f.waiters, s.owner)
		}
		f.waiters = append(f.waiters, s.riders...)
		f.after = s.after
	}
	t.staged = append([]staged(nil), t.staged[len(batches):]...)
	t.stagedBytes -= f.bytes
	t.flights = append(t.flights, f)
	t.flightBytes += f.bytes
	return f, batches
}

// land removes the first n entries in flight and returns them.
func (t *tip) land(n int) []*flight {
	landed := t.flights[:n:n]
	t.flights = append([]*flight(nil), t.flights[n:]...)
	for _, f := range landed {
		t.flightBytes -= f.bytes
	}
	return landed
}

// rebase replaces the tip by the equal image that was applied, once nothing else is on its way: the two share less
// memory with every entry.
func (t *tip) rebase(applied *fsm.Image) {
	if len(t.flights) == 0 && len(t.staged) == 0 {
		t.image = applied
	}
}
