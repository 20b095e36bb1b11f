package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

const (
	// silenceMax is how long a source may say nothing. Beats come every 500 ms.
	silenceMax = 3 * time.Second
	// silenceWorries is the silence after which others are asked who is active: a beat is late. The quorum's members take
	// about as long to notice.
	silenceWorries = 700 * time.Millisecond
	// contactMax is how old the source's contact with the quorum's leader may be before a better source is looked for.
	contactMax = 3 * time.Second
	// reviewEvery is how often the choice of the source is thought over.
	reviewEvery = time.Second
)

// FollowConfig is how a caller is kept up to date. The functions are called by one goroutine, one at a time.
type FollowConfig struct {
	// Name of the caller in the logs of its source, for example "broker 2".
	Name string
	// Position returns where the caller stands: its lineage, zero for none, and the metadata offset that it needs next.
	// It is asked at the beginning of each stream.
	Position func() (fsm.LineageID, int64)
	// Snapshot replaces the caller's image.
	Snapshot func(*fsm.Image) error
	// Entry folds one entry. Entries come in order and without a gap, but for a snapshot between.
	Entry func(*controllerv1.EntryApplied) error
	// Beat says that the source lives; nil if the caller does not care. It is also called with Behind set.
	Beat func(*controllerv1.Beat)
}

// Follow keeps the caller up to date until ctx ends, and returns its error. It returns an *Error before that only where
// no source can help: INCONSISTENT_CLUSTER_ID, or LINEAGE_BEHIND when every known node says so. An error of Snapshot or
// Entry ends the stream; the next one begins at the caller's Position.
func (c *Client) Follow(ctx context.Context, cfg FollowConfig) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	f := &following{client: c, cfg: cfg, refused: map[string]error{}, shunned: map[string]time.Time{}}
	for ctx.Err() == nil {
		addr := f.choose()
		err := f.follow(ctx, addr)
		if ctx.Err() != nil {
			break
		}
		if final := f.left(addr, err); final != nil {
			return final
		}
		if errors.Is(err, errMove) {
			f.wantMoved(err)
			continue
		}
		f.pause.wait(ctx, nil)
	}
	if c.life.Err() != nil {
		return ErrClosed
	}
	return context.Cause(ctx)
}

// errMove ends a stream because another source is to be preferred.
var errMove = errors.New("another source is better")

// following is a caller of Follow. One goroutine owns it.
type following struct {
	client *Client
	cfg    FollowConfig
	pause  pause

	// want is the source to take next, "" for the usual choice.
	want string
	// turn counts the choices, so that each known source has its turn when none is believed to be active.
	turn int
	// refused holds the nodes that do not know the caller's lineage, since a stream last worked.
	refused map[string]error
	// shunned are the sources that failed, until when.
	shunned map[string]time.Time
}

// shunFor is how long a source that failed is not preferred.
const shunFor = 2 * time.Second

// choose picks the next source: the one that is wanted, the active controller, or the next that did not just fail.
func (f *following) choose() string {
	if addr := f.want; addr != "" {
		f.want = ""
		return addr
	}
	if active := f.client.ActiveController(); active != "" && !f.isShunned(active) {
		return active
	}
	known := f.client.addresses()
	for range known {
		f.turn++
		if addr := known[f.turn%len(known)]; !f.isShunned(addr) {
			return addr
		}
	}
	f.turn++
	return known[f.turn%len(known)]
}

func (f *following) isShunned(addr string) bool {
	until, ok := f.shunned[addr]
	if ok && time.Now().After(until) {
		delete(f.shunned, addr)
		ok = false
	}
	return ok
}

// left draws the consequences of the end of a stream. It returns an error if no source can help.
func (f *following) left(addr string, err error) error {
	f.client.cfg.Logger.Debug("left a source of the metadata", "address", addr, "reason", err)
	if !errors.Is(err, errMove) {
		f.client.disbelieve(addr)
		if len(f.shunned) < maxAddresses {
			f.shunned[addr] = time.Now().Add(shunFor)
		}
	}
	var e *Error
	if !errors.As(err, &e) {
		return nil
	}
	if e.ActiveController != "" {
		f.client.learn(e.ActiveController)
	}
	if e.Code == controllerv1.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID {
		return e
	}
	if e.Code != controllerv1.ErrorCode_ERROR_CODE_LINEAGE_BEHIND {
		return nil
	}
	f.refused[addr] = e
	for _, known := range f.client.addresses() {
		if f.refused[known] == nil {
			return nil // this one may be behind itself
		}
	}
	return e
}

// follow takes one stream from one source until it ends. The error says why.
func (f *following) follow(ctx context.Context, addr string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &source{following: f, addr: addr, since: time.Now(), silence: newSilence(ctx, cancel, &seeker{client: f.client, addr: addr})}
	defer s.silence.stop()
	stream, err := f.open(ctx, addr)
	if err != nil {
		return causeOr(ctx, err)
	}
	defer func() {
		if s.assembly != nil {
			s.assembly.abort()
		}
	}()
	for {
		msg, err := s.recv(ctx, stream)
		if err == nil {
			err = s.take(ctx, msg)
		}
		if err != nil {
			return causeOr(ctx, err)
		}
	}
}

// open begins a stream at the caller's position.
func (f *following) open(ctx context.Context, addr string) (grpc.ServerStreamingClient[controllerv1.FollowResponse], error) {
	conn, err := f.client.pool.get(addr)
	if err != nil {
		return nil, err
	}
	req := &controllerv1.FollowRequest{Follower: f.cfg.Name}
	if lineage, next := f.cfg.Position(); !lineage.IsZero() {
		req.Lineage, req.NextMetadataOffset = lineage.Proto(), next
	}
	stream, err := controllerv1.NewMetadataServiceClient(conn).Follow(ctx, req)
	if err != nil {
		return nil, refusalOr(err)
	}
	header, err := stream.Header()
	if err != nil {
		return nil, refusalOr(err)
	}
	return stream, f.client.checkHeader(addr, header)
}

func refusalOr(err error) error {
	if e := refusalIn(err); e != nil {
		return e
	}
	return err
}

func causeOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && CodeOf(err) == controllerv1.ErrorCode_ERROR_CODE_UNSPECIFIED {
		return cause
	}
	return err
}

// silence ends a stream whose source says nothing while it is listened to.
type silence struct {
	ends, worries *time.Timer
}

func newSilence(ctx context.Context, leave context.CancelCauseFunc, other *seeker) silence {
	return silence{
		ends: time.AfterFunc(silenceMax, func() {
			leave(fmt.Errorf("the source said nothing for %s", silenceMax))
		}),
		worries: time.AfterFunc(silenceWorries, func() { other.seek(ctx, leave) }),
	}
}

func (s silence) listen() {
	s.ends.Reset(silenceMax)
	s.worries.Reset(silenceWorries)
}

func (s silence) stop() {
	s.ends.Stop()
	s.worries.Stop()
}
