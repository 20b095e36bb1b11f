package quorumtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Network connects hosts by name. It can cut, delay, refuse and close; it never reorders or loses bytes of a
// connection, as TCP does not: what is sent into a cut arrives when the cut heals, if the connection lives so long.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener // by address; guarded by mu
	links     map[direction]*link  // guarded by mu
	conns     map[*conn]struct{}   // guarded by mu
	dead      map[string]bool      // hosts whose process was killed and has not listened since; guarded by mu
	nextPort  int                  // guarded by mu
}

// direction is one way between two hosts.
type direction struct{ from, to string }

// NewNetwork gives a network without hosts, on which everything works.
func NewNetwork() *Network {
	return &Network{
		listeners: make(map[string]*listener), links: make(map[direction]*link),
		conns: make(map[*conn]struct{}), dead: make(map[string]bool), nextPort: 1024,
	}
}

// Host is a place on the network.
type Host struct {
	// Name of the host: the host part of its addresses.
	Name string
	net  *Network
}

// Host gives the host of that name.
func (n *Network) Host(name string) *Host { return &Host{Name: name, net: n} }

// Listen opens a port; 0 chooses one.
func (h *Host) Listen(port int) (net.Listener, error) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == 0 {
		n.nextPort++
		port = n.nextPort
	}
	addr := address(net.JoinHostPort(h.Name, fmt.Sprint(port)))
	if _, taken := n.listeners[string(addr)]; taken {
		return nil, &net.OpError{Op: "listen", Net: "mem", Addr: addr, Err: syscall.EADDRINUSE}
	}
	l := &listener{net: n, addr: addr, queue: make(chan *conn), closed: make(chan struct{})}
	n.listeners[string(addr)] = l
	delete(n.dead, h.Name)
	return l, nil
}

// Dial connects to host:port. Where nothing listens it is refused; across a cut it hangs until ctx ends.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	n := h.net
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "mem", Addr: address(addr), Err: err}
	}
	there, back := n.link(h.Name, host), n.link(host, h.Name)
	for _, l := range []*link{there, back} {
		if err := l.pass(ctx); err != nil {
			return fail(err)
		}
	}
	n.mu.Lock()
	l := n.listeners[addr]
	if n.dead[host] || n.dead[h.Name] {
		l = nil
	}
	n.mu.Unlock()
	if l == nil {
		return fail(syscall.ECONNREFUSED)
	}
	near, far := n.connect(address(net.JoinHostPort(h.Name, "0")), address(addr), there, back)
	select {
	case l.queue <- far:
		return near, nil
	case <-l.closed:
		near.Close()
		far.Close()
		return fail(syscall.ECONNREFUSED)
	case <-ctx.Done():
		near.Close()
		far.Close()
		return fail(ctx.Err())
	}
}

func (n *Network) connect(from, to address, there, back *link) (near, far *conn) {
	out, in := newHalf(there), newHalf(back)
	near = &conn{net: n, in: in, out: out, local: from, remote: to}
	far = &conn{net: n, in: out, out: in, local: to, remote: from}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[near], n.conns[far] = struct{}{}, struct{}{}
	return near, far
}

func (n *Network) link(from, to string) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := direction{from, to}
	l := n.links[d]
	if l == nil {
		l = &link{changed: make(chan struct{})}
		n.links[d] = l
	}
	return l
}

// Cut stops everything from one host to another, in that direction only.
func (n *Network) Cut(from, to string) { n.link(from, to).set(func(l *link) { l.down = true }) }

// Heal ends a cut.
func (n *Network) Heal(from, to string) { n.link(from, to).set(func(l *link) { l.down = false }) }

// Delay makes every byte from one host to another take that long, in that direction only.
func (n *Network) Delay(from, to string, d time.Duration) {
	n.link(from, to).set(func(l *link) { l.delay = d })
}

// Partition cuts a from b both ways.
func (n *Network) Partition(a, b string) {
	n.Cut(a, b)
	n.Cut(b, a)
}

// Rejoin heals a and b both ways.
func (n *Network) Rejoin(a, b string) {
	n.Heal(a, b)
	n.Heal(b, a)
}

// Kill does to the network what the system does when a host's process is killed: its ports refuse, and then its
// connections are reset. It ends when the host listens again.
func (n *Network) Kill(host string) {
	n.mu.Lock()
	n.dead[host] = true
	n.mu.Unlock()
	n.Reset(host)
}

// KillSeenBy is a Kill of which only one peer has learned yet: the connections with the others are still to be reset.
func (n *Network) KillSeenBy(host, peer string) {
	n.mu.Lock()
	n.dead[host] = true
	n.mu.Unlock()
	n.reset(host, func(c *conn) bool { return c.remote.host() == peer })
}

// Reset breaks every connection of a host; it can be dialed as before.
func (n *Network) Reset(host string) { n.reset(host, func(*conn) bool { return true }) }

func (n *Network) reset(host string, which func(*conn) bool) {
	for _, c := range n.connsOf(host) {
		if which(c) {
			c.in.abort(syscall.ECONNRESET)
			c.out.abort(syscall.ECONNRESET)
		}
	}
}

func (n *Network) connsOf(host string) []*conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []*conn
	for c := range n.conns {
		if c.local.host() == host {
			out = append(out, c)
		}
	}
	return out
}

// link is the state of one direction.
type link struct {
	mu      sync.Mutex
	down    bool          // guarded by mu
	delay   time.Duration // guarded by mu
	changed chan struct{} // closed and replaced by set; guarded by mu
}

func (l *link) set(change func(*link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *link) state() (down bool, delay time.Duration, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down, l.delay, l.changed
}

// pass waits until the link is up, and for its delay.
func (l *link) pass(ctx context.Context) error {
	for {
		down, delay, changed := l.state()
		if !down {
			return sleep(ctx, delay)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return os.ErrDeadlineExceeded
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return os.ErrDeadlineExceeded
	}
}

// address is a net.Addr of the network.
type address string

func (a address) Network() string { return "mem" }
func (a address) String() string  { return string(a) }

func (a address) host() string {
	host, _, err := net.SplitHostPort(string(a))
	if err != nil {
		return string(a)
	}
	return host
}

// listener hands out the far ends of connections.
type listener struct {
	net     *Network
	addr    address
	queue   chan *conn
	closed  chan struct{}
	closing sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.closing.Do(func() {
		close(l.closed)
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		delete(l.net.listeners, string(l.addr))
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }
