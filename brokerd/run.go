package brokerd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/skiffmq/skiff/brokerd/kafka"
	"github.com/skiffmq/skiff/brokerd/lifecycle"
	"github.com/skiffmq/skiff/brokerd/metadata"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

// running are the goroutines of one Run.
type running struct {
	// failed has room for every goroutine: the first error ends the broker.
	failed chan error
	// stopSession and stopMetadata end those two, which outlive the rest: until the logs are closed the controller
	// hears of us and we of the metadata.
	stopSession, stopMetadata context.CancelFunc
	session, metadata         sync.WaitGroup
	servers                   sync.WaitGroup
}

func (b *Broker) start(ctx context.Context) *running {
	r := &running{failed: make(chan error, len(b.bound)+3)}
	report := func(err error) {
		if err != nil {
			r.failed <- err
		}
	}
	sessionCtx, stopSession := context.WithCancel(ctx)
	metadataCtx, stopMetadata := context.WithCancel(ctx)
	r.stopSession, r.stopMetadata = stopSession, stopMetadata
	for _, l := range b.bound {
		r.servers.Go(func() {
			if err := b.server.Serve(l.advertised.GetName(), l.Listener); !errors.Is(err, kafka.ErrServerClosed) {
				report(fmt.Errorf("serve: %w", err))
			}
		})
	}
	r.metadata.Go(func() { report(b.refuseMetadata(b.metadata.Run(metadataCtx))) })
	r.session.Go(func() { report(b.session.run(sessionCtx)) })
	r.session.Go(func() { b.reports.run(sessionCtx) })
	go func() {
		select {
		case err := <-b.replicas.Failures():
			report(err)
		case <-ctx.Done():
		}
	}()
	b.logger.Info("broker started", "node_id", b.cfg.NodeID, "incarnation", b.incarnation, "directory", b.meta.directory,
		"address", b.bound[0].Addr().String(), "metadata_offset", b.metadata.Applied(), "clean", b.previousEpoch >= 0)
	return r
}

// handOver asks the controller for a controlled shutdown and waits until it lets us go, or for long enough.
func (b *Broker) handOver(r *running) error {
	if !b.cfg.ControlledShutdown {
		b.session.update(lifecycle.Life.WaitedEnough)
		return nil
	}
	b.session.update(lifecycle.Life.Stop)
	timeout := time.NewTimer(b.cfg.ControlledShutdownTimeout)
	defer timeout.Stop()
	select {
	case <-b.session.stopped:
	case err := <-r.failed:
		return err
	case <-timeout.C:
		b.logger.Warn("the controller did not let the broker go in time; stopping all the same", "waited", b.cfg.ControlledShutdownTimeout)
		b.session.update(lifecycle.Life.WaitedEnough)
	}
	return nil
}

// stop ends everything in the order in which nothing is lost. The clean marker is left only if all of it worked.
func (b *Broker) stop(r *running, end context.CancelFunc, failed error) error {
	drain, cancel := context.WithTimeout(context.Background(), serverDrain)
	defer cancel()
	if err := b.server.Shutdown(drain); err != nil {
		b.logger.Warn("clients were cut off", "error", err)
	}
	r.servers.Wait()
	err := errors.Join(failed, b.replicas.Close())
	r.stopMetadata()
	r.metadata.Wait()
	if epoch := b.session.epoch(); err == nil && epoch >= 0 {
		err = leaveCleanStop(b.cfg.Dir, epoch)
	}
	b.leave(r, failed)
	end()
	if err = errors.Join(err, b.release()); err == nil {
		b.logger.Info("broker stopped")
	}
	return err
}

// die ends everything at once.
func (b *Broker) die(r *running, end context.CancelFunc) error {
	end()
	cut, cancel := context.WithCancel(context.Background())
	cancel()
	_ = b.server.Shutdown(cut) // it says that clients were cut off, which is what was asked for
	b.replicas.Abandon()
	r.servers.Wait()
	r.session.Wait()
	r.metadata.Wait()
	return errors.Join(ErrKilled, b.release())
}

// leave ends the session, with a goodbye if the broker had the time to hand over.
func (b *Broker) leave(r *running, failed error) {
	if failed != nil || b.session.epoch() < 0 {
		r.stopSession()
	}
	close(b.session.leaving)
	cut := time.AfterFunc(2*goodbyeTimeout, r.stopSession)
	r.session.Wait()
	cut.Stop()
	r.stopSession()
}

// registration says who this process is. The cluster id is pinned on disk first: a broker that registered belongs
// to that cluster for ever.
func (b *Broker) registration(ctx context.Context) (*controllerv1.RegisterRequest, error) {
	for b.client.ClusterID() == "" {
		if !pause(ctx, clusterIDPoll) {
			return nil, ctx.Err()
		}
	}
	if err := b.meta.pin(b.client.ClusterID()); err != nil {
		return nil, err
	}
	req := &controllerv1.RegisterRequest{
		ClusterId: b.meta.ClusterID, BrokerId: b.cfg.NodeID, IncarnationId: b.incarnation.Bytes(), PreviousBrokerEpoch: b.previousEpoch,
		Directories: [][]byte{b.meta.directory.Bytes()},
		Features:    fsm.FeaturesProto(fsm.Supported()),
	}
	if b.cfg.HasRack {
		req.Rack = &b.cfg.Rack
	}
	for _, l := range b.bound {
		req.Listeners = append(req.Listeners, l.advertised)
	}
	return req, nil
}

