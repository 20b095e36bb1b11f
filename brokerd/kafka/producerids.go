package kafka

import (
	"context"
	"fmt"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
)

// producerIDs gives out producer ids from blocks that it asks of the controller. What is left of a block when the process
// ends is never used, by anybody.
type producerIDs struct {
	// turn holds one token; whoever has it owns left and count.
	turn chan struct{}
	// first id of what is left of the block, and how many there are.
	first int64
	count int32
	// reserve asks for a block.
	reserve func(ctx context.Context) (first int64, count int32, err error)
}

// newProducerIDs returns a producerIDs that has no block yet.
func newProducerIDs(reserve func(context.Context) (int64, int32, error)) *producerIDs {
	p := &producerIDs{turn: make(chan struct{}, 1), reserve: reserve}
	p.turn <- struct{}{}
	return p
}

// next returns an id that nobody else gets. One caller asks for a block, the others wait for their turn.
func (p *producerIDs) next(ctx context.Context) (int64, error) {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { p.turn <- struct{}{} }()
	if p.count == 0 {
		first, count, err := p.reserve(ctx)
		if err != nil {
			return 0, err
		}
		if first < 0 || count <= 0 {
			return 0, fmt.Errorf("controller gave a block of %d producer ids from %d", count, first)
		}
		p.first, p.count = first, count
	}
	id := p.first
	p.first++
	p.count--
	return id, nil
}

// reserveProducerIDs asks the controller for a block in the name of this broker.
func (s *Server) reserveProducerIDs(ctx context.Context) (int64, int32, error) {
	resp, err := s.config.Controller.ReserveProducerIDs(ctx, &controllerv1.ReserveProducerIDsRequest{
		BrokerId:    s.config.NodeID,
		BrokerEpoch: s.config.BrokerEpoch(),
	})
	if err != nil {
		return 0, 0, fmt.Errorf("reserve producer ids: %w", err)
	}
	return resp.GetFirstProducerId(), resp.GetCount(), nil
}
