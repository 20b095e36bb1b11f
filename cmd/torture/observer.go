package torture

import (
	"context"
	"sync"

	"github.com/skiffmq/skiff/cmd/admin"
	"github.com/skiffmq/skiff/cmd/skiff/up"
	"github.com/skiffmq/skiff/cmd/verify"
)

// observer asks every node again and again what it holds.
type observer struct {
	system  *system
	running sync.WaitGroup

	// mu guards watch.
	mu    sync.Mutex
	watch *verify.Watch
}

func newObserver(s *system) *observer { return &observer{system: s, watch: verify.NewWatch()} }

// start looks until ctx ends. A node that is down or frozen holds up nobody else.
func (o *observer) start(ctx context.Context) {
	for _, n := range o.system.nodes {
		o.running.Go(func() {
			for ctx.Err() == nil {
				o.look(ctx, n)
				rest(ctx, lull)
			}
		})
	}
}

// violations are what was found, once every look is over, and the number of looks.
func (o *observer) violations() ([]verify.Violation, int) {
	o.running.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.watch.Violations(), o.watch.Sightings()
}

// look asks one node. What a broker tells of partitions counts only if one process stands behind both of its statuses.
func (o *observer) look(ctx context.Context, n up.Node) {
	before, err := o.system.cluster.Status(n.Name)
	if err != nil {
		return // it is down or frozen
	}
	o.see(n.Name, before)
	if n.Role != up.Broker {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	topic, err := o.system.views[n.Name].Topic(ctx, o.system.topic)
	if err != nil {
		return
	}
	after, err := o.system.cluster.Status(n.Name)
	if err != nil || after.PID != before.PID {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range topic.Partitions {
		o.watch.SeeLeader(verify.Leadership{
			Broker: n.Name, PID: after.PID, Topic: topic.TopicID, Partition: p.Partition, LeaderEpoch: p.LeaderEpoch, Leader: p.Leader,
		})
	}
}

func (o *observer) see(name string, s admin.Status) {
	seen := verify.Sighting{
		Node: name, PID: s.PID, Lineage: s.Lineage.Number, LineageUUID: s.Lineage.UUID, Offset: s.MetadataOffset,
		ControllerEpoch: s.ControllerEpoch, Digest: s.Digest, BrokerEpoch: -1,
	}
	if s.BrokerStatus != nil {
		seen.BrokerEpoch = s.BrokerEpoch
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watch.See(seen)
}
