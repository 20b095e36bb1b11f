package controller

import (
	"math"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// placement is where one partition begins.
type placement struct {
	replicas []int32
	isr      []int32
}

// placements places every partition of a topic, by hand or automatically.
func (c *creation) placements(t *controllerv1.CreatableTopic) ([]placement, *controllerv1.Error) {
	if len(t.GetAssignments()) > 0 {
		return c.manual(t)
	}
	partitions, factor := t.GetNumPartitions(), t.GetReplicationFactor()
	switch {
	case factor < -1 || factor == 0 || factor > math.MaxInt16:
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR,
			"replication factor %d: it must be from 1 to %d, or -1 for the default", factor, math.MaxInt16)
	case partitions < -1 || partitions == 0:
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_PARTITIONS,
			"%d partitions: there must be at least 1, or -1 for the default", partitions)
	}
	if factor == -1 {
		factor = c.env.Defaults.ReplicationFactor
	}
	if partitions == -1 {
		partitions = c.env.Defaults.NumPartitions
	}
	return c.automatic(int(partitions), int(factor))
}

func (c *creation) automatic(partitions, factor int) ([]placement, *controllerv1.Error) {
	p := newPlacer(c.img, c.env.Rand)
	if err := p.check(factor); err != nil {
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR, "%s", err)
	}
	out := make([]placement, partitions)
	for i := range out {
		replicas := p.place(factor)
		out[i] = placement{replicas: replicas, isr: c.activeOf(replicas)}
		if len(out[i].isr) == 0 {
			return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR, "none of the brokers %v is up", replicas)
		}
	}
	return out, nil
}

// activeOf keeps the brokers that are up, in their order: the ISR that a new partition begins with.
func (c *creation) activeOf(replicas []int32) []int32 {
	up := active(c.img)
	isr := make([]int32, 0, len(replicas))
	for _, id := range replicas {
		if up(id) {
			isr = append(isr, id)
		}
	}
	return isr
}

// manual takes the placement from the request.
func (c *creation) manual(t *controllerv1.CreatableTopic) ([]placement, *controllerv1.Error) {
	if t.GetReplicationFactor() != -1 || t.GetNumPartitions() != -1 {
		return nil, itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
			"with assignments, the replication factor (%d) and the number of partitions (%d) must be -1",
			t.GetReplicationFactor(), t.GetNumPartitions())
	}
	byID := map[int32]placement{}
	factor := 0
	for _, a := range t.GetAssignments() {
		if _, twice := byID[a.GetPartitionId()]; twice {
			return nil, badAssignment("partition %d is assigned twice", a.GetPartitionId())
		}
		if err := c.checkAssignment(a, factor); err != nil {
			return nil, err
		}
		factor = len(a.GetBrokerIds())
		byID[a.GetPartitionId()] = placement{replicas: a.GetBrokerIds(), isr: c.activeOf(a.GetBrokerIds())}
	}
	out := make([]placement, len(byID))
	for i := range out {
		p, ok := byID[int32(i)] //nolint:gosec // MaxPartitionsPerRequest bounds it
		if !ok {
			return nil, badAssignment("%d partitions are assigned, and partition %d is not among them; they must be 0 to %d", len(byID), i, len(byID)-1)
		}
		out[i] = p
	}
	return out, nil
}

func badAssignment(format string, args ...any) *controllerv1.Error {
	return itemError(controllerv1.ErrorCode_ERROR_CODE_INVALID_REPLICA_ASSIGNMENT, format, args...)
}

// checkAssignment judges one partition's list. Fenced brokers may be replicas, as long as one broker is up.
func (c *creation) checkAssignment(a *controllerv1.ReplicaAssignment, factor int) *controllerv1.Error {
	ids := a.GetBrokerIds()
	if len(ids) == 0 {
		return badAssignment("partition %d is assigned to no broker", a.GetPartitionId())
	}
	seen := map[int32]bool{}
	for _, id := range ids {
		if _, ok := c.img.Broker(id); !ok {
			return badAssignment("partition %d is assigned to broker %d, which is not registered", a.GetPartitionId(), id)
		}
		if seen[id] {
			return badAssignment("partition %d is assigned to broker %d twice", a.GetPartitionId(), id)
		}
		seen[id] = true
	}
	if factor != 0 && len(ids) != factor {
		return badAssignment("partition %d is assigned to %d brokers, the partitions before it to %d", a.GetPartitionId(), len(ids), factor)
	}
	if len(c.activeOf(ids)) == 0 {
		return badAssignment("none of the brokers %v of partition %d is up", ids, a.GetPartitionId())
	}
	return nil
}
