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
	streams openStreams
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

// pendingSet holds decisions that are awaited. It lets one heartbeat and one goodbye of each broker be decided at a
// time, whatever the number of its streams. A goodbye has a place of its own because it is said only once.
type pendingSet struct {
	// mu guards keys.
	mu   sync.Mutex
	keys map[pendingKey]struct{}
}

type pendingKey struct {
	broker  int32
	goodbye bool
}

func pendingFor(req *controllerv1.SessionRequest) pendingKey {
	return pendingKey{broker: req.GetBrokerId(), goodbye: req.GetGoodbye()}
}

// enter adds a decision, unless it is there.
func (p *pendingSet) enter(key pendingKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.keys[key]; ok {
		return false
	}
	p.keys[key] = struct{}{}
	return true
}

func (p *pendingSet) leave(key pendingKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.keys, key)
}

// openStreams counts the sessions of each broker: only the end of the last one says something.
type openStreams struct {
	// mu guards of.
	mu sync.Mutex
	of map[int32]int
}

func (o *openStreams) enter(broker int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of[broker]++
}

// leave returns how many are left.
func (o *openStreams) leave(broker int32) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of[broker]--
	left := o.of[broker]
	if left == 0 {
		delete(o.of, broker)
	}
	return left
}
