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

// pendingSet holds the brokers a heartbeat of which is being decided: one of each at a time, whatever the number of its
// streams. The next heartbeat asks again; a goodbye is said only once, and waits.
type pendingSet struct {
	// mu guards goodbyes.
	mu sync.Mutex
	// goodbyes decides what waits, nil where nothing does.
	goodbyes map[int32]func()
}

// admission is what becomes of a heartbeat that needs a decision.
type admission int

const (
	// begins: the caller has it decided now, and what leave returns after it.
	begins admission = iota
	// waits: it is a goodbye, which will be decided.
	waits
	// busy: another one of the broker is being decided, or another goodbye waits.
	busy
)

// enter admits a heartbeat of a broker; decide is kept if it is a goodbye that has to wait.
func (p *pendingSet) enter(broker int32, goodbye bool, decide func()) admission {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting, taken := p.goodbyes[broker]
	switch {
	case !taken:
		p.goodbyes[broker] = nil
		return begins
	case goodbye && waiting == nil:
		p.goodbyes[broker] = decide
		return waits
	}
	return busy
}

// run decides what enter admitted, and then the goodbye that came meanwhile.
func (p *pendingSet) run(broker int32, decide func()) {
	for decide != nil {
		decide()
		decide = p.leave(broker)
	}
}

// leave removes a broker, or returns what is to be decided next.
func (p *pendingSet) leave(broker int32) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.goodbyes[broker]
	if next == nil {
		delete(p.goodbyes, broker)
	} else {
		p.goodbyes[broker] = nil
	}
	return next
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
