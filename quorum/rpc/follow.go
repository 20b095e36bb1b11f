package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	metadatav1 "github.com/skiffmq/skiff/proto/metadata/v1"
	"github.com/skiffmq/skiff/quorum/feed"
)

const (
	// maxFollowers bounds the follow streams of a node.
	maxFollowers = 1024
	// beatEvery is the pause between beats.
	beatEvery = 500 * time.Millisecond
	// maxFollowerName bounds the name in logs.
	maxFollowerName = 128
)

// metadataService tells the metadata to those who follow. See MetadataService in follow.proto.
type metadataService struct {
	controllerv1.UnimplementedMetadataServiceServer
	Deps
	// slots holds one token for each follower.
	slots chan struct{}
}

// Follow judges where the follower stands, and then tells it everything from there on.
func (s *metadataService) Follow(req *controllerv1.FollowRequest, stream grpc.ServerStreamingServer[controllerv1.FollowResponse]) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		return s.refuse(controllerv1.ErrorCode_ERROR_CODE_OVERLOADED, "%d followers are served already", maxFollowers)
	}
	at, err := positionOf(req)
	if err != nil {
		return s.refuse(controllerv1.ErrorCode_ERROR_CODE_INVALID_REQUEST, "%v", err)
	}
	f := &follower{metadataService: s, position: at, out: newSender(stream)}
	defer f.out.close()
	name := req.GetFollower()
	if len(name) > maxFollowerName {
		name = name[:maxFollowerName]
	}
	s.Logger.Debug("follower connected", "follower", name, "lineage", at.lineage, "next", at.next)
	err = f.run(stream.Context())
	s.Logger.Debug("follower left", "follower", name, "next", f.next, "reason", err)
	return err
}

// position is where a follower stands.
type position struct {
	// lineage is zero if the follower has none yet.
	lineage fsm.LineageID
	// next is the metadata offset that it needs.
	next int64
}

func positionOf(req *controllerv1.FollowRequest) (position, error) {
	if req.GetLineage() == nil {
		return position{}, nil
	}
	lineage, err := lineageOf(req.GetLineage())
	return position{lineage: lineage, next: req.GetNextMetadataOffset()}, err
}

func lineageOf(l *metadatav1.LineageID) (fsm.LineageID, error) {
	uuid, err := fsm.UUIDFromBytes(l.GetUuid())
	if err != nil {
		return fsm.LineageID{}, fmt.Errorf("lineage uuid: %w", err)
	}
	return fsm.LineageID{Number: l.GetNumber(), UUID: uuid}, nil
}

// course is what is done for a follower next.
type course int

const (
	courseStream course = iota
	courseSnapshot
	courseHold
	courseRefuse
)

// judge chooses the course for a follower at a position, by an image that has a claim.
func judge(img *fsm.Image, at position) course {
	own := img.Lineage()
	switch {
	case at.lineage.IsZero():
		return courseSnapshot
	case at.lineage == own.ID && at.next > img.NextOffset():
		return courseHold // it knows more of this lineage than this node does
	case at.lineage == own.ID:
		return courseStream
	case own.Descends(at.lineage):
		return courseSnapshot
	}
	return courseRefuse
}

// follower is one follow stream. Its memory is bounded: one message at a time.
type follower struct {
	*metadataService
	position
	out      *sender
	lastBeat time.Time
}

// run serves the follower until its stream ends, or until this node may not serve any longer.
func (f *follower) run(ctx context.Context) error {
	for {
		img, err := f.sound()
		if err != nil {
			return err
		}
		switch judge(img, f.position) {
		case courseStream:
			err = f.stream(ctx)
		case courseSnapshot:
			err = f.snapshot(ctx)
		case courseHold:
			err = f.hold(ctx)
		case courseRefuse:
			return f.refuse(controllerv1.ErrorCode_ERROR_CODE_LINEAGE_BEHIND,
				"the follower's lineage %s is no ancestor of this node's lineage %s", f.lineage, img.Lineage().ID)
		}
		if errors.Is(err, feed.ErrTooOld) {
			err = f.snapshot(ctx)
		}
		if err != nil && !errors.Is(err, feed.ErrReset) {
			return err
		}
	}
}

// sound returns the image to serve, or why nobody is served here.
func (f *follower) sound() (*fsm.Image, error) {
	if fault := f.Node.Fault(); fault != "" {
		return nil, f.refuse(controllerv1.ErrorCode_ERROR_CODE_FROZEN, "this node serves no metadata: %s", fault)
	}
	img := f.Feed.Image()
	if img == nil {
		return nil, f.refuse(controllerv1.ErrorCode_ERROR_CODE_UNFORMATTED, "this node has no metadata yet")
	}
	if _, claimed := img.Claim(); !claimed {
		return nil, f.refuse(controllerv1.ErrorCode_ERROR_CODE_NOT_CONTROLLER, "no claim of lineage %s has been applied on this node yet", img.Lineage().ID)
	}
	return img, nil
}

