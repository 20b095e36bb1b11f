package client

import (
	"context"
	"time"

	"google.golang.org/grpc/connectivity"

	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	quorumv1 "github.com/skiffmq/skiff/proto/quorum/v1"
)

// probeTimeout bounds one question to one node.
const probeTimeout = time.Second

// search asks all known addresses who is active, until one is. Everybody who needs the active controller shares it.
type search struct {
	// done is closed at its end; then err is set if no node can help.
	done chan struct{}
	err  error
	// waiters is guarded by Client.mu; without any the search ends.
	waiters int
	cancel  context.CancelFunc
	// hints brings addresses that are worth a question now. Invariant: buffered, and never waited for.
	hints chan string
}

// hint tells the search of an address.
func (s *search) hint(addr string) {
	select {
	case s.hints <- addr:
	default: // it will be asked in its turn
	}
}

// locate returns the active controller's address, and searches for it if need be. It returns the error of ctx,
// ErrClosed, or an *Error if every known node belongs to another cluster.
func (c *Client) locate(ctx context.Context) (string, error) {
	for {
		addr, s := c.joinSearch()
		if addr != "" {
			return addr, nil
		}
		var err error
		select {
		case <-s.done:
			err = s.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-c.life.Done():
			err = ErrClosed
		}
		c.leaveSearch(s)
		if err != nil {
			return "", err
		}
	}
}

// joinSearch returns who is believed to be active, or else the search for it.
func (c *Client) joinSearch() (string, *search) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active != "" {
		return c.active, nil
	}
	if c.searching == nil {
		ctx, cancel := context.WithCancel(c.life)
		c.searching = &search{done: make(chan struct{}), cancel: cancel, hints: make(chan string, maxAddresses)}
		go c.search(ctx, c.searching)
	}
	c.searching.waiters++
	return "", c.searching
}

func (c *Client) leaveSearch(s *search) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.waiters--
	if s.waiters == 0 {
		s.cancel()
	}
}

// search runs one prober for each address and takes the first that finds an active controller.
func (c *Client) search(ctx context.Context, s *search) {
	defer s.cancel()
	found := make(chan finding, 1)
	wakes := map[string]chan struct{}{}
	start := func(addr string) {
		if wake, ok := wakes[addr]; ok {
			select {
			case wake <- struct{}{}:
			default:
			}
			return
		}
		wakes[addr] = make(chan struct{}, 1)
		go c.probe(ctx, addr, wakes[addr], found)
	}
	for _, addr := range c.addresses() {
		start(addr)
	}
	active, strangers := "", 0
	for active == "" && strangers < len(wakes) && ctx.Err() == nil {
		select {
		case f := <-found:
			active = f.active
			if f.stranger != nil {
				strangers++
				s.err = f.stranger
			}
		case addr := <-s.hints:
			if len(wakes) < 2*maxAddresses {
				start(addr)
			}
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if active != "" {
		c.active = active
	}
	if strangers < len(wakes) {
		s.err = nil
	}
	c.searching = nil
	close(s.done)
}

// finding ends a prober: its node is active, or of another cluster.
type finding struct {
	active   string
	stranger *Error
}

// probe asks one node again and again whether it is active.
func (c *Client) probe(ctx context.Context, addr string, wake <-chan struct{}, found chan<- finding) {
	tell := func(f finding) {
		select {
		case found <- f:
		case <-ctx.Done():
		}
	}
	var p pause
	for {
		st, err := c.probeOnce(ctx, addr)
		switch e := refusalIn(err); {
		case e != nil && e.Code == controllerv1.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID:
			tell(finding{stranger: e})
			return
		case err != nil:
			c.cfg.Logger.Trace("no answer to the search for the active controller", "address", addr, "error", err)
		case st.GetActive():
			tell(finding{active: addr})
			return
		case st.GetActiveController() != "" && st.GetActiveController() != addr:
			c.learn(st.GetActiveController())
		}
		if !p.wait(ctx, wake) {
			return
		}
	}
}

// probeOnce asks one node for its status.
func (c *Client) probeOnce(ctx context.Context, addr string) (*quorumv1.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := c.pool.get(addr)
	if err != nil {
		return nil, err
	}
	if conn.GetState() == connectivity.TransientFailure {
		conn.ResetConnectBackoff() // the pause between two probes is ours
	}
	return quorumv1.NewQuorumServiceClient(conn).Status(ctx, &quorumv1.StatusRequest{})
}

// believe takes addr for the active controller until it proves otherwise.
func (c *Client) believe(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active = addr
}

// disbelieve forgets addr as the active controller, if it still is believed to be.
func (c *Client) disbelieve(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == addr {
		c.active = ""
	}
}
