package rpc

import (
	"context"
	"sync"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// brokerService is what brokers ask for. See BrokerService in broker.proto; session.go has the sessions.
type brokerService struct {
	controllerv1.UnimplementedBrokerServiceServer
	Deps
	// pending are the brokers a heartbeat of which is being decided.
	pending pendingSet
}

// Register has package controller decide it.
func (s *brokerService) Register(ctx context.Context, req *controllerv1.RegisterRequest) (*controllerv1.RegisterResponse, error) {
	return do(ctx, s.Deps, controller.RegisterBroker, req, byBroker(ctx, "RegisterBroker"))
}

// AlterPartitions has package controller decide it.
func (s *brokerService) AlterPartitions(ctx context.Context, req *controllerv1.AlterPartitionsRequest) (*controllerv1.AlterPartitionsResponse, error) {
	return do(ctx, s.Deps, controller.AlterPartitions, req, byBroker(ctx, "AlterPartitions"))
}

// ReserveProducerIDs has package controller decide it.
func (s *brokerService) ReserveProducerIDs(ctx context.Context, req *controllerv1.ReserveProducerIDsRequest) (*controllerv1.ReserveProducerIDsResponse, error) {
	return do(ctx, s.Deps, controller.ReserveProducerIDs, req, byBroker(ctx, "ReserveProducerIDs"))
}

// pendingSet holds brokers. It lets one heartbeat of each be decided at a time, whatever the number of its streams.
type pendingSet struct {
	// mu guards ids.
	mu  sync.Mutex
	ids map[int32]struct{}
}

// enter adds a broker, unless it is there.
func (p *pendingSet) enter(id int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.ids[id]; ok {
		return false
	}
	p.ids[id] = struct{}{}
	return true
}

func (p *pendingSet) leave(id int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ids, id)
}
