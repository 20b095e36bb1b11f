package fsm

import (
	"strconv"

	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
)

func brokerName(id int32) string { return "broker " + strconv.Itoa(int(id)) }

func controllerName(id int32) string { return "controller " + strconv.Itoa(int(id)) }

// registerBroker folds a registration. A new incarnation gets the metadata offset of this very record as its
// epoch and begins fenced; the same incarnation amends its registration and keeps epoch and state, unless its epoch is
// one of an earlier lineage and void.
func (f *fold) registerBroker(r *metadatav1.RegisterBroker) error {
	b, err := brokerFromRecord(r)
	if err != nil {
		return violation(0, brokerName(r.GetBrokerId()), "%v", err)
	}
	old, _ := f.img.brokers.Get(b.ID)
	if old != nil && old.IncarnationID == b.IncarnationID && old.Epoch != VoidEpoch {
		if b.Epoch != old.Epoch || b.Fenced != old.Fenced || b.InControlledShutdown != old.InControlledShutdown {
			return violation(19, brokerName(b.ID), "the same incarnation registers with epoch %d, fenced %t, in controlled shutdown %t, but has %d, %t, %t",
				b.Epoch, b.Fenced, b.InControlledShutdown, old.Epoch, old.Fenced, old.InControlledShutdown)
		}
	} else if b.Epoch != f.img.nextOffset || !b.Fenced || b.InControlledShutdown {
		return violation(19, brokerName(b.ID), "a new incarnation registers at metadata offset %d with epoch %d, fenced %t, in controlled shutdown %t",
			f.img.nextOffset, b.Epoch, b.Fenced, b.InControlledShutdown)
	}
	f.setBroker(b.ID, b)
	return nil
}

func (f *fold) unregisterBroker(r *metadatav1.UnregisterBroker) error {
	// A void registration can be removed: its broker may never come back.
	if b, ok := f.img.brokers.Get(r.GetBrokerId()); !ok || b.Epoch != r.GetBrokerEpoch() || b.Epoch != VoidEpoch {
		if _, err := f.registered(r.GetBrokerId(), r.GetBrokerEpoch()); err != nil {
			return err
		}
	}
	f.setBroker(r.GetBrokerId(), nil)
	return nil
}

func (f *fold) brokerRegistrationChange(r *metadatav1.BrokerRegistrationChange) error {
	old, err := f.registered(r.GetBrokerId(), r.GetBrokerEpoch())
	if err != nil {
		return err
	}
	if r.Fenced == nil && r.InControlledShutdown == nil && r.Directories == nil {
		return violation(0, brokerName(old.ID), "the change states nothing")
	}
	b := *old
	if r.Fenced != nil {
		b.Fenced = r.GetFenced()
	}
	if r.InControlledShutdown != nil {
		if old.InControlledShutdown && !r.GetInControlledShutdown() {
			return violation(19, brokerName(old.ID), "leaves controlled shutdown without a new incarnation")
		}
		b.InControlledShutdown = r.GetInControlledShutdown()
	}
	if r.Directories != nil {
		list, err := directoriesFromProto(r.GetDirectories().GetUuids())
		if err != nil {
			return violation(0, brokerName(old.ID), "%v", err)
		}
		b.Directories = list
	}
	f.setBroker(b.ID, &b)
	return nil
}

// registered returns the registration with this epoch; a stale epoch is refused, never guessed at (I19).
func (f *fold) registered(id int32, epoch int64) (*Broker, error) {
	b, ok := f.img.brokers.Get(id)
	if !ok {
		return nil, violation(19, brokerName(id), "is not registered")
	}
	if b.Epoch == VoidEpoch {
		return nil, violation(19, brokerName(id), "was registered by an earlier lineage and must register again")
	}
	if b.Epoch != epoch {
		return nil, violation(19, brokerName(id), "broker epoch is %d, the record names %d", b.Epoch, epoch)
	}
	return b, nil
}

// setBroker replaces a registration, nil removes it.
func (f *fold) setBroker(id int32, b *Broker) {
	old, _ := f.img.brokers.Get(id)
	if _, seen := f.brokers[id]; !seen {
		put(&f.brokers, id, old)
	}
	if old != nil {
		f.remove(old.sum())
		if !old.Fenced && (b == nil || b.Fenced) {
			f.touched.fenced = append(f.touched.fenced, id)
		}
	}
	if b == nil {
		f.img.brokers = f.img.brokers.Delete(id)
		return
	}
	f.add(b.sum())
	f.img.brokers = f.img.brokers.Set(id, b)
}

func (f *fold) controllerRegistered(r *metadatav1.ControllerRegistered) error {
	n, err := controllerFromRecord(r)
	if err != nil {
		return violation(0, controllerName(r.GetNodeId()), "%v", err)
	}
	if old, ok := f.img.controllers.Get(n.ID); ok {
		f.remove(old.sum())
	}
	f.add(n.sum())
	f.img.controllers = f.img.controllers.Set(n.ID, n)
	put(&f.controllers, n.ID, struct{}{})
	return nil
}

// controllerClaimed opens a claim. Whatever the guard said, the controller epoch never falls (I6).
func (f *fold) controllerClaimed(r *metadatav1.ControllerClaimed) error {
	if !f.claimAllowed {
		return violation(2, "claim", "ControllerClaimed stands alone in its entry, without the fields that a claimant cannot know")
	}
	claim, err := claimFromRecord(r)
	if err != nil {
		return violation(0, "claim", "%v", err)
	}
	if f.controllerEpoch < f.img.controllerEpoch || f.controllerEpoch <= f.img.epochBase {
		return violation(6, "claim", "controller epoch %d after %d, with epoch base %d", f.controllerEpoch, f.img.controllerEpoch, f.img.epochBase)
	}
	f.img.claim = claim
	f.img.claimOffset = f.img.nextOffset
	f.img.controllerEpoch = f.controllerEpoch
	f.claimed = true
	return nil
}
