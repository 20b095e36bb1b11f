package active

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/skiffmq/skiff/fsm"
	"github.com/skiffmq/skiff/quorum/controller"
)

// probe attempts a connection in a goroutine of its own. The Core bounds how many there are, and Timeout how long each
// lives.
func (l *Loop) probe(ctx context.Context, p Probe) {
	if l.cfg.Dial == nil {
		l.box.post(ProbeAnswered{ID: p.ID, BrokerID: p.BrokerID, Result: controller.ProbeFailed})
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, p.Timeout)
		defer cancel()
		remote := ""
		conn, err := l.cfg.Dial(ctx, p.Address)
		if err == nil {
			remote = conn.RemoteAddr().String()
			_ = conn.Close() // nothing was sent, so nothing can be lost
		}
		l.box.post(ProbeAnswered{ID: p.ID, BrokerID: p.BrokerID, Result: probeResult(err), Remote: remote})
	}()
}

// probeResult reads the error of a dial. Only the host's own answer that nobody listens counts as refused.
func probeResult(err error) controller.ProbeResult {
	var timeout net.Error
	switch {
	case err == nil:
		return controller.ProbeAccepted
	case errors.Is(err, syscall.ECONNREFUSED):
		return controller.ProbeRefused
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return controller.ProbeTimedOut
	}
	return controller.ProbeFailed
}

// ChangesBrokers tells whether an entry may have given the node a broker to connect to: then the Core wants to hear of
// it by a BrokersChanged.
func ChangesBrokers(res fsm.Result) bool {
	if res.Delta == nil {
		return false
	}
	for _, b := range res.Delta.Brokers {
		if b.New != nil && !b.New.Fenced || b.Old != nil && !b.Old.Fenced {
			return true
		}
	}
	return false
}