// stream sends entries as they take effect, with beats between.
func (f *follower) stream(ctx context.Context) error {
	cursor := f.Feed.Cursor(f.next)
	for {
		entry, changed, err := cursor.TryNext()
		switch {
		case err != nil:
			return err
		case entry != nil:
			err = f.sendEntry(ctx, entry)
			f.next = cursor.Offset()
		default:
			err = f.wait(ctx, changed)
		}
		if err != nil {
			return err
		}
	}
}

// sendEntry sends an entry, and a beat with it if it is a claim or a beat is due.
func (f *follower) sendEntry(ctx context.Context, entry *controllerv1.EntryApplied) error {
	err := f.out.send(ctx, &controllerv1.FollowResponse{Kind: &controllerv1.FollowResponse_Entry{Entry: entry}})
	if err != nil {
		return err
	}
	if claim := f.Feed.Image().ClaimOffset(); claim == entry.GetFirstMetadataOffset() || f.beatIn() <= 0 {
		return f.beat(ctx)
	}
	return nil
}

// wait waits for news, or for the time to beat.
func (f *follower) wait(ctx context.Context, changed <-chan struct{}) error {
	timer := time.NewTimer(max(f.beatIn(), 0))
	defer timer.Stop()
	select {
	case <-changed:
		return nil
	case <-timer.C:
		return f.beat(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *follower) beatIn() time.Duration { return beatEvery - time.Since(f.lastBeat) }

// beat tells the follower that its source lives and how good it is. A source that is no longer sound says nothing more.
func (f *follower) beat(ctx context.Context) error {
	img, err := f.sound()
	if err != nil {
		return err
	}
	age := f.Node.LeaderContactAge().Milliseconds()
	if age < 0 {
		age = -1
	}
	f.lastBeat = time.Now()
	return f.out.send(ctx, &controllerv1.FollowResponse{Kind: &controllerv1.FollowResponse_Beat{Beat: &controllerv1.Beat{
		NextMetadataOffset: img.NextOffset(),
		ControllerEpoch:    img.ControllerEpoch(),
		LeaderContactAgeMs: age,
		Behind:             img.Lineage().ID == f.lineage && f.next > img.NextOffset(),
		ActiveController:   f.Node.ActiveController(),
	}}})
}

// hold waits until this node has caught up with the follower. The follower hears from the beats that it should go.
func (f *follower) hold(ctx context.Context) error {
	for {
		changed := f.Feed.Changed()
		if img := f.Feed.Image(); img == nil || judge(img, f.position) != courseHold {
			return nil
		}
		if err := f.wait(ctx, changed); err != nil {
			return err
		}
	}
}

// snapshot sends the shared snapshot. The feed keeps what follows it meanwhile.
func (f *follower) snapshot(ctx context.Context) error {
	s, err := f.encoded(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	begin := &controllerv1.SnapshotBegin{Lineage: s.Lineage.Proto(), NextMetadataOffset: s.Next, SizeBytes: s.Size()}
	if err := f.out.send(ctx, &controllerv1.FollowResponse{Kind: &controllerv1.FollowResponse_SnapshotBegin{SnapshotBegin: begin}}); err != nil {
		return err
	}
	for _, chunk := range s.Chunks() {
		piece := &controllerv1.SnapshotBytes{Data: chunk}
		if err := f.out.send(ctx, &controllerv1.FollowResponse{Kind: &controllerv1.FollowResponse_SnapshotBytes{SnapshotBytes: piece}}); err != nil {
			return err
		}
	}
	if err := f.out.send(ctx, &controllerv1.FollowResponse{Kind: &controllerv1.FollowResponse_SnapshotEnd{SnapshotEnd: &controllerv1.SnapshotEnd{}}}); err != nil {
		return err
	}
	f.lineage, f.next = s.Lineage, s.Next
	return nil
}

// encoded waits for the shared snapshot, and beats meanwhile: a large image takes its time.
func (f *follower) encoded(ctx context.Context) (*feed.Snapshot, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		s   *feed.Snapshot
		err error
	}
	ready := make(chan result)
	go func() {
		s, err := f.Feed.Snapshot(ctx)
		select {
		case ready <- result{s, err}:
		case <-ctx.Done(): // nobody waits for it any longer
			if s != nil {
				s.Release()
			}
		}
	}()
	for {
		timer := time.NewTimer(max(f.beatIn(), 0))
		select {
		case r := <-ready:
			timer.Stop()
			if r.err != nil {
				return nil, f.status(r.err)
			}
			return r.s, nil
		case <-timer.C:
			if err := f.beat(ctx); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}
