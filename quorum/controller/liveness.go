package controller

import (
	"maps"
	"math"
	"time"

	"github.com/skiffmq/skiff/fsm"
)

// unknownOffset stands for a metadata offset that was not reported yet.
const unknownOffset int64 = -1

// Liveness is what the active controller knows about brokers without writing it down. It has no lock: its owner guards
// it, and a decision gets either the owner's protection or a [Liveness.Clone].
type Liveness struct {
	sessionTimeout time.Duration
	// since is when this controller began to listen. A broker that was never heard counts as heard then.
	since   time.Time
	brokers map[int32]contact
}

// contact is the last news of one incarnation of a broker.
type contact struct {
	brokerEpoch int64
	last        time.Time
	// granted tells that last is no news of the broker: a new controller counts it as heard.
	granted bool
	// metadataOffset is the highest that the incarnation reported. An incarnation never unlearns.
	metadataOffset int64
	// shutdownOffset is the metadata offset that every active broker must have applied before the broker may stop;
	// unknownOffset while no controlled shutdown was seen by this controller.
	shutdownOffset int64
}

// NewLiveness makes an empty state. A broker that is silent for longer than sessionTimeout has expired.
func NewLiveness(sessionTimeout time.Duration) *Liveness {
	return &Liveness{sessionTimeout: sessionTimeout, brokers: map[int32]contact{}}
}

// SessionTimeout is the silence that a broker is granted.
func (l *Liveness) SessionTimeout() time.Duration { return l.sessionTimeout }

// Clone returns a copy that can be read while the original is written.
func (l *Liveness) Clone() *Liveness {
	c := *l
	c.brokers = maps.Clone(l.brokers)
	return &c
}

// Touch notes that broker id was heard at now, in brokerEpoch, having applied metadataOffset (-1 for none). The time is
// that of the arrival, not of any later processing; it should carry Go's monotonic reading, as time.Now does.
// News of an older broker epoch than the one already heard is ignored: it comes from a process that was replaced.
func (l *Liveness) Touch(id int32, brokerEpoch, metadataOffset int64, now time.Time) {
	c, ok := l.brokers[id]
	switch {
	case ok && brokerEpoch < c.brokerEpoch:
		return
	case !ok || brokerEpoch > c.brokerEpoch:
		c = contact{brokerEpoch: brokerEpoch, metadataOffset: unknownOffset, shutdownOffset: unknownOffset}
	}
	c.last, c.granted = now, false
	c.metadataOffset = max(c.metadataOffset, metadataOffset)
	l.brokers[id] = c
}

// Forget drops what is known about broker id.
func (l *Liveness) Forget(id int32) { delete(l.brokers, id) }

// Reset begins anew, as a controller does that has just opened its claim: every unfenced broker counts as heard now and
// has a full session before it, and no reported offset is known.
func (l *Liveness) Reset(img *fsm.Image, now time.Time) {
	l.since = now
	clear(l.brokers)
	for b := range img.Brokers() {
		if !b.Fenced {
			l.brokers[b.ID] = contact{
				brokerEpoch: b.Epoch, last: now, granted: true, metadataOffset: unknownOffset, shutdownOffset: unknownOffset,
			}
		}
	}
}

// Grant gives every broker that is known a full session from now on, as after a stall of the controller itself.
func (l *Liveness) Grant(now time.Time) {
	l.since = now
	for id, c := range l.brokers {
		if now.After(c.last) {
			c.last = now
			l.brokers[id] = c
		}
	}
}

// LastContact tells when broker id was last heard.
func (l *Liveness) LastContact(id int32) (time.Time, bool) {
	c, ok := l.brokers[id]
	return c.last, ok
}

// clears tells whether the broker was heard, in its epoch or a later one, so that the suspicion is wrong.
func (l *Liveness) clears(s *Suspicion) bool {
	c, ok := l.brokers[s.BrokerID]
	switch {
	case !ok || c.brokerEpoch < s.BrokerEpoch:
		return false
	case c.brokerEpoch > s.BrokerEpoch:
		return true
	case s.AfterClaim:
		return !c.granted
	}
	return c.last.After(s.Since)
}

// Alive tells whether broker id was heard in exactly brokerEpoch within the session timeout.
func (l *Liveness) Alive(id int32, brokerEpoch int64, now time.Time) bool {
	c, ok := l.brokers[id]
	return ok && c.brokerEpoch == brokerEpoch && now.Sub(c.last) <= l.sessionTimeout
}

// Overdue tells by how much broker b has missed its session; it is negative while the session lasts.
func (l *Liveness) Overdue(b *fsm.Broker, now time.Time) time.Duration {
	last := l.since
	if c, ok := l.brokers[b.ID]; ok && c.brokerEpoch == b.Epoch {
		last = c.last
	}
	return now.Sub(last) - l.sessionTimeout
}

// Expired lists the unfenced brokers whose sessions are over, by id. A clock that goes back expires nobody.
func (l *Liveness) Expired(img *fsm.Image, now time.Time) []int32 {
	var ids []int32
	for b := range img.Brokers() {
		if !b.Fenced && l.Overdue(b, now) > 0 {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// LowestActiveOffset is the smallest metadata offset that an active broker last reported, -1 while one of them has
// not reported to this controller, and the greatest integer when no broker is active.
func (l *Liveness) LowestActiveOffset(img *fsm.Image) int64 {
	lowest := int64(math.MaxInt64)
	for b := range img.Brokers() {
		if !b.Active() {
			continue
		}
		offset := unknownOffset
		if c, ok := l.brokers[b.ID]; ok && c.brokerEpoch == b.Epoch {
			offset = c.metadataOffset
		}
		lowest = min(lowest, offset)
	}
	return lowest
}

// ControlledShutdownOffset is the metadata offset that every active broker must have applied before broker id may stop.
func (l *Liveness) ControlledShutdownOffset(id int32) (int64, bool) {
	c, ok := l.brokers[id]
	return c.shutdownOffset, ok && c.shutdownOffset != unknownOffset
}

// SetControlledShutdownOffset sets that offset, the first time only: a later change of metadata must not keep a broker
// from stopping for ever. It lasts until the broker is fenced or comes back in another incarnation.
func (l *Liveness) SetControlledShutdownOffset(id int32, offset int64) {
	if c, ok := l.brokers[id]; ok && c.shutdownOffset == unknownOffset {
		c.shutdownOffset = offset
		l.brokers[id] = c
	}
}

// ClearControlledShutdownOffset forgets that offset, because the broker was fenced.
func (l *Liveness) ClearControlledShutdownOffset(id int32) {
	if c, ok := l.brokers[id]; ok {
		c.shutdownOffset = unknownOffset
		l.brokers[id] = c
	}
}
