package brokerd

import (
	"fmt"

	"github.com/skiffmq/skiff/brokerd/lifecycle"
	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
)

// Status is what a broker knows of itself at one moment.
type Status struct {
	// NodeID is the broker id; ClusterID is empty before the first contact with a quorum.
	NodeID    int32
	ClusterID string
	// BrokerEpoch of the registration, -1 before it.
	BrokerEpoch int64
	State       lifecycle.State
	// HeardBy is the controller epoch of the last heartbeat's answer, 0 before the first.
	HeardBy int64
	// Fenced as the broker's image has it, true if the image does not know the broker.
	Fenced bool
	// Image is the metadata that every part of the broker has acted on, nil before the first; Applied is its offset.
	Image   *fsm.Image
	Applied int64
	// Frozen and Alarm say why the image stands still or is doubted; empty while all is well.
	Frozen, Alarm string
	// Replicas are the figures of the replica manager.
	Replicas replica.Stats
	// Ready tells whether the broker serves, NotReady why it does not.
	Ready    bool
	NotReady string
	// Address of the first listener.
	Address string
}

// Status may be called from any goroutine and does not wait.
func (b *Broker) Status() Status {
	life := b.session.now()
	s := Status{
		NodeID: b.cfg.NodeID, ClusterID: b.client.ClusterID(), BrokerEpoch: life.Epoch, State: life.State, Fenced: true,
		Image: b.metadata.AppliedImage(), Applied: b.metadata.Applied(), Replicas: b.replicas.Stats(), Address: b.bound[0].Addr().String(),
	}
	if s.Image != nil {
		s.ClusterID = s.Image.ClusterID()
		if me, ok := s.Image.Broker(b.cfg.NodeID); ok && me.IncarnationID == b.incarnation {
			s.Fenced = me.Fenced
		}
	}
	s.HeardBy = b.session.lastHeardBy()
	s.Frozen, s.Alarm = text(b.metadata.Frozen()), text(b.metadata.Alarm())
	s.NotReady = s.notReady()
	s.Ready = s.NotReady == ""
	return s
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// notReady is why the broker does not serve, or serves what it should not be trusted with.
func (s Status) notReady() string {
	switch {
	case s.Frozen != "":
		return s.Frozen
	case s.Alarm != "":
		return s.Alarm
	case s.BrokerEpoch < 0:
		return "not registered with the controller"
	case s.State != lifecycle.StateRunning:
		return fmt.Sprintf("state is %s", s.State)
	case s.Fenced:
		return "fenced"
	default:
		return ""
	}
}
