package brokerd

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/skiffmq/skiff/brokerd/replica"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

const (
	// reportDelay lets changes that come together go into one report.
	reportDelay = 50 * time.Millisecond
	// reportPause is the least time between two reports: a burst of deletions is told a few times, not for each topic.
	reportPause = time.Second
	// reportRetry is the pause after a report that was not taken.
	reportRetry = 500 * time.Millisecond
	// reportTimeout ends an attempt whose answer does not come.
	reportTimeout = 30 * time.Second
)

// inventoryDesk is what the reporter needs of quorum/client.
type inventoryDesk interface {
	ReportInventory(ctx context.Context, brokerID int32, brokerEpoch, metadataOffset int64, replicas []*controllerv1.ReplicaInventory) error
}

// reporter tells the controller which logs this broker holds: once for each registration and each claim, and again when
// partitions newly await inventories or the strays change. It has its own goroutine, so that neither heartbeats nor the
// metadata wait for it, however much there is to tell.
type reporter struct {
	desk   inventoryDesk
	nodeID int32
	logger hclog.Logger
	// occasion tells what a report would be about now; false while there is nobody to report to.
	occasion func() (occasion, bool)
	// gather lists the logs.
	gather func(also func(fsm.PartitionID) bool) ([]*controllerv1.ReplicaInventory, error)

	// poke has room for one: there may be something new.
	poke chan struct{}

	// run: owned by its goroutine. What the last report that was taken was about.
	said occasion
}

// occasion is what makes a report due: whenever it differs from the one of the last report.
type occasion struct {
	// brokerEpoch is the registration that reports.
	brokerEpoch int64
	// controllerEpoch is the claim that is reported to; it forgets with its end what it was told.
	controllerEpoch int64
	// generation of the inventory.
	generation uint64
	// img is the metadata that the roles stand by.
	img *fsm.Image
}

func (o occasion) same(p occasion) bool {
	return o.brokerEpoch == p.brokerEpoch && o.controllerEpoch == p.controllerEpoch && o.generation == p.generation
}

func (b *Broker) newReporter() *reporter {
	return &reporter{
		desk: b.client, nodeID: b.cfg.NodeID, logger: b.logger.Named("inventory"), poke: make(chan struct{}, 1),
		occasion: func() (occasion, bool) {
			return reportOccasion(b.cfg.NodeID, b.session.epoch(), b.session.lastHeardBy(), b.replicas.InventoryState())
		},
		gather: func(also func(fsm.PartitionID) bool) ([]*controllerv1.ReplicaInventory, error) {
			return b.replicas.Inventory(also)
		},
	}
}

// reportOccasion tells whether a report would count: the controller that hears our heartbeats is of the lineage that the
// roles stand by, and so is our registration. Before that a log may still have grown after it was looked at.
func reportOccasion(nodeID int32, epoch, heardBy int64, state replica.InventoryState) (occasion, bool) {
	if epoch < 0 || state.Image == nil || heardBy <= state.Image.EpochBase() {
		return occasion{}, false
	}
	me, ok := state.Image.Broker(nodeID)
	if !ok || me.Epoch != epoch {
		return occasion{}, false
	}
	return occasion{brokerEpoch: epoch, controllerEpoch: heardBy, generation: state.Generation, img: state.Image}, true
}

// nudge has the reporter look whether a report is due. It does not wait.
func (r *reporter) nudge() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// run reports until ctx ends.
func (r *reporter) run(ctx context.Context) {
	for {
		select {
		case <-r.poke:
		case <-ctx.Done():
			return
		}
		wait := reportDelay
		for pending := true; pending; {
			if !pause(ctx, wait) {
				return
			}
			pending, wait = r.report(ctx)
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// report sends a report if one is due. It tells whether it has to be sent again, and how long to wait before anything
// else is sent.
func (r *reporter) report(ctx context.Context) (pending bool, wait time.Duration) {
	now, ok := r.occasion()
	if !ok || now.same(r.said) {
		return false, 0
	}
	list, err := r.gather(lateIn(now.img, r.nodeID))
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, reportTimeout)
		defer cancel()
		err = r.desk.ReportInventory(ctx, r.nodeID, now.brokerEpoch, now.img.NextOffset(), list)
	}
	if err != nil {
		if ctx.Err() == nil {
			r.logger.Warn("the controller has not taken the inventory; it is sent again", "replicas", len(list), "error", err)
		}
		return true, reportRetry
	}
	r.said = now
	r.logger.Debug("inventory reported", "replicas", len(list), "broker_epoch", now.brokerEpoch, "controller_epoch", now.controllerEpoch, "metadata_offset", now.img.AppliedOffset())
	return false, reportPause
}

// lateIn tells which partitions got a leader without this broker's report, which is still wanted: it says what that cost.
func lateIn(img *fsm.Image, nodeID int32) func(fsm.PartitionID) bool {
	late := map[fsm.PartitionID]bool{}
	for id, e := range img.RecoveryElections() {
		late[id] = replica.LateIn(e, nodeID)
	}
	return func(id fsm.PartitionID) bool { return late[id] }
}
