package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// source is one stream, and what it has shown of the node that serves it.
type source struct {
	*following
	addr    string
	since   time.Time
	silence silence
	// assembly is a snapshot that is arriving, nil if there is none.
	assembly *assembly
	// reviewed is when the choice of this source was last thought over.
	reviewed time.Time
}

// recv waits for the next message. Only then the silence counts: while the caller works the source cannot be heard.
func (s *source) recv(_ context.Context, stream grpc.ServerStreamingClient[controllerv1.FollowResponse]) (*controllerv1.FollowResponse, error) {
	s.silence.listen()
	msg, err := stream.Recv()
	s.silence.stop()
	if err != nil {
		return nil, refusalOr(err)
	}
	return msg, nil
}

// take hands a message to the caller.
func (s *source) take(ctx context.Context, msg *controllerv1.FollowResponse) error {
	switch kind := msg.GetKind().(type) {
	case *controllerv1.FollowResponse_Entry:
		if s.assembly != nil {
			return errors.New("an entry came within a snapshot")
		}
		if err := s.cfg.Entry(kind.Entry); err != nil {
			return fmt.Errorf("take entry at metadata offset %d: %w", kind.Entry.GetFirstMetadataOffset(), err)
		}
		s.worked()
		return nil
	case *controllerv1.FollowResponse_Beat:
		return s.takeBeat(ctx, kind.Beat)
	case *controllerv1.FollowResponse_SnapshotBegin:
		return s.beginSnapshot(kind.SnapshotBegin)
	case *controllerv1.FollowResponse_SnapshotBytes:
		if s.assembly == nil {
			return errors.New("a piece of a snapshot came without its beginning")
		}
		return s.assembly.add(kind.SnapshotBytes.GetData())
	case *controllerv1.FollowResponse_SnapshotEnd:
		return s.endSnapshot()
	default:
		return nil // a newer source may say more than this client knows
	}
}

// worked notes that the stream does what it is for.
func (s *source) worked() {
	s.pause.reset()
	clear(s.refused)
	delete(s.shunned, s.addr)
}

func (s *source) beginSnapshot(begin *controllerv1.SnapshotBegin) error {
	if s.assembly != nil {
		return errors.New("a snapshot began within a snapshot")
	}
	a, err := newAssembly(begin)
	s.assembly = a
	return err
}

func (s *source) endSnapshot() error {
	a := s.assembly
	if a == nil {
		return errors.New("a snapshot ended that had not begun")
	}
	s.assembly = nil
	img, err := a.finish()
	if err != nil {
		return err
	}
	if err := s.cfg.Snapshot(img); err != nil {
		return fmt.Errorf("take snapshot at metadata offset %d: %w", img.NextOffset(), err)
	}
	s.worked()
	return nil
}

// takeBeat tells the caller, and thinks over whether to stay.
func (s *source) takeBeat(ctx context.Context, beat *controllerv1.Beat) error {
	active := beat.GetActiveController()
	if active != "" {
		s.client.learn(active)
	}
	if s.cfg.Beat != nil {
		s.cfg.Beat(beat)
	}
	if !beat.GetBehind() && s.assembly == nil {
		s.worked()
	}
	if s.assembly != nil || time.Since(s.since) < reviewEvery && !beat.GetBehind() || time.Since(s.reviewed) < reviewEvery {
		return nil
	}
	s.reviewed = time.Now()
	return s.review(ctx, beat)
}

// review returns errMove if another source is better.
func (s *source) review(ctx context.Context, beat *controllerv1.Beat) error {
	age := time.Duration(beat.GetLeaderContactAgeMs()) * time.Millisecond
	lost := age < 0 || age > contactMax
	if lost || beat.GetBehind() {
		if better := s.better(ctx, beat); better != "" {
			return s.move(better)
		}
		return nil
	}
	active := beat.GetActiveController()
	if active != "" && active != s.addr && !s.isShunned(active) && s.isActive(ctx, active) {
		return s.move(active)
	}
	return nil
}

func (s *source) move(to string) error {
	s.want = to
	return errMove
}

// isActive asks a node whether it is active: a hint may be old, or name an address that cannot be reached from here.
func (s *source) isActive(ctx context.Context, addr string) bool {
	st, err := s.client.probeOnce(ctx, addr)
	if err != nil || !st.GetActive() {
		s.shunned[addr] = time.Now().Add(shunFor)
		return false
	}
	return true
}

// better looks among the other nodes for one that hears the leader and has what the caller needs.
func (s *source) better(ctx context.Context, beat *controllerv1.Beat) string {
	_, next := s.cfg.Position()
	others := s.client.addresses()
	answers := make(chan string, len(others))
	asked := 0
	for _, addr := range others {
		if addr == s.addr {
			continue
		}
		asked++
		go func() {
			st, err := s.client.probeOnce(ctx, addr)
			if err != nil || !serves(st, next, beat) {
				addr = ""
			}
			answers <- addr
		}()
	}
	for range asked {
		if addr := <-answers; addr != "" {
			return addr
		}
	}
	return ""
}

// serves tells whether a node is a better source than the one that sent beat, for a caller that needs next.
func serves(st *quorumv1.StatusResponse, next int64, beat *controllerv1.Beat) bool {
	if st.GetFrozen() != "" || st.GetNextMetadataOffset() < next {
		return false
	}
	age := st.GetLeaderContactAgeMs()
	if st.GetActive() {
		return true
	}
	heard := age >= 0 && time.Duration(age)*time.Millisecond <= contactMax
	return heard && (beat.GetBehind() || beat.GetLeaderContactAgeMs() < 0 || age < beat.GetLeaderContactAgeMs())
}
