package quorum

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
	"github.com/skiffmq/skiff/quorum/history"
)

// Bounds of one answer (I20).
const (
	// historyReadersMax is how many requests are read for at a time: each folds entries anew.
	historyReadersMax = 2
	// historyEventsMax and historyBytesMax bound the events of an answer; the newest are kept.
	historyEventsMax = 10_000
	historyBytesMax  = 16 << 20
	// historyChangesMax bounds the changes of one event: the loss of a broker changes every partition that it led.
	historyChangesMax = 1000
)

// historyService answers out of the node's own history.
type historyService struct {
	quorumv1.UnimplementedHistoryServiceServer
	m       *member
	readers chan struct{}
}

// History reads from the moment that is asked for to the end, and sends the newest events of those that are asked for.
func (s *historyService) History(req *quorumv1.HistoryRequest, stream grpc.ServerStreamingServer[quorumv1.HistoryResponse]) error {
	select {
	case s.readers <- struct{}{}:
		defer func() { <-s.readers }()
	default:
		return refusal(codes.ResourceExhausted, controllerv1.ErrorCode_ERROR_CODE_OVERLOADED,
			fmt.Sprintf("node %d reads its history for %d callers already", s.m.self.NodeID, historyReadersMax), "")
	}
	l, err := s.m.readHistory(stream.Context())
	if err != nil {
		return err
	}
	a, err := newHistoryAnswer(stream.Context(), l, req)
	if err != nil {
		return s.m.historyRefusal(err)
	}
	if err := l.Walk(stream.Context(), a.from, a.visit); err != nil {
		return s.m.historyRefusal(err)
	}
	return a.send(s.m.self.NodeID, l, stream)
}

// historyAnswer gathers the newest events of a request.
type historyAnswer struct {
	filter      history.Filter
	from, until int64 // metadata offsets; until is the next one
	newest      int

	parts   []*quorumv1.HistoryResponse // events and gaps, oldest first
	bytes   int
	next    int64 // behind the last entry
	leftOut int64
}

func newHistoryAnswer(ctx context.Context, l *history.Log, req *quorumv1.HistoryRequest) (*historyAnswer, error) {
	a := &historyAnswer{until: 1<<63 - 1, newest: historyEventsMax, filter: history.Filter{
		Topic: req.GetTopic(), Partition: -1, Broker: req.GetBrokerId(), HasBroker: req.BrokerId != nil,
	}}
	if req.PartitionId != nil {
		a.filter.Partition = req.GetPartitionId()
	}
	if n := int(req.GetNewest()); n > 0 {
		a.newest = min(n, a.newest)
	}
	if at := req.GetFrom(); at != nil {
		next, err := nextOffset(ctx, l, at)
		if err != nil {
			return nil, err
		}
		if a.from = next; at.GetTimeMs() == 0 {
			a.from-- // the record at the offset itself is the first one
		}
	}
	if at := req.GetUntil(); at != nil {
		next, err := nextOffset(ctx, l, at)
		if err != nil {
			return nil, err
		}
		a.until = next
	}
	return a, nil
}

// visit takes the events of an entry.
func (a *historyAnswer) visit(before, after *fsm.Image, e *controllerv1.EntryApplied) error {
	if before.NextOffset() >= a.until {
		return history.ErrStop
	}
	if a.next != 0 && a.next != before.NextOffset() {
		a.add(&quorumv1.HistoryResponse{Kind: &quorumv1.HistoryResponse_Gap{Gap: &quorumv1.HistoryGap{From: a.next, Next: before.NextOffset()}}})
	}
	a.next = after.NextOffset()
	events, err := history.Events(before, e, a.filter)
	if err != nil {
		return err
	}
	for _, event := range events {
		if n := len(event.GetChanges()); n > historyChangesMax {
			event.Changes, event.ChangesLeftOut = event.GetChanges()[:historyChangesMax], int32(n-historyChangesMax) //nolint:gosec // at most a batch
		}
		a.add(&quorumv1.HistoryResponse{Kind: &quorumv1.HistoryResponse_Event{Event: event}})
	}
	return nil
}

// add keeps a part, and drops the oldest beyond the bounds.
func (a *historyAnswer) add(part *quorumv1.HistoryResponse) {
	a.parts = append(a.parts, part)
	a.bytes += proto.Size(part)
	for len(a.parts) > 1 && (len(a.parts) > a.newest || a.bytes > historyBytesMax) {
		a.bytes -= proto.Size(a.parts[0])
		a.parts = a.parts[1:]
		a.leftOut++
	}
}

func (a *historyAnswer) send(node int32, l *history.Log, stream grpc.ServerStreamingServer[quorumv1.HistoryResponse]) error {
	for _, part := range a.parts {
		if err := stream.Send(part); err != nil {
			return err
		}
	}
	end := &quorumv1.HistoryEnd{NodeId: node, NextMetadataOffset: a.next, LeftOut: a.leftOut}
	if spans := l.Spans(); len(spans) > 0 {
		end.FirstMetadataOffset = spans[0].First
	}
	return stream.Send(&quorumv1.HistoryResponse{Kind: &quorumv1.HistoryResponse_End{End: end}})
}
