package fsm

import "slices"

// LocalChanges is what a delta means for one broker (KRaft's TopicsDelta.localChanges).
type LocalChanges struct {
	// Deleted replicas are not the broker's any more: the topic is gone, or the broker is not among the replicas.
	Deleted []LocalPartition
	// Led partitions changed and are led by the broker, Followed ones changed and are led by another or by none.
	Led, Followed []LocalPartition
}

// LocalPartition is one of these changes.
type LocalPartition struct {
	Topic     UUID
	Name      string
	Partition int32
	// Old and New states; Old is nil when the partition did not exist, New when it does not any more.
	Old, New *Partition
	// NewLeaderEpoch says that the leader epoch is one that the broker has not seen: it changed, or the broker was
	// no replica before.
	NewLeaderEpoch bool
}

// Local returns what the delta means for one broker. A topic that was deleted and created again under its name
// shows as both, since its id is another.
func (d *Delta) Local(broker int32) LocalChanges {
	var c LocalChanges
	for i := range d.Topics {
		t := &d.Topics[i]
		for j := range t.Partitions {
			c.add(broker, t, &t.Partitions[j])
		}
	}
	return c
}

func (c *LocalChanges) add(broker int32, t *TopicDelta, p *PartitionDelta) {
	was := p.Old != nil && slices.Contains(p.Old.Replicas, broker)
	is := p.New != nil && slices.Contains(p.New.Replicas, broker)
	l := LocalPartition{Topic: t.ID, Name: t.Name, Partition: p.Partition, Old: p.Old, New: p.New}
	switch {
	case was && !is:
		c.Deleted = append(c.Deleted, l)
	case !is, was && p.Old.PartitionEpoch == p.New.PartitionEpoch:
	default:
		l.NewLeaderEpoch = !was || p.Old.LeaderEpoch != p.New.LeaderEpoch
		if p.New.Leader == broker {
			c.Led = append(c.Led, l)
		} else {
			c.Followed = append(c.Followed, l)
		}
	}
}
