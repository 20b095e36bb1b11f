package controller

import "slices"

// complete ends a running reassignment if the target ISR allows it (PartitionReassignmentReplicas): every replica that
// is added is in the ISR and somebody stays in it. If more leave than come, all that stay must be in the ISR: fewer
// replicas must not mean fewer copies of what is acknowledged.
func (c *change) complete() {
	if len(c.adding) == 0 && len(c.removing) == 0 {
		return
	}
	isr, replicas := without(c.isr, c.removing...), without(c.replicas, c.removing...)
	required := c.adding
	if len(c.adding) < len(c.removing) {
		required = replicas
	}
	if len(isr) == 0 || !containsAll(isr, required) {
		return
	}
	c.isr, c.replicas, c.adding, c.removing = isr, replicas, nil, nil
}

func containsAll(list, wanted []int32) bool {
	return !slices.ContainsFunc(wanted, func(id int32) bool { return !slices.Contains(list, id) })
}
