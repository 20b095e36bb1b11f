package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// askPause is between two rounds of asking who has not answered.
const askPause = 250 * time.Millisecond

// nodes are connections to quorum nodes, by address, made when they are first used. One goroutine uses it, but for
// the requests of one round.
type nodes struct {
	opts  Options
	mu    sync.Mutex
	conns map[string]*grpc.ClientConn // guarded by mu
}

func (n *nodes) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, conn := range n.conns {
		conn.Close()
	}
	n.conns = nil
}

func (n *nodes) client(address string) (quorumv1.QuorumServiceClient, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if conn, ok := n.conns[address]; ok {
		return quorumv1.NewQuorumServiceClient(conn), nil
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if n.opts.Dial != nil {
		options = append(options, grpc.WithContextDialer(n.opts.Dial))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, err
	}
	if n.conns == nil {
		n.conns = map[string]*grpc.ClientConn{}
	}
	n.conns[address] = conn
	return quorumv1.NewQuorumServiceClient(conn), nil
}

// call makes one request to one node within the time of an attempt.
func call[R any](ctx context.Context, n *nodes, address string, do func(context.Context, quorumv1.QuorumServiceClient) (R, error)) (R, error) {
	return callWithin(ctx, n, n.opts.AttemptTimeout, address, do)
}

// callWithin makes one request to one node within a time.
func callWithin[R any](ctx context.Context, n *nodes, timeout time.Duration, address string,
	do func(context.Context, quorumv1.QuorumServiceClient) (R, error),
) (R, error) {
	var none R
	client, err := n.client(address)
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return do(ctx, client)
}

// ask asks one node for its status.
func (n *nodes) ask(ctx context.Context, address string) (*quorumv1.StatusResponse, error) {
	return call(ctx, n, address, func(ctx context.Context, c quorumv1.QuorumServiceClient) (*quorumv1.StatusResponse, error) {
		return c.Status(ctx, &quorumv1.StatusRequest{})
	})
}

// askUntil asks every node until all have answered or ctx ends; then the error says who has not, and why.
func (n *nodes) askUntil(ctx context.Context, addresses []string) ([]*quorumv1.StatusResponse, error) {
	answers, told := make([]*quorumv1.StatusResponse, len(addresses)), ""
	for {
		errs := n.askRound(ctx, addresses, answers)
		waiting := describeWaiting(addresses, errs)
		if waiting == "" {
			return answers, nil
		}
		if waiting != told {
			n.opts.Progress(waiting)
			told = waiting
		}
		select {
		case <-time.After(askPause):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("%s", waiting), ctx.Err())
		}
	}
}

// askRound asks, at once, every node that has not answered.
func (n *nodes) askRound(ctx context.Context, addresses []string, answers []*quorumv1.StatusResponse) []error {
	errs := make([]error, len(addresses))
	var wg sync.WaitGroup
	for i, address := range addresses {
		if answers[i] == nil {
			wg.Go(func() { answers[i], errs[i] = n.ask(ctx, address) })
		}
	}
	wg.Wait()
	return errs
}

// describeWaiting is empty when nobody failed.
func describeWaiting(addresses []string, errs []error) string {
	var tried []string
	for i, err := range errs {
		if err != nil {
			tried = append(tried, fmt.Sprintf("%s: %v", addresses[i], err))
		}
	}
	if len(tried) == 0 {
		return ""
	}
	return fmt.Sprintf("waiting for %d of %d nodes: %s", len(tried), len(addresses), strings.Join(tried, "; "))
}
