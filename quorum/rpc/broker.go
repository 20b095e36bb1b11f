package rpc

import (
	"context"
	"sync"

	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/controller"
)

// brokerService is what brokers ask for. See BrokerService in broker.proto; session.go has the sessions.
type brokerService struct {
	controllerv1.UnimplementedBrokerServiceServer
	Deps
	desk *frontDesk
	// reports holds one token for each inventory that is being received.
	reports chan struct{}
}

// Register has package controller decide it.
func (s *brokerService) Register(ctx context.Context, req *controllerv1.RegisterRequest) (*controllerv1.RegisterResponse, error) {
	by := byBroker(ctx, "RegisterBroker")
	by.prompt = false // a refusal ends the broker's process
	return do(ctx, s.Deps, controller.RegisterBroker, req, by)
}

// AlterPartitions has package controller decide it.
func (s *brokerService) AlterPartitions(ctx context.Context, req *controllerv1.AlterPartitionsRequest) (*controllerv1.AlterPartitionsResponse, error) {
	return do(ctx, s.Deps, controller.AlterPartitions, req, byBroker(ctx, "AlterPartitions"))
}

// ReserveProducerIDs has package controller decide it.
func (s *brokerService) ReserveProducerIDs(ctx context.Context, req *controllerv1.ReserveProducerIDsRequest) (*controllerv1.ReserveProducerIDsResponse, error) {
	return do(ctx, s.Deps, controller.ReserveProducerIDs, req, byBroker(ctx, "ReserveProducerIDs"))
}

// frontDesk is the Desk of all sessions.
type frontDesk struct {
	// mu guards desk.
	mu   sync.Mutex
	desk *Desk[func()]
}

func newFrontDesk() *frontDesk { return &frontDesk{desk: NewDesk[func()]()} }

func (f *frontDesk) take(s *BrokerSession, img *fsm.Image, req *controllerv1.SessionRequest, decide func()) Handling {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.desk.Take(s, img, req, decide)
}

func (f *frontDesk) end(s *BrokerSession, img *fsm.Image, byPeer bool) (broker int32, epoch int64, gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.desk.End(s, img, byPeer)
}

func (f *frontDesk) decided(broker int32) (func(), bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.desk.Decided(broker)
}

// run decides a heartbeat, and then the goodbye that came meanwhile.
func (f *frontDesk) run(broker int32, decide func()) {
	for more := true; more; {
		decide()
		decide, more = f.decided(broker)
	}
}