// clusterIDPoll is how often a broker without a cluster looks whether its metadata follower has heard of one.
const clusterIDPoll = 10 * time.Millisecond

// followQuorum feeds the metadata follower.
func (b *Broker) followQuorum(ctx context.Context, f *metadata.Follower) error {
	return b.client.Follow(ctx, client.FollowConfig{
		Name:     fmt.Sprintf("broker %d", b.cfg.NodeID),
		Position: f.Position,
		Snapshot: func(img *fsm.Image) error { return b.heard(f.Snapshot(img)) },
		Entry:    func(e *controllerv1.EntryApplied) error { return b.heard(f.Entry(e)) },
		Beat: func(beat *controllerv1.Beat) {
			before := f.ControllerEpoch()
			if f.Beat(beat); f.ControllerEpoch() > before {
				b.session.nudge()
			}
		},
	})
}

// heard lets the controller know at once how far we are, while it waits for that to unfence us or to let us go.
func (b *Broker) heard(err error) error {
	if b.session.now().Eager() {
		b.session.nudge()
	}
	return err
}

// metadataChanged gives the metadata to the replicas from the moment on when it holds our own registration. Before,
// it may be older than this process, and nothing is touched on its strength (I22).
func (b *Broker) metadataChanged(d *fsm.Delta, img *fsm.Image) {
	if d.Claimed {
		b.hearClaim(d, img)
	}
	if b.applying && img.Lineage().ID == b.lineage {
		b.replicas.Apply(d, img)
		return
	}
	if b.applying {
		b.followLineage(img)
		return
	}
	me, ok := img.Broker(b.cfg.NodeID)
	if !ok || me.IncarnationID != b.incarnation {
		return
	}
	b.applying = true
	b.session.update(lifecycle.Life.CaughtUp)
	b.applyWhole(img)
	b.session.update(lifecycle.Life.NowReady)
}

// followLineage goes on in a lineage that continues ours: the quorum was restored or recovered. Our registration is of
// the last lineage and void, and so are all roles; every log stays.
func (b *Broker) followLineage(img *fsm.Image) {
	b.logger.Warn("the metadata goes on in another lineage: every role ends, every log stays, this broker registers again",
		"from", b.lineage, "to", img.Lineage().ID, "metadata_offset", img.AppliedOffset(), "confirmed", img.Confirmed())
	b.session.update(lifecycle.Life.Stale)
	b.applyWhole(img)
}

// applyWhole gives the replicas the first image of a lineage.
func (b *Broker) applyWhole(img *fsm.Image) {
	empty, err := metadata.EmptyLike(img)
	if err != nil {
		b.logger.Error("the metadata cannot be applied", "error", err)
		return
	}
	b.lineage = img.Lineage().ID
	b.replicas.Apply(fsm.Diff(empty, img), img)
}

// hearClaim has the session go on at the controller that has just claimed, with a full heartbeat. A claim that is
// repeated within its epoch is the same controller's barrier and means nothing here. Claims that may be older than this
// process say nothing of who is active.
func (b *Broker) hearClaim(d *fsm.Delta, img *fsm.Image) {
	if img.ControllerEpoch() == b.claimEpoch {
		return
	}
	b.claimEpoch = img.ControllerEpoch()
	if claim, ok := img.Claim(); ok && b.applying && !d.Snapshot {
		if c, ok := img.Controller(claim.NodeID); ok && len(c.Listeners) > 0 {
			b.client.Claimed(c.Listeners[0].Address())
		}
	}
	b.session.nudge()
}

// adoptCommand shows what an adoption would do.
func (b *Broker) adoptCommand() string {
	return fmt.Sprintf("skiff broker adopt --data-dir %s --controllers %s --dry-run", b.cfg.Dir, strings.Join(b.cfg.Controllers, ","))
}

// refuseMetadata turns what must not be followed into a refusal with the next step.
func (b *Broker) refuseMetadata(err error) error {
	var foreign *metadata.ForeignLineageError
	var cluster *metadata.ClusterError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &foreign):
		return &RefusedError{Cause: foreign.Error(), Fix: "correct controller.quorum.bootstrap.servers; or let this broker follow that lineage: " + b.adoptCommand(), Err: err}
	case errors.As(err, &cluster):
		return &RefusedError{Cause: cluster.Error(), Fix: "correct controller.quorum.bootstrap.servers, or set log.dirs to a directory of that cluster", Err: err}
	case errors.Is(err, metadata.ErrUnsupportedVersion):
		return &RefusedError{Cause: err.Error(), Fix: "start the newer version again", Err: err}
	case client.CodeOf(err) == controllerv1.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID:
		return &RefusedError{Cause: err.Error(), Fix: "correct controller.quorum.bootstrap.servers, or set log.dirs to a directory of that cluster", Err: err}
	case client.CodeOf(err) == controllerv1.ErrorCode_ERROR_CODE_LINEAGE_BEHIND:
		return &RefusedError{Cause: fmt.Sprintf("no quorum node knows this broker's lineage: %v", err), Fix: "correct controller.quorum.bootstrap.servers; or let this broker follow that lineage: " + b.adoptCommand(), Err: err}
	default:
		return err
	}
}
